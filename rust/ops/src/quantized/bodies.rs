//! What the table's operators do if an operand is quantised.
//!
//! Most move integers, which keep their quantizer (`integers`). Others compute with the numbers and quantise the result
//! again (`requantized`), as torch's do. The definitions of the operators do not name the bodies.

use rushlight_autograd::{Quantizer, Tensor};
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_dispatch::args::replace_where;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::primitives::QuantizedBody;
use rushlight_dispatch::quantized::{dequantized, unsupported};
use rushlight_dispatch::value::{Arg, Output, Value, sizes_value};

use super::convert::{dequantize, display_name, limits, quantize_like, quantize_per_tensor};
use super::views;
use crate::convert::copy::COPY;
use crate::convert::{CLONE, TO_DTYPE, to_dtype};
use crate::create::constant::{EMPTY_LIKE, FULL_LIKE, ONES_LIKE};
use crate::create::fill::{FILL_, FILL_TENSOR_};
use crate::index::gather::GATHER;
use crate::index::get::INDEX;
use crate::index::index_select::INDEX_SELECT;
use crate::index::masked::{MASKED_FILL, MASKED_FILL_TENSOR, MASKED_SELECT};
use crate::index::put::INDEX_PUT_DIMS;
use crate::join::cat::{CAT, STACK};
use crate::join::flip::FLIP;
use crate::join::pad::{BORDERS, CONSTANT_PAD};
use crate::join::repeat::REPEAT;
use crate::nn::pool::max::MAX_POOL;
use crate::nn::pool::mean::{
    ADAPTIVE_AVG_POOL1D, ADAPTIVE_AVG_POOL2D, ADAPTIVE_AVG_POOL3D, AVG_POOL1D, AVG_POOL2D, AVG_POOL3D,
};
use crate::order::sort::{SORT, SORT_STABLE};
use crate::order::topk::TOPK;
use crate::pointwise::activation::{GELU_ERF, GELU_TANH, HARDSIGMOID, HARDTANH, LEAKY_RELU, RELU, THRESHOLD};
use crate::pointwise::arith::{ADD, MUL};
use crate::pointwise::clamp::{BOTH, ONLY_MAX, ONLY_MIN};
use crate::pointwise::compare::{EQ, GE, GT, ISCLOSE, LE, LT, NE};
use crate::pointwise::equal::EQUAL;
use crate::pointwise::hyperbolic::TANH;
use crate::pointwise::round::ROUND;
use crate::pointwise::special::SIGMOID;
use crate::reduce::extreme::{MAX, MAX_DIM, MIN, MIN_DIM};
use crate::reduce::moments::{STD, STD_CORRECTION, STD_DIM};
use crate::reduce::norm::VECTOR_NORM;
use crate::reduce::sum::{MEAN, MEAN_DIM};
use crate::view::expand::EXPAND;
use crate::view::narrow::{SELECT, SLICE};
use crate::view::reshape::{COPIED, UNSAFE_VIEW};
use crate::view::split::{SPLIT, SPLIT_SIZES, SPLIT_WITH_SIZES, UNBIND};

