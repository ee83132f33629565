//! Evenly spaced numbers.

use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::operator::{Args, DTypes, Implementation, Operator, Out, Variants, operator};
use rushlight_dispatch::value::{Arg, Output, Value};
use std::ops::{Add, Div, Mul, Sub};

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{bf16_, c32, c64, c128, default_dtype, f16_};
use rushlight_core::{DType, Device, Element, Error, Result, Scalar, dispatch};
use rushlight_cuda::ranges::{self, Range};
use rushlight_dispatch::copy::from_host;
use rushlight_dispatch::{create, interpreter};

use super::constant::NO_INPUT;
use super::{Options, c_text, factory};
use crate::held::Held;

/// The number of elements of a range depends on rounding.
const RANGE: Out = Out::FACTORY.filled().counted();

const RANGES: Operator = Operator {
    variants: Variants::FUNCTION.union(Variants::OUT),
    out: Out::FACTORY.filled(),
    dtypes: DTypes::REAL,
    derivative: NO_INPUT,
    ..Operator::BASE
};

/// Fills a new tensor element by element.
pub(super) fn generate<T: Element>(tensor: &Tensor, at: impl Fn(usize) -> T + Sync) -> Result<()> {
    let count = tensor.numel();
    let write = |target: &Tensor| {
        let pin = target.storage().pin()?;
        let start = pin.as_ptr() as usize;
        rushlight_par::parallel_for(count, 1 << 15, |range| {
            for place in range {
                // SAFETY: the tensor is new, contiguous and of type T; ranges do not overlap.
                unsafe { (start as *mut T).add(place).write(at(place)) };
            }
        });
        Ok(())
    };
    from_host(tensor, |target| interpreter::while_detached(count, || write(target)))
}

/// Fills a new tensor on a CUDA device by a kernel; false if it is elsewhere, or if its dtype has no kernel.
fn on_device(tensor: &Tensor, range: Range) -> Result<bool> {
    if !matches!(tensor.device(), Device::Cuda(_)) || tensor.dtype().is_storage_only() || tensor.numel() == 0 {
        return Ok(false);
    }
    let mut held = Held::on(tensor)?;
    let to = held.address(tensor)?;
    // SAFETY: the tensor is new and contiguous, and its storage is held for the stream.
    unsafe { ranges::fill(held.card, held.stream, tensor.dtype(), to, tensor.numel(), range)? };
    Ok(true)
}

fn real(value: Scalar) -> Result<f64> {
    match value {
        Scalar::Complex(value) if value.im != 0.0 => {
            Err(Error::runtime("value cannot be converted to type double without overflow"))
        }
        other => Ok(other.f64()),
    }
}

fn arange(args: &Args, start: Scalar, end: Scalar, step: Scalar) -> Result<Output> {
    let options = Options::of(args)?;
    let whole = [start, end, step].iter().all(|value| value.is_integral() || value.is_bool());
    let dtype = options.dtype.unwrap_or(if whole { DType::I64 } else { default_dtype() });
    let range = (real(start)?, real(end)?, real(step)?);
    // For integers the fractions of the bounds are dropped first; only for 64 bits does that affect the number of
    // elements.
    let (first, last, gap) =
        if dtype.is_integral() { (range.0.trunc(), range.1.trunc(), range.2.trunc()) } else { range };
    // For narrower integers only the size depends on fractions of the step; they add nothing to the elements.
    let stride = if dtype == DType::I64 { gap } else { range.2 };
    if range.2 == 0.0 || gap.is_nan() {
        return Err(Error::runtime("step must be nonzero"));
    }
    if stride == 0.0 {
        return Err(Error::value("step must be nonzero").hint("The integral part of the step is zero."));
    }
    if !first.is_finite() || !last.is_finite() {
        return Err(Error::runtime(format!("unsupported range: {} -> {}", c_text(first), c_text(last))));
    }
    if (stride > 0.0 && last < first) || (stride < 0.0 && last > first) {
        return Err(Error::runtime("upper bound and lower bound inconsistent with step sign")
            .hint("end must not be less than start for a positive step, nor greater for a negative one."));
    }
    if !RANGES.dtypes.has(dtype) {
        return Err(not_implemented(args.op, dtype));
    }
    // The dtype in which torch computes.
    let computed = match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        dtype if dtype.is_integral() => DType::I64,
        _ => DType::F64,
    };
    let check_numbers = || [start, end, step].iter().try_for_each(|number| create::check_fits(*number, computed));
    if dtype == DType::I64 {
        check_numbers()?;
    }
    let count = if dtype == DType::I64 {
        let (first, last, gap) = (i128::from(start.i64()), i128::from(end.i64()), i128::from(step.i64()));
        ((last - first + gap - gap.signum()) / gap) as f64
    } else {
        ((range.1 - range.0) / range.2).ceil()
    };
    if count > isize::MAX as f64 {
        return Err(
            Error::runtime("invalid size, possible overflow?").hint(format!("That would be {count:e} elements."))
        );
    }
    check_numbers()?;
    let tensor = options.empty(&[count as isize], dtype)?;
    let steps = match dtype.is_integral() {
        true => Range::Integers { first: start.i64(), step: step.i64() },
        false => Range::Steps { first, step: gap },
    };
    if on_device(&tensor, steps)? {
        return options.finish(tensor);
    }
    dispatch!(dtype, T in [u8, i8, i16, i32, i64] => {
        let (first, gap) = (start.i64(), step.i64());
        generate::<T>(&tensor, |place| first.wrapping_add(gap.wrapping_mul(place as i64)) as T)?;
    }, else => dispatch!(dtype, T in [f16_, bf16_, f32, f64] => {
        generate::<T>(&tensor, |place| T::from_scalar(Scalar::Float((place as f64).mul_add(gap, first))))?;
    }, else => {}));
    options.finish(tensor)
}

