//! Discrete Fourier transforms along one dimension, by rustfft.
//!
//! Every line is transformed separately, so the bits do not depend on the number of threads. Plans, which hold tables
//! of sines, are cached by length.

use rushlight_par::Address;
use std::collections::BTreeMap;
use std::sync::Arc;

use num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rushlight_core::Result;
use rushlight_core::alloc::{check_available, filled};
use rushlight_core::fork::{ForkMutex, Rank};
use rustfft::{Fft, FftNum, FftPlanner};

/// Plans of one precision, by length and direction.
pub struct Plans<T: FftNum> {
    complex: BTreeMap<(usize, bool), Arc<dyn Fft<T>>>,
    forward: BTreeMap<usize, Arc<dyn RealToComplex<T>>>,
    inverse: BTreeMap<usize, Arc<dyn ComplexToReal<T>>>,
}

impl<T: FftNum> Plans<T> {
    const fn new() -> Self {
        Plans { complex: BTreeMap::new(), forward: BTreeMap::new(), inverse: BTreeMap::new() }
    }
}

/// When more plans than this are cached, all are dropped.
const KEPT: usize = 64;

/// The precision of a transform.
pub trait Real: FftNum + Default {
    fn plans() -> &'static ForkMutex<Plans<Self>>;
    fn number(value: f64) -> Self;
}

macro_rules! real {
    ($($real:ty)*) => {$(
        impl Real for $real {
            fn plans() -> &'static ForkMutex<Plans<Self>> {
                static PLANS: ForkMutex<Plans<$real>> = ForkMutex::new(Rank::Tables, Plans::new());
                &PLANS
            }
            fn number(value: f64) -> Self {
                value as $real
            }
        }
    )*};
}

real! { f32 f64 }

/// The plan for `key`, made if it is missing and there is memory for its tables; the planner itself would abort.
fn kept<K: Ord, P: Clone>(
    plans: &mut BTreeMap<K, P>,
    key: K,
    room: Option<usize>,
    make: impl FnOnce() -> P,
) -> Result<P> {
    if let Some(plan) = plans.get(&key) {
        return Ok(plan.clone());
    }
    check_available(room)?;
    if plans.len() >= KEPT {
        plans.clear();
    }
    Ok(plans.entry(key).or_insert_with(make).clone())
}

/// The position of the lines of a dimension: `outer` blocks of `n` times `inner` elements.
#[derive(Clone, Copy)]
pub struct Lines {
    pub outer: usize,
    pub n: usize,
    pub inner: usize,
}

impl Lines {
    fn count(self) -> usize {
        self.outer * self.inner
    }

    /// The first element of a line whose dimension has `n` elements; consecutive elements are `inner` apart.
    fn first(self, line: usize, n: usize) -> usize {
        line / self.inner * n * self.inner + line % self.inner
    }
}

/// The bytes of a plan's tables. Bluestein's algorithm pads to less than four times the length, and holds a table
/// besides its data.
fn tables<T>(n: usize) -> Option<usize> {
    n.checked_mul(8 * size_of::<Complex<T>>())
}

/// The least number of elements worth a task.
const TASK: usize = 1 << 12;

/// Calls `work` with ranges of lines, in parallel.
fn each(lines: Lines, work: impl Fn(std::ops::Range<usize>) -> Result<()> + Sync) -> Result<()> {
    rushlight_par::try_parallel_for(lines.count(), TASK.div_ceil(lines.n.max(1)), work)
}

/// Transforms complex lines in place, times `scale`.
///
/// # Safety
/// The memory holds all lines, and nothing else accesses it.
pub unsafe fn complex<T: Real>(lines: Lines, data: *mut Complex<T>, forward: bool, scale: f64) -> Result<()> {
    let plan = kept(&mut T::plans().lock().complex, (lines.n, forward), tables::<T>(lines.n), || {
        let mut planner = FftPlanner::new();
        if forward { planner.plan_fft_forward(lines.n) } else { planner.plan_fft_inverse(lines.n) }
    })?;
    let (data, scale) = (Address(data), T::number(scale));
    each(lines, |stretch| {
        let mut line = filled(Complex::<T>::default(), lines.n)?;
        let mut scratch = filled(Complex::<T>::default(), plan.get_inplace_scratch_len())?;
        for at in stretch {
            let first = lines.first(at, lines.n);
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                for (i, element) in line.iter_mut().enumerate() {
                    *element = data.at(first + i * lines.inner).read_unaligned();
                }
                plan.process_with_scratch(&mut line, &mut scratch);
                for (i, element) in line.iter().enumerate() {
                    data.at(first + i * lines.inner).write(*element * scale);
                }
            }
        }
        Ok(())
    })
}