pub static BODIES: &[(&Operator, QuantizedBody)] = &[
    (&COPY, copy),
    (&TO_DTYPE, cast),
    (&CLONE, every_integer),
    (&EMPTY_LIKE, every_integer),
    (&FILL_, |args| fill(args, FILL_::VALUE)),
    (&FILL_TENSOR_, |args| fill(args, FILL_TENSOR_::VALUE)),
    (&SELECT, views::select),
    (&SLICE, views::slice),
    (&UNBIND, views::unbind),
    (&SPLIT, |args| views::split(args, SPLIT::DIM)),
    (&SPLIT_SIZES, |args| views::split(args, SPLIT_SIZES::DIM)),
    (&SPLIT_WITH_SIZES, |args| views::split(args, SPLIT_WITH_SIZES::DIM)),
    (&REPEAT, integers),
    (&INDEX, integers),
    (&INDEX_SELECT, integers),
    (&GATHER, integers),
    (&MASKED_SELECT, integers),
    (&FLIP, integers),
    (&COPIED, integers),
    (&UNSAFE_VIEW, integers),
    (&MAX, integers),
    (&MAX_DIM, integers),
    (&MIN, integers),
    (&MIN_DIM, integers),
    (&SORT, integers),
    (&SORT_STABLE, integers),
    (&TOPK, integers),
    (&MAX_POOL, integers),
    (&CONSTANT_PAD, |args| with_number(args, CONSTANT_PAD::VALUE)),
    (&MASKED_FILL, |args| with_number(args, MASKED_FILL::VALUE)),
    (&MASKED_FILL_TENSOR, |args| with_tensor(args, MASKED_FILL_TENSOR::VALUE)),
    (&INDEX_PUT_DIMS, put),
    (&BORDERS, mirrored),
    (&ONES_LIKE, |args| filled_like(args, Scalar::ONE)),
    (&FULL_LIKE, |args| filled_like(args, args.scalar(FULL_LIKE::FILL_VALUE)?)),
    (&THRESHOLD, requantized),
    (&CAT, joined),
    (&STACK, joined),
    (&RELU, |args| limited(args, Some(Scalar::ZERO), None)),
    (&HARDTANH, |args| limited(args, Some(args.scalar(HARDTANH::MIN_VAL)?), Some(args.scalar(HARDTANH::MAX_VAL)?))),
    (&BOTH, |args| limited(args, Some(args.scalar(BOTH::MIN)?), Some(args.scalar(BOTH::MAX)?))),
    (&ONLY_MIN, |args| limited(args, Some(args.scalar(ONLY_MIN::MIN)?), None)),
    (&ONLY_MAX, |args| limited(args, None, Some(args.scalar(ONLY_MAX::MAX)?))),
    (&LEAKY_RELU, rounded_first),
    (&GELU_ERF, rounded_first),
    (&GELU_TANH, rounded_first),
    (&MEAN, requantized),
    (&MEAN_DIM, requantized),
    (&STD, requantized),
    (&STD_DIM, requantized),
    (&STD_CORRECTION, requantized),
    (&AVG_POOL1D, averaged),
    (&AVG_POOL2D, averaged),
    (&AVG_POOL3D, averaged),
    (&ADAPTIVE_AVG_POOL1D, averaged),
    (&ADAPTIVE_AVG_POOL2D, averaged),
    (&ADAPTIVE_AVG_POOL3D, averaged),
    (&SIGMOID, |args| in_unit_range(args, false)),
    (&HARDSIGMOID, |args| in_unit_range(args, false)),
    (&TANH, |args| in_unit_range(args, true)),
    (&EQ, numbers),
    (&NE, numbers),
    (&LT, numbers),
    (&LE, numbers),
    (&GT, numbers),
    (&GE, numbers),
    (&EQUAL, equal),
    (&VECTOR_NORM, |args| {
        let kind = display_name(args.tensor(Arg::FIRST)?.dtype());
        Err(Error::runtime(format!(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {kind}"
        )))
    }),
    (&ISCLOSE, |_| Err(Error::runtime("isclose is not supported for quantized inputs."))),
];

/// The first argument and its scale and zero point; torch's error for a tensor with channels, or one that is not
/// quantised.
fn uniform<'a>(args: &'a Args) -> Result<(&'a Tensor, f64, i64)> {
    let input = args.tensor(Arg::FIRST)?;
    match input.quantizer().map(|quantizer| &**quantizer) {
        Some(Quantizer::PerTensor { scale, zero_point }) => Ok((input, *scale, *zero_point)),
        Some(Quantizer::PerChannel { .. }) => Err(with_channels(args)),
        None => Err(unsupported(args)),
    }
}

/// torch's error for a tensor with a scale for each channel.
#[cold]
fn with_channels(args: &Args) -> Error {
    let sentence = match args.op.flat_name().as_str() {
        name @ ("max" | "min") => {
            let name = if name == "max" { "Max" } else { "Min" };
            format!(
                "{name} operator for quantized tensors only works for per tensor quantized tensors. Please open an issue on https://github.com/pytorch/pytorch/issues if you need per channel quantized tensor support."
            )
        }
        "topk" => "Top-K is only supported on per-tensor quantization".into(),
        "index_select" => "Only per_tensor quantized quantized tensors are supported by index_select.".into(),
        "masked_fill" => {
            "masked_fill__quantized_cpu for quantized tensors is currently only supported for per tensor quantized tensors"
                .into()
        }
        "_index_put" => "index_put for quantized tensors is currently only supported for per tensor quantized tensors".into(),
        "flip" | "repeat" => "Setting strides is possible only on uniformly quantized tensor".into(),
        "constant_pad_nd" => "Only per-tensor padding is supported.".into(),
        "_pad_borders" => "Only per tensor quantization is supported".into(),
        "gather" | "masked_select" => return unsupported(args),
        _ => NOT_PER_TENSOR.into(),
    };
    Error::runtime(sentence)
        .hint("Quantise the numbers with one scale: torch.quantize_per_tensor(x.dequantize(), ...).")
}

