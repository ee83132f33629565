//! Counting values.

use rushlight_dispatch::operator::{
    Accepts, Args, BatchRule, DTypes, Derivative, ExplicitAutograd, Implementation, Kernel, OnCuda, Operator, Out,
    Tags, TensorSpec, Variants, operator,
};
use std::ops::AddAssign;

use rushlight_autograd::Tensor;
use rushlight_core::alloc::{filled, list};
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::{DType, Device, Element, Error, Layout, Result, Scalar};
use rushlight_cuda::counts::Bins;
use rushlight_dispatch::value::Output;
use rushlight_dispatch::{copy, create, op};

use super::counts_on_cuda as on_cuda;
use crate::convert::{item, to_dtype, to_vec};
use crate::reduce::extreme::{MAX, MIN};

#[operator]
pub static BINCOUNT: Operator = Operator {
    name: "bincount",
    signature: "(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor",
    doc: "The number of occurrences of each of 0, 1, 2, .., or the sum of their weights.

    >>> torch.bincount(torch.tensor([1, 2, 1]))
    tensor([0, 2, 1])",
    dtypes: DTypes::INTS,
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::Fallback,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(bincount)),
    derivative: Derivative::NotImplemented("aten::bincount"),
    samples: &["i(4, 9)", "i(4, 9), minlength=8", "i(4, 3), torch.tensor([0.5, 1., 2.])"],
    errors: &[("t(2, 2).long()", "RuntimeError", "bincount only supports 1-d non-negative integral inputs.")],
    reference: "np.bincount(self, weights, minlength)",
    ..Operator::BASE
};

#[operator]
pub static HISTC: Operator = Operator {
    name: "histc",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    doc: "The number of elements in each of `bins` equal parts of `min` to `max` (of the elements' own range if those are equal).

    >>> torch.histc(torch.tensor([1., 2., 1.]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])",
    out: Out::new(Accepts::Same, &["torch.histogram: input tensor and hist tensor should have the same dtype, but got input {result} and hist {out}"]).known_as_first(),
    dtypes: DTypes::FLOATS,
    implementation: Implementation::Kernel(Kernel { infer: histc_infer, cpu: histc, cuda: OnCuda::Own(histc) }),
    derivative: Derivative::NonDifferentiable("its result is a count"),
    samples: &["t(9), 4", "t(3, 4), 5, -1, 1"],
    errors: &[
        ("t(3), 0", "RuntimeError", "torch.histogram(): bins must be > 0, but got 0 for dimension 0"),
        ("t(3), 3, 3, 1", "RuntimeError", "torch.histc: max must be larger than min"),
        ("t(3) * float('nan')", "RuntimeError", "torch.histc: range of [-nan, -nan] is not finite"),
    ],
    ..Operator::BASE
};

fn bincount(args: &Args) -> Result<Output> {
    use BINCOUNT::*;

    let input = args.valued(INPUT)?;
    let minlength = args.int(MINLENGTH)?;
    if !input.dtype().is_integral() {
        return Err(Error::unsupported("bincount_cpu", input.dtype()));
    }
    if minlength < 0 {
        return Err(Error::runtime("minlength should be >= 0"));
    }
    let only = || Error::runtime("bincount only supports 1-d non-negative integral inputs.");
    if input.rank() == 1 && input.numel() == 0 {
        return create::zeros(&[minlength as isize], DType::I64, input.device()).map(Output::Tensor);
    }
    if input.rank() != 1 {
        return Err(only());
    }
    if let Device::Cuda(_) = input.device() {
        let [least, largest] = ends(input)?.map(Scalar::i64);
        if least < 0 {
            return Err(only());
        }
        let weights = checked_weights(args.optional_tensor(WEIGHTS), input.numel())?;
        let wide = |weights: &Tensor| match weights.dtype() {
            DType::F32 => Ok(weights.clone()),
            _ => to_dtype(&weights.detach(), DType::F64),
        };
        let weights = weights.map(wide).transpose()?;
        let bins = largest.saturating_add(1).max(minlength) as isize;
        return on_cuda::counted(input, weights.as_ref(), bins).map(Output::Tensor);
    }
    let values = to_vec::<i64>(input)?;
    let Some(&largest) = values.iter().max() else { return Err(only()) };
    if values.iter().any(|&value| value < 0) {
        return Err(only());
    }
    let bins = largest.saturating_add(1).max(minlength) as isize;
    match checked_weights(args.optional_tensor(WEIGHTS), values.len())? {
        None => counted(bins, values.into_iter().map(|value| (value, 1i64))),
        Some(weights) if weights.dtype() == DType::F32 => {
            counted(bins, values.into_iter().zip(to_vec::<f32>(weights)?))
        }
        Some(weights) => counted(bins, values.into_iter().zip(to_vec::<f64>(weights)?)),
    }
    .map(Output::Tensor)
}

/// The least and the greatest element of a tensor that is not empty; NaN if one is.
fn ends(input: &Tensor) -> Result<[Scalar; 2]> {
    let input = input.detach();
    Ok([item(&op!(MIN, &input)?)?, item(&op!(MAX, &input)?)?])
}

fn checked_weights(weights: Option<&Tensor>, count: usize) -> Result<Option<&Tensor>> {
    match weights {
        Some(weights) if weights.rank() != 1 || weights.numel() != count => {
            Err(Error::runtime("weights should be 1-d and have the same length as input"))
        }
        weights => Ok(weights),
    }
}

