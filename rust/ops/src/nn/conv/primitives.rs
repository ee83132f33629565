//! The operators that compute: a convolution, and its derivatives in the input and in the weight. Each is a derivative
//! of the others, so the three provide gradients of any order.

use rushlight_autograd::Tensor;
use rushlight_core::convolution::Computed;
use rushlight_core::layout::to_dims;
use rushlight_core::memory_format::{channels_last_format, is_contiguous};
use rushlight_core::storage::pin_all;
use rushlight_core::{DType, Device, Dims, Error, Layout, Result, Scalar};
use rushlight_cpu::nn::conv::{Operands, convolve, convolves};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{plain, plain_workplace, settle};
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, Operator, Saves,
    TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Value, sizes_value};
use rushlight_dispatch::vmap::{RuleResult, merge_batch, one_result, split_batch};
use rushlight_dispatch::{copy, create, op, value};

use super::output_size::{output_size, too_many};
use super::space::Space;
use super::{by_cudnn, on_cuda};
use crate::convert::CLONE;
use crate::expr_ext::ExprExt;
use crate::pointwise::arith::ADD;
use crate::view::RESHAPE;
use crate::view::transpose::TRANSPOSE;

pub(super) const ACCEPTED: DTypes = DTypes::NUMBERS.union(DTypes::COMPLEX32);

#[operator]
pub static CONV: Operator = Operator {
    name: "_conv",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    doc: "The convolution of a batch of images of any number of dimensions.

    >>> torch._conv(torch.ones(1, 1, 3), torch.ones(1, 1, 2), None, (1,), (0, 0), (1,), 1)
    tensor([[[2., 2.]]])",
    dtypes: ACCEPTED,
    batch_rule: BatchRule::Custom(batched_conv),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (input, weight) = (args.tensor(INPUT)?, args.tensor(WEIGHT)?);
            let dims = input.rank().saturating_sub(2);
            let lists = [args.ints(STRIDE)?.len(), args.ints(PADDING)?.len(), args.ints(DILATION)?.len()];
            if dims == 0
                || weight.rank() != input.rank()
                || lists != [dims, 2 * dims, dims]
                || args.ints(STRIDE)?.contains(&0)
            {
                return Err(Error::runtime("operands of a convolution do not fit each other"));
            }
            let mut sizes = Dims::from_slice(&[input.sizes()[0], weight.sizes()[0]]);
            for dim in 0..dims {
                let size = output_size_at(input.sizes()[2 + dim], weight.sizes()[2 + dim], dim, args)?;
                sizes.push(size.ok_or_else(too_many)?);
            }
            Ok(vec![formatted(TensorSpec::new(&sizes, input.dtype(), input), input, weight)])
        },
        |args, results| {
            run(
                Computed::Output,
                args,
                [args.tensor(INPUT)?, args.tensor(WEIGHT)?, &results[0]],
                args.optional_tensor(BIAS),
            )
        },
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(WEIGHT), |d| {
            let grad = in_format_of_operands(d, [INPUT, WEIGHT]);
            again(&CONV_INPUT, d, grad, d.input(WEIGHT).conj(), Some(d.sizes(INPUT)))
        }),
        formula(WEIGHT, Saves::input(INPUT), |d| {
            let grad = in_format_of_operands(d, [INPUT, WEIGHT]);
            again(&CONV_WEIGHT, d, d.input(INPUT).conj(), grad, Some(d.sizes(WEIGHT)))
        }),
        formula(BIAS, Saves::NOTHING, sum_of_channels),
    ]),
    node: "ConvolutionBackward0",
    samples: &[
        "t(2, 2, 5), t(3, 2, 3), t(3), (1,), (1, 1), (1,), 1",
        "t(2, 4, 5, 4), t(4, 2, 3, 2), None, (2, 1), (1, 0, 1, 0), (1, 2), 2",
    ],
    ..Operator::BASE
};