const NOT_PER_TENSOR: &str = "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)";

const NOT_SAME_DTYPE: &str = "Expected self.scalar_type() == src.scalar_type() to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)";

/// The operator over the integers of its first argument, whose quantizer its results have.
fn every_integer(args: &Args) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    let Some(quantizer) = input.quantizer() else { return Err(unsupported(args)) };
    let mut call = args.clone();
    replace_where(&mut call.values, Tensor::is_quantized, |tensor| Ok(tensor.integers()))?;
    call.call()?.map(|result| {
        // Indices have another dtype.
        Ok(if result.dtype() == input.dtype() { result.quantized(quantizer.clone()) } else { result })
    })
}

/// The same for operators that move elements between channels.
fn integers(args: &Args) -> Result<Output> {
    uniform(args)?;
    every_integer(args)
}

/// The operator on the numbers that its operands stand for.
fn numbers(args: &Args) -> Result<Output> {
    let mut call = args.clone();
    replace_where(&mut call.values, Tensor::is_quantized, dequantize)?;
    call.call()
}

/// The same, where the result has the quantizer of the first argument.
fn requantized(args: &Args) -> Result<Output> {
    let (own, ..) = uniform(args)?;
    quantize_like(&numbers(args)?.into_tensor()?, own).map(Output::Tensor)
}

/// The same, where the zero point is added to rounded quotients, as torch's vectorised loops do.
fn rounded_first(args: &Args) -> Result<Output> {
    let (own, scale, zero_point) = uniform(args)?;
    if own.dtype() == DType::I32 {
        return requantized(args);
    }
    let (least, most) = limits(own.dtype());
    let quotients = op!(MUL, numbers(args)?.into_tensor()?, Scalar::Float(f64::from(1.0 / scale as f32)))?;
    let moved = op!(ADD, op!(ROUND, quotients)?, Scalar::Int(zero_point))?;
    let integers = to_dtype(&op!(BOTH, moved, Scalar::Int(least), Scalar::Int(most))?, own.dtype())?;
    let Some(quantizer) = own.quantizer() else { return Err(unsupported(args)) };
    Ok(Output::Tensor(integers.quantized(quantizer.clone())))
}

/// The operator over integers less the zero point, for results that are averages.
fn averaged(args: &Args) -> Result<Output> {
    let (own, _, zero_point) = uniform(args)?;
    let mut call = args.clone();
    let unit = |tensor: &Tensor| {
        let unit = std::sync::Arc::new(Quantizer::PerTensor { scale: 1.0, zero_point });
        dequantize(&tensor.integers().quantized(unit))
    };
    replace_where(&mut call.values, Tensor::is_quantized, unit)?;
    let averages = call.call()?.into_tensor()?;
    let rounded = quantize_per_tensor(&averages, 1.0, zero_point, own.dtype())?;
    let Some(quantizer) = own.quantizer() else { return Err(unsupported(args)) };
    Ok(Output::Tensor(rounded.integers().quantized(quantizer.clone())))
}

/// The integer that stands for a number.
fn quantum(number: Scalar, (scale, zero_point): (f64, i64), dtype: DType) -> Result<i64> {
    let number = rushlight_dispatch::create::scalar_of(number, DType::F32, rushlight_core::Device::Cpu)?;
    let one = quantize_per_tensor(&number, scale, zero_point, dtype)?;
    match crate::convert::item(&one.integers())? {
        Scalar::Int(integer) => Ok(integer),
        other => Ok(other.f64() as i64),
    }
}

/// The operator over integers, with a number quantised too.
fn with_number(args: &Args, number: Arg) -> Result<Output> {
    let (own, scale, zero_point) = uniform(args)?;
    let mut call = args.clone();
    call.set(number, Value::Scalar(Scalar::Int(quantum(args.scalar(number)?, (scale, zero_point), own.dtype())?)));
    every_integer(&call)
}

