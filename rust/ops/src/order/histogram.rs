//! How often values occur.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::filled;
use rushlight_core::{DType, Error, Result};

use crate::convert::to_vec;
use crate::derive::Derivative;
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
    run: Run::Body(bincount),
    derivative: Derivative::NonDifferentiable("its operand is whole numbers"),
    samples: &["i(4, 9)", "i(4, 9), minlength=8", "i(4, 3), torch.tensor([0.5, 1., 2.])"],
    errors: &[("t(2, 2).long()", "RuntimeError", "bincount only supports 1-d non-negative integral inputs.")],
    reference: "np.bincount(self, weights, minlength)",
    ..Row::BASE
};

pub static HISTC: Row = Row {
    name: "histc",
    variants: Variants::BOTH.and(Variants::OUT),
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
    ],
    ..Row::BASE
};

fn bincount(args: &Args) -> Result<Output> {
    let own = args.valued(0)?;
    let minlength = args.int(2)?;
    if !own.dtype().is_integral() {
        return Err(Error::not_implemented(format!("\"bincount_cpu\" not implemented for '{}'", own.dtype().title())));
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
    let bins = largest.saturating_add(1).max(minlength) as usize;
    let Some(weights) = args.optional_tensor(1) else {
        let mut counts = filled(0i64, bins)?;
        for value in values {
            counts[value as usize] += 1;
        }
        return crate::create::from_slice(&counts).map(Output::Tensor);
    };
    if weights.rank() != 1 || weights.numel() != values.len() {
        return Err(Error::runtime("weights should be 1-d and have the same length as input"));
    }
    if weights.dtype() == DType::F32 {
        let mut sums = filled(0f32, bins)?;
        for (value, weight) in values.into_iter().zip(to_vec::<f32>(weights)?) {
            sums[value as usize] += weight;
        }
        return crate::create::from_slice(&sums).map(Output::Tensor);
    }
    let mut sums = filled(0f64, bins)?;
    for (value, weight) in values.into_iter().zip(to_vec::<f64>(weights)?) {
        sums[value as usize] += weight;
    }
    crate::create::from_slice(&sums).map(Output::Tensor)
}

fn histc_infer(args: &Args) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    let bins = args.int(1)?;
    if !own.dtype().is_floating() {
        return Err(Error::not_implemented(format!("\"histogram_cpu\" not implemented for '{}'", own.dtype().title())));
    }
    if bins <= 0 {
        return Err(Error::runtime(format!("torch.histogram(): bins must be > 0, but got {bins} for dimension 0")));
    }
    Ok(vec![Spec::new(&[bins as isize], own.dtype(), own)])
}

fn histc(args: &Args, results: &[Tensor]) -> Result<()> {
    let own = args.tensor(0)?;
    let bins = args.int(1)? as usize;
    let (mut low, mut high) = (args.scalar(2)?.f64(), args.scalar(3)?.f64());
    let values = to_vec::<f64>(own)?;
    if low == high && !values.is_empty() {
        low = values.iter().copied().fold(f64::INFINITY, f64::min);
        high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    }
    if low == high {
        low -= 1.0;
        high += 1.0;
    }
    if !(low.is_finite() && high.is_finite()) {
        return Err(Error::runtime(format!("torch.histc: range of [{low}, {high}] is not finite")));
    }
    if low > high {
        return Err(Error::runtime("torch.histc: max must be larger than min"));
    }
    let mut counts = filled(0f64, bins)?;
    for value in values.into_iter().filter(|value| (low..=high).contains(value)) {
        let bin = ((value - low) / (high - low) * bins as f64) as usize;
        counts[bin.min(bins - 1)] += 1.0;
    }
    crate::copy::copy(&results[0], &crate::create::from_slice(&counts)?)
}