/// Also the transposed convolution of `grad`.
#[operator]
pub static CONV_INPUT: Operator = Operator {
    name: "_conv_input",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor weight, int[] size, int[] stride, int[] padding, int[] dilation, int groups, Tensor? bias=None) -> Tensor",
    doc: "The gradient of a convolution's input of `size`, with an optional bias of its channels for transposed convolutions.

    >>> torch._conv_input(torch.ones(1, 1, 2), torch.ones(1, 1, 2), (1, 1, 3), (1,), (0, 0), (1,), 1)
    tensor([[[1., 2., 1.]]])",
    dtypes: ACCEPTED,
    batch_rule: BatchRule::Custom(batched_conv_input),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (grad, weight) = (args.tensor(GRAD)?, args.tensor(WEIGHT)?);
            Ok(vec![formatted(TensorSpec::new(&to_dims(args.ints(SIZE)?), grad.dtype(), grad), grad, weight)])
        },
        |args, results| {
            run(
                Computed::Input,
                args,
                [&results[0], args.tensor(WEIGHT)?, args.tensor(GRAD)?],
                args.optional_tensor(BIAS),
            )
        },
    )),
    derivative: Derivative::Formulas(&[
        formula(GRAD, Saves::input(WEIGHT), |d| {
            again(&CONV, d, in_format_of_operands(d, [GRAD, WEIGHT]), d.input(WEIGHT).conj(), None)
        }),
        formula(WEIGHT, Saves::input(GRAD), |d| {
            let grad = in_format_of_operands(d, [GRAD, WEIGHT]);
            again(&CONV_WEIGHT, d, grad, d.input(GRAD).conj(), Some(d.sizes(WEIGHT)))
        }),
        formula(BIAS, Saves::NOTHING, sum_of_channels),
    ]),
    node: "ConvolutionBackward0",
    samples: &[
        "t(2, 3, 5), t(3, 2, 3), (2, 2, 5), (1,), (1, 1), (1,), 1",
        "t(2, 3, 5), t(3, 2, 3), (2, 2, 5), (1,), (1, 1), (1,), 1, t(2)",
    ],
    ..Operator::BASE
};

/// The result is channels-last if an operand is. torch's kernels for wide volumes do not change the order, and those
/// for sequences consider only the weight.
fn formatted(spec: TensorSpec, input: &Tensor, weight: &Tensor) -> TensorSpec {
    match spec.layout.rank() {
        // Operands that do not match have not been checked yet.
        rank if rank != input.rank() || rank != weight.rank() || input.sizes().first() == Some(&0) => spec,
        3 => spec.formatted_as_image(weight.layout()),
        5 if !is_narrow(input.dtype()) => spec,
        _ => spec.formatted(input.layout()).formatted(weight.layout()),
    }
}

/// Whether torch's kernels for volumes of this dtype know channels-last.
fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::BF16 | DType::F16)
}

/// The gradient of a result in the memory format of the result, in which torch computes the gradients of the operands.
fn in_format_of_operands(d: &BackwardContext, operands: [Arg; 2]) -> Expr {
    let grad = d.grad();
    let rank = d.rank(operands[0]);
    if rank != 4 && !(rank == 5 && is_narrow(d.results[0].dtype)) {
        return grad;
    }
    let mut formats =
        operands.into_iter().filter_map(|arg| d.meta(arg).and_then(|meta| channels_last_format(&meta.layout())));
    let format = formats.next_back();
    Expr::new(grad.done().and_then(|grad| match is_contiguous(grad.layout(), format)? {
        true => Ok(grad),
        false => op!(CLONE, &grad, format.unwrap_or("contiguous_format")),
    }))
}

/// Adds a number to all elements of each channel.
fn add_to_channels(tensor: &Tensor, bias: &Tensor) -> Result<()> {
    let shown = channels(&bias.detach(), tensor.rank())?;
    Args::new(&ADD, [tensor.into(), shown.into()]).call_into(value::Target::InPlace).map(drop)
}

/// A vector as a tensor that broadcasts along the channels of a tensor of `rank` dimensions.
fn channels(vector: &Tensor, rank: usize) -> Result<Tensor> {
    let mut sizes = vec![1; rank.saturating_sub(1).max(1)];
    sizes[0] = vector.numel() as isize;
    crate::view::RESHAPE.tensor([vector.into(), sizes_value(&sizes)])
}

/// The gradient of the bias.
fn sum_of_channels(d: &BackwardContext) -> Expr {
    let dims: Ints = (0..d.rank(Arg::FIRST) as i64).filter(|&dim| dim != 1).collect();
    // Sums of complex32 are computed in complex64.
    let half = d.results[0].dtype == DType::C32;
    let dtype = if half { Some(DType::C64) } else { None };
    let sum = d.grad().call(&crate::reduce::sum::SUM_DIM, [Value::Ints(dims), false.into(), dtype.into()]);
    if half { sum.call(&crate::convert::TO_DTYPE, [DType::C32.into()]) } else { sum }
}