/// The operator over integers, with the numbers of a tensor quantised too.
fn with_tensor(args: &Args, numbers: Arg) -> Result<Output> {
    let (own, ..) = uniform(args)?;
    let given = to_dtype(&dequantized(args.tensor(numbers)?)?, DType::F32)?;
    let mut call = args.clone();
    call.set(numbers, Value::Own(quantize_like(&given, own)?));
    every_integer(&call)
}

/// `x[i] = v`: numbers are quantised; those of a quantised tensor are refused.
fn put(args: &Args) -> Result<Output> {
    use INDEX_PUT_DIMS::*;

    if !args.tensor(INPUT)?.is_quantized() {
        return Err(unsupported(args));
    }
    if args.tensor(VALUES)?.is_quantized() {
        return Err(Error::runtime("Value argument for quantized input_put should not be quantized"));
    }
    if args.bool(ACCUMULATE)? {
        return Err(Error::runtime("index_put for quantized tensors is currently not supported for accumulate=True"));
    }
    with_tensor(args, VALUES)
}

/// Borders of mirrored elements; other borders are refused.
fn mirrored(args: &Args) -> Result<Output> {
    if args.str(BORDERS::MODE)? == "reflect" { integers(args) } else { Err(unsupported(args)) }
}

/// Integers limited to those of two numbers.
fn limited(args: &Args, low: Option<Scalar>, high: Option<Scalar>) -> Result<Output> {
    let (own, scale, zero_point) = uniform(args)?;
    let (least, most) = limits(own.dtype());
    let end = |number: Option<Scalar>, otherwise| match number {
        Some(number) => quantum(number, (scale, zero_point), own.dtype()),
        None => Ok(otherwise),
    };
    let (low, high) = (end(low, least)?, end(high, most)?);
    let limited = op!(BOTH, own.integers(), Scalar::Int(low), Scalar::Int(high))?;
    let Some(quantizer) = own.quantizer() else { return Err(unsupported(args)) };
    Ok(Output::Tensor(limited.quantized(quantizer.clone())))
}

/// The same for results between 0 and 1, or between -1 and 1, whose quantizer has this range.
fn in_unit_range(args: &Args, signed: bool) -> Result<Output> {
    let (own, ..) = uniform(args)?;
    let (least, most) = limits(own.dtype());
    let steps = (most - least + 1) as f64;
    // Those of int32 between 0 and 1 use half of the integers only, as torch's do.
    let first = if own.dtype() == DType::I32 { 0 } else { least };
    let (scale, zero_point) = if signed { (2.0 / steps, least + (most - least + 1) / 2) } else { (1.0 / steps, first) };
    quantize_per_tensor(&numbers(args)?.into_tensor()?, scale, zero_point, own.dtype()).map(Output::Tensor)
}

/// Tensors joined; those with another quantizer than the first are quantised again.
fn joined(args: &Args) -> Result<Output> {
    let tensors = args.tensors(Arg::FIRST)?;
    let Some((first, Some(quantizer))) = tensors.first().map(|first| (*first, first.quantizer())) else {
        return Err(unsupported(args));
    };
    if tensors.iter().any(|tensor| !matches!(tensor.quantizer().map(|own| &**own), Some(Quantizer::PerTensor { .. }))) {
        return Err(Error::runtime("Only per-tensor quantization is supported in 'cat'!"));
    }
    if tensors.iter().any(|tensor| tensor.dtype() != first.dtype()) {
        return Err(Error::runtime("All dtypes must be the same."));
    }
    let alike = |tensor: &&Tensor| match tensor.quantizer() {
        Some(own) if **own == **quantizer => Ok(Some(tensor.integers())),
        _ => quantize_like(tensor, first).map(|again| Some(again.integers())),
    };
    let integers = tensors.iter().map(alike).collect::<Result<Vec<_>>>()?;
    let mut call = args.clone();
    call.set(Arg::FIRST, Value::Tensors(integers));
    Ok(Output::Tensor(call.call()?.into_tensor()?.quantized(quantizer.clone())))
}

