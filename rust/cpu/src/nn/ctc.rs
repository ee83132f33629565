//! Connectionist temporal classification: the probability of a labelling, summed over all its alignments with time.
//!
//! A path stays at a position of the labelling, which has blanks between and around its labels, or moves to the next
//! one, and past a blank between two different labels. Sums over paths from the start (alpha) and to the end (beta) are
//! logarithms.

use rushlight_core::Result;
use rushlight_core::alloc::filled;

use crate::float::Float;

/// One sequence: its labels, how many of its steps count, and where its data are.
pub struct Sequence<'a> {
    pub labels: &'a [i64],
    pub steps: usize,
    pub blank: i64,
    /// The number of labels.
    pub classes: usize,
}

impl Sequence<'_> {
    /// The number of positions of the labelling with its blanks.
    pub fn places(&self) -> usize {
        2 * self.labels.len() + 1
    }

    fn label(&self, place: usize) -> i64 {
        if place.is_multiple_of(2) { self.blank } else { self.labels[place / 2] }
    }

    /// Whether a path may reach this position from two positions before.
    fn skips(&self, place: usize) -> bool {
        place > 1 && place % 2 == 1 && self.labels[place / 2] != self.labels[place / 2 - 1]
    }

    /// The negative logarithm of the labelling's probability. `alpha` has a row of positions for each step.
    ///
    /// # Safety
    /// `logs` has `classes` numbers for each step, `stride` apart; labels and blank are classes.
    pub unsafe fn forward<T: Float>(&self, logs: *const T, stride: usize, alpha: &mut [T]) -> T {
        let lowest: T = number(f64::NEG_INFINITY);
        alpha.fill(lowest);
        let width = alpha.len() / self.steps.max(1);
        if self.steps == 0 {
            return number(if self.labels.is_empty() { 0.0 } else { f64::INFINITY });
        }
        // SAFETY: guaranteed by the caller (see `# Safety`).
        let log = |step: usize, place: usize| unsafe { *logs.add(step * stride + self.label(place) as usize) };
        (0..self.places().min(2)).for_each(|place| alpha[place] = log(0, place));
        for step in 1..self.steps {
            let (before, now) = alpha[(step - 1) * width..].split_at_mut(width);
            for place in 0..self.places() {
                let stay = before[place];
                let next = if place > 0 { before[place - 1] } else { lowest };
                let skip = if self.skips(place) { before[place - 2] } else { lowest };
                now[place] = sum(&[stay, next, skip]) + log(step, place);
            }
        }
        let last = &alpha[(self.steps - 1) * width..];
        let end = self.places() - 1;
        let before = if end > 0 { last[end - 1] } else { lowest };
        number::<T>(0.0) - sum(&[last[end], before])
    }

    /// The gradient of the loss with respect to normalised log-probabilities: the difference between the probabilities
    /// and those of the labelling's paths.
    ///
    /// # Safety
    /// Same as for `forward`; `out` has the same geometry as `logs`.
    pub unsafe fn backward<T: Float>(
        &self,
        logs: *const T,
        stride: usize,
        alpha: &[T],
        loss: T,
        grad: T,
        out: *mut T,
    ) -> Result<()> {
        let lowest: T = number(f64::NEG_INFINITY);
        if self.steps == 0 {
            return Ok(());
        }
        let width = alpha.len() / self.steps;
        let mut later = filled(lowest, width)?;
        let mut beta = filled(lowest, width)?;
        let mut paths = filled(lowest, self.classes)?;
        let end = self.places() - 1;
        for step in (0..self.steps).rev() {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            let log = |class: i64| unsafe { *logs.add(step * stride + class as usize) };
            for place in 0..=end {
                let onward = if step + 1 == self.steps {
                    number(if place + 1 >= end { 0.0 } else { f64::NEG_INFINITY })
                } else {
                    let next = if place < end { later[place + 1] } else { lowest };
                    let skip = if place + 2 <= end && self.skips(place + 2) { later[place + 2] } else { lowest };
                    sum(&[later[place], next, skip])
                };
                beta[place] = onward + log(self.label(place));
            }
            paths.fill(lowest);
            for place in 0..=end {
                let own = &mut paths[self.label(place) as usize];
                *own = sum(&[*own, alpha[step * width + place] + beta[place]]);
            }
            for class in 0..self.classes {
                let log = log(class as i64);
                let share = exp(paths[class] + loss - log);
                // SAFETY: guaranteed by the caller (see `# Safety`).
                unsafe { out.add(step * stride + class).write((exp(log) - share) * grad) };
            }
            std::mem::swap(&mut later, &mut beta);
        }
        Ok(())
    }
}

fn number<T: Float>(value: f64) -> T {
    <T as Float>::narrow(value)
}

fn exp<T: Float>(x: T) -> T {
    number(x.wide().exp())
}

/// The logarithm of the sum of exponentials.
fn sum<T: Float>(logs: &[T]) -> T {
    let top = logs.iter().fold(f64::NEG_INFINITY, |top, x| top.max(x.wide()));
    if top == f64::NEG_INFINITY {
        return number(top);
    }
    let total: f64 = logs.iter().map(|x| (x.wide() - top).exp()).sum();
    number(total.ln() + top)
}