/// Transforms real lines to `n / 2 + 1` frequencies each; the others are conjugates of these.
///
/// # Safety
/// `from` holds the lines, `to` those of the results, and nothing else accesses them.
pub unsafe fn from_real<T: Real>(lines: Lines, from: *const T, to: *mut Complex<T>, scale: f64) -> Result<()> {
    let make = || RealFftPlanner::new().plan_fft_forward(lines.n);
    let plan = kept(&mut T::plans().lock().forward, lines.n, tables::<T>(lines.n), make)?;
    let half = lines.n / 2 + 1;
    let (from, to, scale) = (Address(from.cast_mut()), Address(to), T::number(scale));
    each(lines, |stretch| {
        let (mut line, mut found) = (filled(T::default(), lines.n)?, filled(Complex::<T>::default(), half)?);
        let mut scratch = filled(Complex::<T>::default(), plan.get_scratch_len())?;
        for at in stretch {
            let (first, last) = (lines.first(at, lines.n), lines.first(at, half));
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                for (i, element) in line.iter_mut().enumerate() {
                    *element = from.at(first + i * lines.inner).read_unaligned();
                }
                // It fails only for wrong lengths, and these are the plan's.
                let _ = plan.process_with_scratch(&mut line, &mut found, &mut scratch);
                for (i, element) in found.iter().enumerate() {
                    to.at(last + i * lines.inner).write(*element * scale);
                }
            }
        }
        Ok(())
    })
}

/// The inverse: `n / 2 + 1` frequencies become `n` real numbers.
///
/// # Safety
/// `from` holds the frequencies, `to` the lines, and nothing else accesses them.
pub unsafe fn to_real<T: Real>(lines: Lines, from: *const Complex<T>, to: *mut T, scale: f64) -> Result<()> {
    let make = || RealFftPlanner::new().plan_fft_inverse(lines.n);
    let plan = kept(&mut T::plans().lock().inverse, lines.n, tables::<T>(lines.n), make)?;
    let half = lines.n / 2 + 1;
    let (from, to, scale) = (Address(from.cast_mut()), Address(to), T::number(scale));
    each(lines, |stretch| {
        let (mut line, mut found) = (filled(Complex::<T>::default(), half)?, filled(T::default(), lines.n)?);
        let mut scratch = filled(Complex::<T>::default(), plan.get_scratch_len())?;
        for at in stretch {
            let (first, last) = (lines.first(at, half), lines.first(at, lines.n));
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                for (i, element) in line.iter_mut().enumerate() {
                    *element = from.at(first + i * lines.inner).read_unaligned();
                }
                // Only the real parts of frequencies that are their own conjugates count.
                line[0].im = T::default();
                if lines.n.is_multiple_of(2) {
                    line[half - 1].im = T::default();
                }
                // It fails only for wrong lengths and for non-zero imaginary parts there.
                let _ = plan.process_with_scratch(&mut line, &mut found, &mut scratch);
                for (i, element) in found.iter().enumerate() {
                    to.at(last + i * lines.inner).write(*element * scale);
                }
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_along_a_strided_dimension() {
        let lines = Lines { outer: 2, n: 5, inner: 3 };
        let data: Vec<f64> = (0..30).map(|i| (i * i % 17) as f64).collect();
        let (mut spectrum, mut back) = (vec![Complex::default(); 18], vec![0.0; 30]);
        // SAFETY: the vectors have the lengths of the lines.
        unsafe {
            from_real(lines, data.as_ptr(), spectrum.as_mut_ptr(), 1.0).unwrap();
            to_real(lines, spectrum.as_ptr(), back.as_mut_ptr(), 0.2).unwrap();
        }
        assert!((spectrum[0].re - (0..5).map(|i| data[3 * i]).sum::<f64>()).abs() < 1e-12);
        assert!(data.iter().zip(&back).all(|(a, b)| (a - b).abs() < 1e-12));
    }

    #[test]
    fn plans_are_forgotten_before_they_are_many() {
        for n in 1..200 {
            let mut data = vec![Complex::new(1f32, 0.0); n];
            // SAFETY: the vector is as long as the line.
            unsafe { complex(Lines { outer: 1, n, inner: 1 }, data.as_mut_ptr(), true, 1.0) }.unwrap();
            assert!((data[0].re - n as f32).abs() < 1e-3);
        }
        assert!(f32::plans().lock().complex.len() <= KEPT);
    }
}