#[operator]
pub static ARANGE: Operator = Operator {
    name: "arange",
    signature: factory!("Scalar end, *"),
    doc: "The integers from 0 (inclusive) to `end` (exclusive).

    >>> torch.arange(4)
    tensor([0, 1, 2, 3])",
    implementation: Implementation::CompositeImplicit(|args| {
        arange(args, Scalar::ZERO, args.scalar(END)?, Scalar::ONE)
    }),
    samples: &["5", "2.5", "0"],
    errors: &[("-1", "RuntimeError", "upper bound and lower bound inconsistent with step sign")],
    reference: "np.arange(end)",
    out: RANGE,
    ..RANGES
};

#[operator]
pub static ARANGE_START: Operator = Operator {
    name: "arange.start_step",
    signature: factory!("Scalar start, Scalar end, Scalar step=1, *"),
    doc: "The numbers from `start` (inclusive) to `end` (exclusive) in steps of `step`.

    >>> torch.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])",
    implementation: Implementation::CompositeImplicit(|args| {
        arange(args, args.scalar(START)?, args.scalar(END)?, args.scalar(STEP)?)
    }),
    samples: &["1, 5", "1, 9, 2", "5, 0, -2"],
    errors: &[
        ("0, 5, 0", "RuntimeError", "step must be nonzero"),
        ("0, 5, float('nan')", "RuntimeError", "step must be nonzero"),
        ("0, 5, float('nan'), dtype=torch.int64", "RuntimeError", "step must be nonzero"),
    ],
    reference: "np.arange(start, end, step)",
    out: RANGE,
    ..RANGES
};

/// Integers from a first one, to one that is excluded, in steps.
pub fn integers(range: [i64; 3], dtype: DType, device: Device) -> Result<Tensor> {
    let range = range.map(|number| Value::Scalar(Scalar::Int(number)));
    let options = [Value::DType(dtype), Value::None, Value::Device(device), Value::None, Value::None];
    Args { op: &ARANGE_START, values: range.into_iter().chain(options).collect() }.call()?.into_tensor()
}

/// One of the two ends: a number, or a 0-d tensor.
fn end_of(args: &Args, arg: Arg) -> Result<Scalar> {
    match args.optional_tensor(arg) {
        Some(tensor) if tensor.rank() > 0 => Err(Error::runtime(format!(
            "{} only supports 0-dimensional start and end tensors, but got {} with {} dimension(s).",
            args.op.python_name(),
            args.param(arg).name,
            tensor.rank()
        ))),
        Some(tensor) => crate::convert::item(tensor),
        None => args.scalar(arg),
    }
}

/// The difference of neighbours among `count` evenly spaced numbers.
fn gap<T: Sub<Output = T> + Div<Output = T>>(start: T, end: T, count: usize, whole: fn(usize) -> T) -> T {
    (end - start) / whole(count.saturating_sub(1).max(1))
}

/// The `place`-th of `count` evenly spaced numbers, computed from the nearer end, so that both ends are exact.
/// A single one is the start, whatever the end is.
fn line<T>(start: T, end: T, count: usize, whole: fn(usize) -> T) -> impl Fn(usize) -> T + Sync
where
    T: Copy + Sync + Add<Output = T> + Sub<Output = T> + Mul<Output = T> + Div<Output = T>,
{
    let gap = gap(start, end, count, whole);
    move |place| {
        if count == 1 {
            return start;
        }
        if place < count / 2 { start + gap * whole(place) } else { end - gap * whole(count - place - 1) }
    }
}