#[operator]
pub static CONV_WEIGHT: Operator = Operator {
    name: "_conv_weight",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor grad, int[] size, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    doc: "The gradient of a convolution's weight of `size`.

    >>> torch._conv_weight(torch.ones(1, 1, 3), torch.ones(1, 1, 2), (1, 1, 2), (1,), (0, 0), (1,), 1)
    tensor([[[2., 2.]]])",
    dtypes: ACCEPTED,
    batch_rule: BatchRule::Custom(batched_conv_weight),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (input, grad) = (args.tensor(INPUT)?, args.tensor(GRAD)?);
            Ok(vec![formatted(TensorSpec::new(&to_dims(args.ints(SIZE)?), input.dtype(), input), input, grad)])
        },
        |args, results| run(Computed::Weight, args, [args.tensor(INPUT)?, &results[0], args.tensor(GRAD)?], None),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(GRAD), |d| {
            again(&CONV_INPUT, d, d.input(GRAD).conj(), d.grad(), Some(d.sizes(INPUT)))
        }),
        formula(GRAD, Saves::input(INPUT), |d| again(&CONV, d, d.input(INPUT).conj(), d.grad(), None)),
    ]),
    node: "ConvolutionBackwardBackward0",
    samples: &["t(2, 2, 5), t(2, 3, 5), (3, 2, 3), (1,), (1, 1), (1,), 1"],
    ..Operator::BASE
};

/// Calls one of the three with the geometry of the call that is differentiated.
fn again(op: &'static Operator, d: &BackwardContext, first: Expr, second: Expr, sizes: Option<&[isize]>) -> Expr {
    use CONV::*;

    let second = match second.done() {
        Ok(second) => second,
        Err(error) => return Expr::Failed(error),
    };
    let sizes = sizes.map_or(Value::None, sizes_value);
    first.call(
        op,
        [
            second.into(),
            sizes,
            d.ints(STRIDE).into(),
            d.ints(PADDING).into(),
            d.ints(DILATION).into(),
            d.int(GROUPS).into(),
        ],
    )
}

/// The output size of a call along a spatial dimension; `None` if a number exceeds the limit of the kernels.
fn output_size_at(input: isize, kernel: isize, dim: usize, args: &Args) -> Result<Option<isize>> {
    use CONV::*;

    let (strides, padding, dilation) = (args.ints(STRIDE)?, args.ints(PADDING)?, args.ints(DILATION)?);
    let sides = [padding[dim], padding[padding.len() / 2 + dim]];
    Ok(output_size(input, kernel, sides, dilation[dim], strides[dim]))
}

/// The compute dtype of a convolution.
fn compute_dtype(dtype: DType) -> DType {
    match dtype {
        DType::U8 | DType::I8 | DType::I16 => DType::I32,
        other => other.compute(),
    }
}

/// The private operators can be called directly, so everything on which the kernel relies is checked here too: matching
/// sizes, and as many outputs as the geometry has windows.
fn check_operands(own: [&[isize]; 3], args: &Args) -> Result<()> {
    use CONV::*;

    let [input, weight, output] = own;
    let (rank, groups) = (input.len(), args.int(GROUPS)? as isize);
    let positive = |arg| Ok::<_, Error>(args.ints(arg)?.len() == rank - 2 && args.ints(arg)?.iter().all(|&n| n > 0));
    let fits = (3..=5).contains(&rank)
        && own.iter().all(|sizes| sizes.len() == rank)
        && groups > 0
        && weight[0] % groups == 0
        && input[0] == output[0]
        && weight[1].checked_mul(groups) == Some(input[1])
        && output[1] == weight[0]
        && positive(STRIDE)?
        && positive(DILATION)?
        && args.ints(PADDING)?.len() == 2 * (rank - 2)
        && args.ints(PADDING)?[..rank - 2].iter().all(|&n| n >= 0);
    let mut counted = fits;
    for dim in 0..if fits { rank - 2 } else { 0 } {
        counted &= output_size_at(input[2 + dim], weight[2 + dim], dim, args)? == Some(output[2 + dim]);
    }
    if counted {
        return Ok(());
    }
    Err(Error::runtime("operands of a convolution do not fit each other").shapes(own))
}