/// The sum of the weights in each bin. It is accumulated in the result itself, because two copies of many bins might
/// not fit in memory.
fn counted<T: Element + AddAssign>(bins: isize, values: impl Iterator<Item = (i64, T)>) -> Result<Tensor> {
    let result = create::zeros(&[bins], T::DTYPE, Device::Cpu)?;
    let pin = result.storage().pin()?;
    for (value, weight) in values {
        // SAFETY: values are not negative and less than `bins`, and the new result is contiguous.
        unsafe { *pin.as_ptr().cast::<T>().add(value as usize) += weight };
    }
    drop(pin);
    Ok(result)
}

fn check_bins(bins: i64) -> Result<()> {
    if bins > 0 {
        return Ok(());
    }
    Err(Error::runtime(format!("torch.histogram(): bins must be > 0, but got {bins} for dimension 0")))
}

/// `count` is that of the elements whose range this is: of several with NaN, torch's vector instructions make the sign negative.
fn check_range(low: f64, high: f64, count: usize) -> Result<()> {
    if !(low.is_finite() && high.is_finite()) {
        let text = |end: f64| match end.is_nan() && (count > 1 || end.is_sign_negative()) {
            true => "-nan".to_owned(),
            false => crate::create::c_text(end),
        };
        let [low, high] = [low, high].map(text);
        return Err(Error::runtime(format!("torch.histc: range of [{low}, {high}] is not finite")));
    }
    if low > high {
        return Err(Error::runtime("torch.histc: max must be larger than min"));
    }
    Ok(())
}

fn histc_infer(args: &Args) -> Result<Vec<TensorSpec>> {
    use HISTC::*;

    let input = args.tensor(INPUT)?;
    let bins = args.int(BINS)?;
    let (low, high) = (args.scalar(MIN)?.f64(), args.scalar(MAX)?.f64());
    if bins <= 0 && input.device() == Device::Meta {
        return Err(Error::runtime(format!("histc(): bins must be > 0, but got {bins}")));
    }
    check_bins(bins)?;
    if !input.dtype().is_floating() {
        // Errors about the elements' range come first, then about the edges, then about the count.
        let counted = DTypes::INTS.has(input.dtype()) || input.dtype().is_complex();
        let asked = low == high && input.numel() > 0;
        if !asked {
            check_range(low, high, 0)?;
        }
        let kernel = match input.dtype() {
            dtype if asked && !DTypes::REAL.union(DTypes::BOOL).has(dtype) => "aminmax_cpu",
            _ if !counted => "linspace_cpu",
            _ => "histogram_cpu",
        };
        return Err(Error::unsupported(kernel, input.dtype()));
    }
    for arg in [MIN, MAX] {
        let limit = args.scalar(arg)?;
        create::check_fits(limit, if limit.is_complex() { DType::F64 } else { input.dtype() })?;
    }
    // torch makes the edges of the bins first.
    Layout::contiguous(&[(bins as isize).saturating_add(1)]).checked_bytes(input.dtype().size())?;
    Ok(vec![TensorSpec::new(&[bins as isize], input.dtype(), input)])
}

fn histc(args: &Args, results: &[Tensor]) -> Result<()> {
    use HISTC::*;

    let input = args.tensor(INPUT)?;
    let bins = args.int(BINS)? as usize;
    let (mut low, mut high) = (args.scalar(MIN)?.f64(), args.scalar(MAX)?.f64());
    let on_device = matches!(input.device(), Device::Cuda(_));
    let values = if on_device { Vec::new() } else { to_vec::<f64>(input)? };
    let count = input.numel();
    let found = low == high && count > 0;
    if found {
        // If one is NaN, the range is NaN, which is an error.
        if on_device {
            [low, high] = ends(input)?.map(Scalar::f64);
        } else {
            low = values.iter().copied().reduce(|a, b| if a.is_nan() || a <= b { a } else { b }).unwrap_or(low);
            high = values.iter().copied().reduce(|a, b| if a.is_nan() || a >= b { a } else { b }).unwrap_or(high);
        }
    }
    // As in torch, each step is rounded to the elements' dtype.
    let rounded = |value: f64| match input.dtype() {
        DType::F16 => f16_::from_f64(value).to_f64(),
        DType::BF16 => bf16_::from_f64(value).to_f64(),
        DType::F32 => f64::from(value as f32),
        _ => value,
    };
    if low == high {
        (low, high) = (rounded(low - 1.0), rounded(high + 1.0));
    }
    check_range(low, high, if found { count } else { 0 })?;
    let (width, count) = (rounded(high - low), rounded(bins as f64));
    if on_device {
        let counts = create::zeros(&[bins as isize], DType::I64, input.device())?;
        on_cuda::count_bins(input, &counts, Bins { low, high, width, number: count, count: bins as u64 })?;
        return copy::copy(&results[0], &to_dtype(&counts, DType::F64)?);
    }
    let inside = values.into_iter().filter(|value| (low..=high).contains(value));
    let bin = |value: f64| (rounded(rounded(rounded(value - low) * count) / width) as usize).min(bins - 1);
    if bins <= input.numel().max(TABLE) {
        let mut counts = filled(0f64, bins)?;
        inside.for_each(|value| counts[bin(value)] += 1.0);
        return copy::copy(&results[0], &create::from_slice(&counts)?);
    }
    // A table would be longer than the list of values.
    let mut found = list(input.numel())?;
    found.extend(inside.map(bin));
    found.sort_unstable();
    create::fill(&results[0], Scalar::ZERO)?;
    for same in found.chunk_by(|a, b| a == b) {
        let place = results[0].layout().slice(0, same[0] as isize, 1, 1);
        create::fill(&Tensor::view_of(&results[0], place), Scalar::Float(same.len() as f64))?;
    }
    Ok(())
}

/// The number of bins up to which a table is worthwhile for any number of elements.
const TABLE: usize = 1 << 16;
