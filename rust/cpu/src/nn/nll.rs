//! The negative log-likelihood: one score picked from each column of classes.

use rushlight_core::Element;
use rushlight_par::Address;

use crate::pointwise::GRAIN;

/// Scores `(n, classes, spots)` at strides, and row-major targets `(n, spots)`.
#[derive(Clone, Copy)]
pub struct NllOperands<T> {
    pub scores: *const T,
    pub strides: [isize; 3],
    pub targets: *const i64,
    /// A weight for each class.
    pub weights: Option<*const T>,
    pub n: usize,
    pub classes: usize,
    pub spots: usize,
    /// Targets with this value are ignored.
    pub ignored: i64,
}

// SAFETY: addresses of operands that outlive the call and are only read.
unsafe impl<T> Sync for NllOperands<T> {}

/// The sum of the picked scores, and of their weights.
#[derive(Clone, Copy, Default)]
pub struct Sums {
    pub losses: f64,
    pub weights: f64,
}

impl<T: Element> NllOperands<T> {
    /// The class at `index` among the targets; `None` if it is ignored.
    ///
    /// # Safety
    /// `index` is less than `n * spots`.
    unsafe fn target(&self, index: usize) -> Result<Option<usize>, i64> {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        let target = unsafe { *self.targets.add(index) };
        if target == self.ignored {
            return Ok(None);
        }
        if target < 0 || target >= self.classes as i64 {
            return Err(target);
        }
        Ok(Some(target as usize))
    }

    /// # Safety
    /// The class exists.
    unsafe fn weight(&self, class: usize) -> f64 {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        self.weights.map_or(1.0, |weights| unsafe { (*weights.add(class)).to_scalar().f64() })
    }

    /// Sums minus the weighted scores of the targets, and writes each to `losses` if given. The error is a target that
    /// is not a class.
    ///
    /// # Safety
    /// The operands have the sizes of the fields, and so has `losses`.
    pub unsafe fn losses(&self, losses: Option<*mut T>) -> Result<Sums, i64> {
        let losses = losses.map(Address);
        let piece = |range: std::ops::Range<usize>| {
            let mut sums = Sums::default();
            for index in range {
                // SAFETY: guaranteed by the caller (see `# Safety`); `target` checks the class.
                unsafe {
                    let mut loss = 0.0;
                    if let Some(class) = self.target(index)? {
                        let (n, spot) = (index / self.spots, index % self.spots);
                        let at = n as isize * self.strides[0]
                            + class as isize * self.strides[1]
                            + spot as isize * self.strides[2];
                        let weight = self.weight(class);
                        loss = -weight * (*self.scores.offset(at)).to_scalar().f64();
                        sums.losses += loss;
                        sums.weights += weight;
                    }
                    if let Some(losses) = &losses {
                        losses.at(index).write(T::from_scalar(loss.into()));
                    }
                }
            }
            Ok(sums)
        };
        let join = |a: Result<Sums, i64>, b: Result<Sums, i64>| {
            let (a, b) = (a?, b?);
            Ok(Sums { losses: a.losses + b.losses, weights: a.weights + b.weights })
        };
        rushlight_par::parallel_reduce(self.n * self.spots, GRAIN / 16, piece, join).unwrap_or(Ok(Sums::default()))
    }

    /// Writes to row-major `out` (zeros before) minus the weighted gradient at each target; `gradient` returns it for
    /// the target's index.
    ///
    /// # Safety
    /// The operands other than `scores` have the sizes of the fields, and so has `out`.
    pub unsafe fn scatter(&self, out: *mut T, gradient: impl Fn(usize) -> f64 + Sync) -> Result<(), i64> {
        let out = Address(out);
        let piece = |range: std::ops::Range<usize>| {
            for index in range {
                // SAFETY: guaranteed by the caller (see `# Safety`); each target writes to its own element.
                unsafe {
                    if let Some(class) = self.target(index)? {
                        let (n, spot) = (index / self.spots, index % self.spots);
                        let at = (n * self.classes + class) * self.spots + spot;
                        out.at(at).write(T::from_scalar((-self.weight(class) * gradient(index)).into()));
                    }
                }
            }
            Ok(())
        };
        rushlight_par::parallel_reduce(self.n * self.spots, GRAIN / 16, piece, Result::and).unwrap_or(Ok(()))
    }
}