/// Computes one tensor from the other two of input, weight and output, and adds the bias to the channels of the result.
fn run(computed: Computed, args: &Args, operands: [&Tensor; 3], bias: Option<&Tensor>) -> Result<()> {
    let own = operands.map(|tensor| tensor.sizes().as_slice());
    check_operands(own, args)?;
    let at = computed.position();
    let result = operands[at];
    if bias.is_some_and(|bias| bias.sizes().as_slice() != &result.sizes()[1..2]) {
        return Err(Error::runtime("operands of a convolution do not fit each other").shapes(own));
    }
    if operands.iter().any(|tensor| tensor.numel() == 0) {
        return without_products(result, bias);
    }
    let space = Space {
        groups: args.int(CONV::GROUPS)? as isize,
        strides: args.ints(CONV::STRIDE)?,
        padding: args.ints(CONV::PADDING)?,
        dilation: args.ints(CONV::DILATION)?,
    };
    if let Device::Cuda(_) = result.device() {
        if by_cudnn::run(computed, &space, operands)? {
            return bias.map_or(Ok(()), |bias| add_to_channels(result, bias));
        }
        return on_cuda::run(computed, &space, operands, bias);
    }
    let mut geometry = space.geometry(own);
    // With one window the stride is not used.
    geometry.space.iter_mut().filter(|dim| dim.output == 1).for_each(|dim| dim.stride = 1);
    let dtype = compute_dtype(result.dtype());
    if !convolves(dtype) {
        return Err(Error::unsupported("slow_conv2d_cpu", dtype));
    }
    let prepared = |place: usize| {
        if place != at { plain(operands[place], dtype) } else { plain_workplace(result, dtype) }
    };
    let tensors = [prepared(0)?, prepared(1)?, prepared(2)?];
    // The kernels add a bias to outputs alone.
    let (bias, later) = if computed == Computed::Input { (None, bias) } else { (bias, None) };
    let bias = bias.map(|bias| plain(bias, dtype)).transpose()?;
    {
        let pins = pin_all(tensors.iter().map(Tensor::storage))?;
        let start = |place: usize| pins[place].as_ptr().wrapping_offset(tensors[place].first_byte());
        let bias_pin = bias.as_ref().map(|bias| bias.storage().pin()).transpose()?;
        let bias = bias
            .as_ref()
            .zip(bias_pin.as_ref())
            .map(|(bias, pin)| pin.as_ptr().wrapping_offset(bias.first_byte()).cast_const());
        let operands = Operands { input: start(0), weight: start(1), output: start(2), bias };
        // SAFETY: row-major operands, pinned, of the geometry's sizes; the result is new.
        unsafe { convolve(dtype, computed, &geometry, operands)? };
    }
    settle(&tensors[at], result)?;
    later.map_or(Ok(()), |bias| add_to_channels(result, bias))
}

/// Empty sums: zeros, or the bias.
fn without_products(result: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    let Some(bias) = bias else { return create::fill(result, Scalar::ZERO) };
    let mut strides = Dims::from_elem(0, result.rank());
    strides[1] = bias.layout().strides[0];
    let spread = Layout { sizes: result.sizes().clone(), strides, offset: bias.layout().offset };
    copy::copy(result, &Tensor::view_of(bias, spread))
}

/// Moves samples into the channels, the second dimension: `[N, B, C, ..]` becomes `[B, N * C, ..]`.
fn as_channels(shown: &Tensor) -> Result<Tensor> {
    let moved = op!(TRANSPOSE, shown, 0i64, 1i64)?;
    let sizes = moved.sizes();
    let mut merged = vec![sizes[0], sizes[1] * sizes[2]];
    merged.extend_from_slice(&sizes[3..]);
    op!(RESHAPE, moved, sizes_value(&merged))
}

/// The inverse of `as_channels`.
fn from_channels(whole: &Tensor, size: isize) -> Result<Tensor> {
    let sizes = whole.sizes();
    let mut apart = vec![sizes[0], size, sizes[1] / size.max(1)];
    apart.extend_from_slice(&sizes[2..]);
    op!(TRANSPOSE, op!(RESHAPE, whole, sizes_value(&apart))?, 0i64, 1i64)
}