/// `copy_`: numbers are quantised, and integers are copied with their quantizer.
fn copy(args: &Args) -> Result<Output> {
    use COPY::*;

    let input = args.tensor(INPUT)?;
    let from = match args.optional_tensor(OTHER) {
        Some(from) => from.clone(),
        None => rushlight_dispatch::create::scalar_of(args.scalar(OTHER)?, DType::F32, input.device())?,
    };
    if !input.is_quantized() {
        return Err(Error::runtime(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a float Tensor from a quantized Tensor",
        ));
    }
    let with_channels =
        |tensor: &Tensor| tensor.quantizer().map(|quantizer| matches!(**quantizer, Quantizer::PerChannel { .. }));
    if from.is_quantized() && with_channels(input) != with_channels(&from) {
        return Err(Error::runtime("Quantized Copy only works with same qscheme"));
    }
    match from.quantizer() {
        Some(quantizer) if from.dtype() == input.dtype() => {
            let whole = op!(EXPAND, from.integers(), sizes_value(input.sizes()))?;
            rushlight_dispatch::copy::copy(&input.integers(), &whole)?;
            if input.quantizer().is_none_or(|of_own| **of_own != **quantizer) {
                rushlight_dispatch::interpreter::replace_meta(input, input.quantized(quantizer.clone()).meta().clone());
            }
        }
        Some(_) => return Err(Error::runtime(NOT_SAME_DTYPE)),
        None if from.dtype() != DType::F32 => {
            return Err(Error::runtime("Quantized copy only works with kFloat as source Tensor"));
        }
        None => {
            write_numbers(input, &from)?;
        }
    }
    input.bump_version();
    Ok(Output::Tensor(input.clone()))
}

/// `fill_`: the integer of a number everywhere.
fn fill(args: &Args, value: Arg) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    rushlight_dispatch::variants::check_writable(input)?;
    let number = match args.optional_tensor(value) {
        Some(tensor) => crate::convert::item(&dequantized(tensor)?)?,
        None => args.scalar(value)?,
    };
    let number = rushlight_dispatch::create::scalar_of(number, DType::F32, input.device())?;
    write_numbers(input, &number)?;
    input.bump_version();
    Ok(Output::Tensor(input.clone()))
}

/// `ones_like` and `full_like`: the same quantizer.
fn filled_like(args: &Args, number: Scalar) -> Result<Output> {
    let made = EMPTY_LIKE.tensor([args.value(Arg::FIRST).clone()])?;
    fill(&Args::new(&FILL_, [made.into(), number.into()]), FILL_::VALUE)
}

/// Writes numbers, which broadcast, as the integers that stand for them.
fn write_numbers(input: &Tensor, numbers: &Tensor) -> Result<()> {
    let whole = op!(EXPAND, numbers, sizes_value(input.sizes()))?;
    rushlight_dispatch::copy::copy(&input.integers(), &quantize_like(&whole, input)?.integers())
}

/// A copy with another memory format or on another device; other dtypes would not be quantised.
fn cast(args: &Args) -> Result<Output> {
    use TO_DTYPE::*;

    let input = args.tensor(INPUT)?;
    if args.dtype(DTYPE).is_some() || !input.is_quantized() {
        return Err(Error::runtime("Creation of quantized tensor requires quantized dtype like torch.quint8"));
    }
    every_integer(args)
}

/// `equal`: the same integers with the same parameters.
fn equal(args: &Args) -> Result<Output> {
    use EQUAL::*;

    let (input, other) = (args.tensor(INPUT)?, args.tensor(OTHER)?);
    let (Some(of_own), Some(of_other)) = (input.quantizer(), other.quantizer()) else { return Ok(Output::Bool(false)) };
    let same_list = |a: &Tensor, b: &Tensor| EQUAL.call([a.into(), b.into()]);
    let same = match (&**of_own, &**of_other) {
        (
            Quantizer::PerChannel { scales, zero_points, axis },
            Quantizer::PerChannel { scales: other_scales, zero_points: other_points, axis: other_axis },
        ) => {
            axis == other_axis
                && matches!(same_list(scales, other_scales)?, Output::Bool(true))
                && matches!(same_list(zero_points, other_points)?, Output::Bool(true))
        }
        (of_own, of_other) => of_own == of_other,
    };
    if !same || input.dtype() != other.dtype() {
        return Ok(Output::Bool(false));
    }
    EQUAL.call([input.integers().into(), other.integers().into()])
}
