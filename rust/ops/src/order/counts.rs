//! How often values occur.

use std::ops::AddAssign;

use rushlight_autograd::Tensor;
use rushlight_core::alloc::{filled, list};
use rushlight_core::{DType, Device, Element, Error, Result, Scalar};

use crate::convert::to_vec;
use crate::derive::Derivative;
use crate::mapped::Mapped;
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Spec, Traits, Variants};
use crate::value::{Args, Output};

pub static BINCOUNT: Row = Row {
    name: "bincount",
    signature: "(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor",
    doc: "How often each of 0, 1, 2, .. occurs, or the sum of its weights.

    >>> torch.bincount(torch.tensor([1, 2, 1]))
    tensor([0, 2, 1])",
    dtypes: DTypes::INTS,
    traits: Traits::NEEDS_VALUES,
    mapped: Mapped::Each,
    run: Run::Body(bincount),
    derivative: Derivative::Missing("aten::bincount"),
    samples: &["i(4, 9)", "i(4, 9), minlength=8", "i(4, 3), torch.tensor([0.5, 1., 2.])"],
    errors: &[("t(2, 2).long()", "RuntimeError", "bincount only supports 1-d non-negative integral inputs.")],
    reference: "np.bincount(self, weights, minlength)",
    ..Row::BASE
};

pub static HISTC: Row = Row {
    name: "histc",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    doc: "How many elements fall into each of `bins` equal parts of `min` to `max` (of the elements' own range where those are equal).

    >>> torch.histc(torch.tensor([1., 2., 1.]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])",
    out: Out::new(Accepts::Same, &["torch.histogram: input tensor and hist tensor should have the same dtype, but got input {result} and hist {out}"]),
    dtypes: DTypes::FLOATS,
    run: Run::Kernel(Kernel { infer: histc_infer, cpu: histc }),
    derivative: Derivative::NonDifferentiable("its result is a count"),
    samples: &["t(9), 4", "t(3, 4), 5, -1, 1"],
    errors: &[
        ("t(3), 0", "RuntimeError", "torch.histogram(): bins must be > 0, but got 0 for dimension 0"),
        ("t(3), 3, 3, 1", "RuntimeError", "torch.histc: max must be larger than min"),
        ("t(3) * float('nan')", "RuntimeError", "torch.histc: range of [nan, nan] is not finite"),
    ],
    ..Row::BASE
};

fn bincount(args: &Args) -> Result<Output> {
    let own = args.valued(0)?;
    let minlength = args.int(2)?;
    if !own.dtype().is_integral() {
        return Err(Error::unsupported("bincount_cpu", own.dtype()));
    }
    if minlength < 0 {
        return Err(Error::runtime("minlength should be >= 0"));
    }
    let only = || Error::runtime("bincount only supports 1-d non-negative integral inputs.");
    if own.rank() == 1 && own.numel() == 0 {
        return crate::create::zeros(&[minlength as isize], DType::I64, own.device()).map(Output::Tensor);
    }
    if own.rank() != 1 {
        return Err(only());
    }
    let values = to_vec::<i64>(own)?;
    let Some(&largest) = values.iter().max() else { return Err(only()) };
    if values.iter().any(|&value| value < 0) {
        return Err(only());
    }
    let bins = largest.saturating_add(1).max(minlength) as isize;
    let weights = args.optional_tensor(1);
    if weights.is_some_and(|weights| weights.rank() != 1 || weights.numel() != values.len()) {
        return Err(Error::runtime("weights should be 1-d and have the same length as input"));
    }
    match weights {
        None => counted(bins, values.into_iter().map(|value| (value, 1i64))),
        Some(weights) if weights.dtype() == DType::F32 => {
            counted(bins, values.into_iter().zip(to_vec::<f32>(weights)?))
        }
        Some(weights) => counted(bins, values.into_iter().zip(to_vec::<f64>(weights)?)),
    }
    .map(Output::Tensor)
}

/// The sums of what belongs to each bin. The result is the table: there may be more bins than could be held twice.
fn counted<T: Element + AddAssign>(bins: isize, values: impl Iterator<Item = (i64, T)>) -> Result<Tensor> {
    let result = crate::create::zeros(&[bins], T::DTYPE, Device::Cpu)?;
    let pin = result.storage().pin()?;
    for (value, weight) in values {
        // SAFETY: values are not negative and less than `bins`, and the fresh result is contiguous.
        unsafe { *pin.as_ptr().cast::<T>().add(value as usize) += weight };
    }
    drop(pin);
    Ok(result)
}

fn histc_infer(args: &Args) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    let bins = args.int(1)?;
    if !own.dtype().is_floating() {
        // Where the range is asked of the elements that comes first, then the edges, then the count.
        let counted = DTypes::INTS.has(own.dtype()) || own.dtype().is_complex();
        let asked = args.scalar(2)?.f64() == args.scalar(3)?.f64() && own.numel() > 0;
        let kernel = match own.dtype() {
            dtype if asked && !DTypes::REAL.union(DTypes::BOOL).has(dtype) => "aminmax_cpu",
            _ if !counted => "linspace_cpu",
            _ => "histogram_cpu",
        };
        return Err(Error::unsupported(kernel, own.dtype()));
    }
    if bins <= 0 {
        return Err(Error::runtime(format!("torch.histogram(): bins must be > 0, but got {bins} for dimension 0")));
    }
    for place in [2, 3] {
        crate::create::check_fits(args.scalar(place)?, own.dtype())?;
    }
    Ok(vec![Spec::new(&[bins as isize], own.dtype(), own)])
}

fn histc(args: &Args, results: &[Tensor]) -> Result<()> {
    let own = args.tensor(0)?;
    let bins = args.int(1)? as usize;
    let (mut low, mut high) = (args.scalar(2)?.f64(), args.scalar(3)?.f64());
    let values = to_vec::<f64>(own)?;
    if low == high && !values.is_empty() {
        // No number among them: then the range is none, and refused.
        low = values.iter().copied().reduce(|a, b| if a.is_nan() || a <= b { a } else { b }).unwrap_or(low);
        high = values.iter().copied().reduce(|a, b| if a.is_nan() || a >= b { a } else { b }).unwrap_or(high);
    }
    if low == high {
        low -= 1.0;
        high += 1.0;
    }
    if !(low.is_finite() && high.is_finite()) {
        let [low, high] = [low, high].map(crate::create::c_text);
        return Err(Error::runtime(format!("torch.histc: range of [{low}, {high}] is not finite")));
    }
    if low > high {
        return Err(Error::runtime("torch.histc: max must be larger than min"));
    }
    let inside = values.into_iter().filter(|value| (low..=high).contains(value));
    let bin = |value: f64| (((value - low) / (high - low) * bins as f64) as usize).min(bins - 1);
    if bins <= own.numel().max(TABLE) {
        let mut counts = filled(0f64, bins)?;
        inside.for_each(|value| counts[bin(value)] += 1.0);
        return crate::copy::copy(&results[0], &crate::create::from_slice(&counts)?);
    }
    // A table would be longer than what it counts.
    let mut found = list(own.numel())?;
    found.extend(inside.map(bin));
    found.sort_unstable();
    crate::create::fill(&results[0], Scalar::ZERO)?;
    for same in found.chunk_by(|a, b| a == b) {
        let place = results[0].layout().slice(0, same[0] as isize, 1, 1);
        crate::create::fill(&Tensor::view_of(&results[0], place), Scalar::Float(same.len() as f64))?;
    }
    Ok(())
}

/// Bins up to which counting is worth a table whatever the number of elements.
const TABLE: usize = 1 << 16;