/// Evenly spaced numbers, each passed through `shape`, unless they are `plain`.
fn spaced(args: &Args, plain: bool, shape: impl Fn(c128) -> c128 + Sync) -> Result<Output> {
    use LINSPACE::*;

    let options = Options::of(args)?;
    let (start, end, steps) = (end_of(args, START)?, end_of(args, END)?, args.int(STEPS)?);
    if steps < 0 {
        return Err(Error::runtime("number of steps must be non-negative"));
    }
    let complex = start.is_complex() || end.is_complex();
    let inferred = if complex { default_dtype().to_complex() } else { default_dtype() };
    let dtype = options.dtype.unwrap_or(inferred);
    if complex && !dtype.is_complex() {
        let (name, inferred, dtype) = (args.op.python_name(), inferred.c_name(), dtype.display_name());
        return Err(Error::runtime(format!(
            "torch.{name}(): inferred dtype {inferred} can't be safely cast to passed dtype {dtype}"
        )));
    }
    if steps > 1 && !args.op.dtypes.has(dtype) {
        return Err(not_implemented(args.op, dtype));
    }
    // One number is that of `start`, and `end` is not read.
    match steps {
        0 => {}
        1 if dtype.is_integral() => create::check_fits(Scalar::Float(shape(start.complex()).re), dtype)?,
        1 if !plain || matches!(dtype, DType::F16 | DType::BF16) => {}
        1 => create::check_fits(start, dtype)?,
        _ => {
            create::check_fits(start, dtype)?;
            create::check_fits(end, dtype)?;
        }
    }
    let tensor = options.empty(&[steps as isize], dtype)?;
    let count = steps as usize;
    // For integers the fractions of two ends are dropped first.
    let whole_end = |value: Scalar| if dtype.is_integral() && steps > 1 { value.f64().trunc() } else { value.f64() };
    if plain && !dtype.is_complex() {
        let range = if dtype == DType::F32 {
            let (first, last) = (start.f64() as f32, end.f64() as f32);
            Range::Single { first, last, step: gap(first, last, count, |n| n as f32) }
        } else {
            let (first, last) = (whole_end(start), whole_end(end));
            Range::Double { first, last, step: gap(first, last, count, |n| n as f64) }
        };
        if on_device(&tensor, range)? {
            return options.finish(tensor);
        }
    }
    if dtype.is_complex() {
        let at = line(start.complex(), end.complex(), count, |n| c128::new(n as f64, 0.0));
        dispatch!(dtype, T in [c32, c64, c128] => {
            generate::<T>(&tensor, |place| T::from_scalar(Scalar::Complex(shape(at(place)))))?;
        }, else => {});
    } else if dtype == DType::F32 {
        let at = line(start.f64() as f32, end.f64() as f32, count, |n| n as f32);
        generate::<f32>(&tensor, |place| shape(f64::from(at(place)).into()).re as f32)?;
    } else {
        let at = line(whole_end(start), whole_end(end), count, |n| n as f64);
        dispatch!(dtype, T in all => generate::<T>(&tensor, |place| T::from_scalar(Scalar::Float(shape(at(place).into()).re)))?);
    }
    options.finish(tensor)
}

#[operator]
pub static LINSPACE: Operator = Operator {
    name: "linspace",
    signature: factory!("Tensor|Scalar start, Tensor|Scalar end, int steps, *"),
    doc: "Evenly spaced numbers from `start` to `end`, both included.

    >>> torch.linspace(0, 1, steps=5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])",
    implementation: Implementation::CompositeImplicit(|args| spaced(args, true, |value| value)),
    dtypes: DTypes::NUMBERS,
    samples: &["0, 1, 5", "3, -3, 4", "2, 5, 1", "0, 1, 0"],
    errors: &[("0, 1, -1", "RuntimeError", "number of steps must be non-negative")],
    reference: "np.linspace(start, end, steps)",
    ..RANGES
};

#[operator]
pub static LOGSPACE: Operator = Operator {
    name: "logspace",
    signature: factory!("Tensor|Scalar start, Tensor|Scalar end, int steps, float base=10.0, *"),
    doc: "Powers of `base` with evenly spaced exponents from `start` to `end`.

    >>> torch.logspace(0, 2, steps=3)
    tensor([  1.,  10., 100.])",
    dtypes: DTypes::NUMBERS,
    implementation: Implementation::CompositeImplicit(|args| {
        let base = args.float(BASE)?;
        spaced(args, false, |value| if value.im == 0.0 { base.powf(value.re).into() } else { value.expf(base) })
    }),
    samples: &["0, 2, 3", "-1, 1, 4, 2.0"],
    errors: &[("0, 1, -1", "RuntimeError", "number of steps must be non-negative")],
    reference: "np.logspace(start, end, steps, base=base)",
    ..RANGES
};