/// One of the three convolution operators with the geometry of the call, other operands and `groups` groups.
fn convolved(op: &'static Operator, batch: &BatchedCall, operands: [Value<'static>; 3], groups: i64) -> Result<Tensor> {
    let args = batch.args;
    let [first, second, third] = operands;
    let geometry = |arg| args.ints(arg).map(Value::from);
    let values = [
        first,
        second,
        third,
        geometry(CONV::STRIDE)?,
        geometry(CONV::PADDING)?,
        geometry(CONV::DILATION)?,
        groups.into(),
    ];
    Args::new(op, values).call()?.into_tensor()
}

/// The sizes at position 2 with one of them multiplied by the number of samples.
fn enlarged(batch: &BatchedCall, dim: usize) -> Result<Value<'static>> {
    let mut sizes = Ints::from_slice(batch.args.ints(CONV_INPUT::SIZE)?);
    sizes[dim] *= batch.size as i64;
    Ok(Value::Ints(sizes))
}

fn batched_conv(batch: &BatchedCall) -> RuleResult {
    use CONV::*;

    if batch.size == 0 {
        return Ok(None);
    }
    let groups = batch.args.int(GROUPS)?;
    let has_bias = batch.args.has_tensor(BIAS);
    if !batch.differs_at(WEIGHT) && !batch.differs_at(BIAS) {
        let bias = if has_bias { Value::Own(batch.one(BIAS)?) } else { Value::None };
        let whole = convolved(
            &CONV,
            batch,
            [merge_batch(&batch.tensor(INPUT)?)?.into(), batch.one(WEIGHT)?.into(), bias],
            groups,
        )?;
        return one_result(split_batch(&whole, batch.size));
    }
    let weight = merge_batch(&batch.tensor(WEIGHT)?)?;
    let bias = if has_bias { Value::Own(merge_batch(&batch.tensor(BIAS)?)?) } else { Value::None };
    let (input, groups) = if !batch.differs_at(INPUT) && groups == 1 {
        (batch.one(INPUT)?, 1)
    } else {
        (as_channels(&batch.tensor(INPUT)?)?, groups * batch.size as i64)
    };
    let whole = convolved(&CONV, batch, [input.into(), weight.into(), bias], groups)?;
    one_result(from_channels(&whole, batch.size))
}

fn batched_conv_input(batch: &BatchedCall) -> RuleResult {
    use CONV_INPUT::*;

    if batch.size == 0 {
        return Ok(None);
    }
    let groups = batch.args.int(GROUPS)?;
    let whole = if batch.differs_at(WEIGHT) {
        let operands = [
            as_channels(&batch.tensor(GRAD)?)?.into(),
            merge_batch(&batch.tensor(WEIGHT)?)?.into(),
            enlarged(batch, 1)?,
        ];
        from_channels(&convolved(&CONV_INPUT, batch, operands, groups * batch.size as i64)?, batch.size)?
    } else {
        let operands = [merge_batch(&batch.tensor(GRAD)?)?.into(), batch.one(WEIGHT)?.into(), enlarged(batch, 0)?];
        split_batch(&convolved(&CONV_INPUT, batch, operands, groups)?, batch.size)?
    };
    if !batch.args.has_tensor(BIAS) {
        return one_result(Ok(whole));
    }
    // `[B, N, C, ..]` broadcast with `[B, 1, C, ..]`.
    let mut sizes = vec![1; whole.rank()];
    sizes[0] = batch.size;
    sizes[2] = batch.args.tensor(BIAS)?.numel() as isize;
    let bias = op!(RESHAPE, batch.tensor(BIAS)?, sizes_value(&sizes))?;
    one_result(op!(ADD, whole, bias))
}

fn batched_conv_weight(batch: &BatchedCall) -> RuleResult {
    use CONV_WEIGHT::*;

    if batch.size == 0 {
        return Ok(None);
    }
    let groups = batch.args.int(GROUPS)?;
    let grad = as_channels(&batch.tensor(GRAD)?)?;
    let (input, groups) = if !batch.differs_at(INPUT) && groups == 1 {
        (batch.one(INPUT)?, 1)
    } else {
        (as_channels(&batch.tensor(INPUT)?)?, groups * batch.size as i64)
    };
    let whole = convolved(&CONV_WEIGHT, batch, [input.into(), grad.into(), enlarged(batch, 0)?], groups)?;
    one_result(split_batch(&whole, batch.size))
}
