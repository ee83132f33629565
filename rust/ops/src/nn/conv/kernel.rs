//! The rows that compute: a convolution, and its derivatives by the input and by the weight. Each is a derivative of the
//! others, so the three have gradients of any order among themselves.

use rushlight_autograd::Tensor;
use rushlight_core::layout::to_dims;
use rushlight_core::storage::pin_all;
use rushlight_core::{DType, Dims, Error, Layout, Result, Scalar};
use rushlight_cpu::nn::conv::{Geometry, Operands, Target, convolve, convolves};

use crate::call::{self, call_into};
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::operands::{plain, plain_workplace, settle};
use crate::pointwise::arith::ADD;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::{Args, Ints, Value};
use crate::view::reshape::sizes_value;

pub(super) const ACCEPTED: DTypes = DTypes::NUMBERS;

pub static CONV: Row = Row {
    name: "_conv",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    doc: "The convolution of a batch of images of any number of dimensions.

    >>> torch._conv(torch.ones(1, 1, 3), torch.ones(1, 1, 2), None, (1,), (0, 0), (1,), 1)
    tensor([[[2., 2.]]])",
    dtypes: ACCEPTED,
    mapped: Mapped::Rule(crate::nn::mapped::conv),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (input, weight) = (args.tensor(0)?, args.tensor(1)?);
            let dims = input.rank().saturating_sub(2);
            let lists = [args.ints(3)?.len(), args.ints(4)?.len(), args.ints(5)?.len()];
            if dims == 0
                || weight.rank() != input.rank()
                || lists != [dims, 2 * dims, dims]
                || args.ints(3)?.contains(&0)
            {
                return Err(Error::runtime("operands of a convolution do not fit each other"));
            }
            let mut sizes = Dims::from_slice(&[input.sizes()[0], weight.sizes()[0]]);
            for dim in 0..dims {
                let size = output_size(input.sizes()[2 + dim], weight.sizes()[2 + dim], dim, args)?;
                sizes.push(size.ok_or_else(|| Error::runtime("numel: integer multiplication overflow"))?);
            }
            Ok(vec![formatted(Spec::new(&sizes, input.dtype(), input), input, weight)])
        },
        cpu: |args, results| {
            run(Target::Output, args, [args.tensor(0)?, args.tensor(1)?, &results[0]], args.optional_tensor(2))
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| again(&CONV_INPUT, d, d.grad(), d.input(1).conj(), Some(d.sizes(0)))),
        formula(1, Saves::input(0), |d| again(&CONV_WEIGHT, d, d.input(0).conj(), d.grad(), Some(d.sizes(1)))),
        formula(2, Saves::NOTHING, sum_of_channels),
    ]),
    node: "ConvolutionBackward0",
    samples: &[
        "t(2, 2, 5), t(3, 2, 3), t(3), (1,), (1, 1), (1,), 1",
        "t(2, 4, 5, 4), t(4, 2, 3, 2), None, (2, 1), (1, 0, 1, 0), (1, 2), 2",
    ],
    ..Row::BASE
};

/// Also the transposed convolution of `grad`.
pub static CONV_INPUT: Row = Row {
    name: "_conv_input",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor weight, int[] size, int[] stride, int[] padding, int[] dilation, int groups, Tensor? bias=None) -> Tensor",
    doc: "The gradient of a convolution's input of `size`; with a bias of its channels, as transposed convolutions have it.

    >>> torch._conv_input(torch.ones(1, 1, 2), torch.ones(1, 1, 2), (1, 1, 3), (1,), (0, 0), (1,), 1)
    tensor([[[1., 2., 1.]]])",
    dtypes: ACCEPTED,
    mapped: Mapped::Rule(crate::nn::mapped::conv_input),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (grad, weight) = (args.tensor(0)?, args.tensor(1)?);
            Ok(vec![formatted(Spec::new(&to_dims(args.ints(2)?), grad.dtype(), grad), grad, weight)])
        },
        cpu: |args, results| {
            run(Target::Input, args, [&results[0], args.tensor(1)?, args.tensor(0)?], None)?;
            args.optional_tensor(7).map_or(Ok(()), |bias| add_to_channels(&results[0], bias))
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| again(&CONV, d, d.grad(), d.input(1).conj(), None)),
        formula(1, Saves::input(0), |d| again(&CONV_WEIGHT, d, d.grad(), d.input(0).conj(), Some(d.sizes(1)))),
        formula(7, Saves::NOTHING, sum_of_channels),
    ]),
    node: "ConvolutionBackward0",
    samples: &[
        "t(2, 3, 5), t(3, 2, 3), (2, 2, 5), (1,), (1, 1), (1,), 1",
        "t(2, 3, 5), t(3, 2, 3), (2, 2, 5), (1,), (1, 1), (1,), 1, t(2)",
    ],
    ..Row::BASE
};

/// Channels come last where those of an operand do; torch's kernels for wide volumes leave them where they are, and those for
/// sequences look at the weight alone.
fn formatted(spec: Spec, input: &Tensor, weight: &Tensor) -> Spec {
    let narrow = matches!(input.dtype(), DType::F32 | DType::BF16 | DType::F16);
    match spec.layout.rank() {
        // Of what does not fit, nobody has said so yet.
        rank if rank != input.rank() || rank != weight.rank() || input.sizes().first() == Some(&0) => spec,
        3 => spec.formatted_as_image(weight.layout()),
        5 if !narrow => spec,
        _ => spec.formatted(input.layout()).formatted(weight.layout()),
    }
}

/// Adds a number to all elements of each channel.
fn add_to_channels(tensor: &Tensor, bias: &Tensor) -> Result<()> {
    let shown = channels(&bias.detach(), tensor.rank())?;
    call_into(Args::new(&ADD, [tensor.into(), shown.into()]), call::Target::InPlace).map(drop)
}

/// A vector as something that broadcasts along the channels of a tensor of `rank` dimensions.
fn channels(vector: &Tensor, rank: usize) -> Result<Tensor> {
    let mut sizes = vec![1; rank.saturating_sub(1).max(1)];
    sizes[0] = vector.numel() as isize;
    crate::view::RESHAPE.tensor([vector.into(), sizes_value(&sizes)])
}

/// The gradient of the bias.
fn sum_of_channels(d: &Derive) -> Expr {
    let dims: Ints = (0..d.rank(0) as i64).filter(|&dim| dim != 1).collect();
    d.grad().call(&crate::reduce::sum::SUM_DIM, [Value::Ints(dims)])
}

pub static CONV_WEIGHT: Row = Row {
    name: "_conv_weight",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor grad, int[] size, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    doc: "The gradient of a convolution's weight of `size`.

    >>> torch._conv_weight(torch.ones(1, 1, 3), torch.ones(1, 1, 2), (1, 1, 2), (1,), (0, 0), (1,), 1)
    tensor([[[2., 2.]]])",
    dtypes: ACCEPTED,
    mapped: Mapped::Rule(crate::nn::mapped::conv_weight),
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Spec::new(&to_dims(args.ints(2)?), args.tensor(0)?.dtype(), args.tensor(0)?)]),
        cpu: |args, results| run(Target::Weight, args, [args.tensor(0)?, &results[0], args.tensor(1)?], None),
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| again(&CONV_INPUT, d, d.input(1).conj(), d.grad(), Some(d.sizes(0)))),
        formula(1, Saves::input(0), |d| again(&CONV, d, d.input(0).conj(), d.grad(), None)),
    ]),
    node: "ConvolutionBackwardBackward0",
    samples: &["t(2, 2, 5), t(2, 3, 5), (3, 2, 3), (1,), (1, 1), (1,), 1"],
    ..Row::BASE
};

/// Calls one of the three with the geometry of the call that is derived.
fn again(row: &'static Row, d: &Derive, first: Expr, second: Expr, sizes: Option<&[isize]>) -> Expr {
    let second = match second.done() {
        Ok(second) => second,
        Err(error) => return Expr::Failed(error),
    };
    let sizes = sizes.map_or(Value::None, sizes_value);
    first.call(row, [second.into(), sizes, d.ints(3).into(), d.ints(4).into(), d.ints(5).into(), d.int(6).into()])
}

/// How many outputs a kernel has along a dimension of space; geometry stands at places 3 to 5. Nothing where numbers are
/// beyond what any kernel counts.
fn output_size(input: isize, kernel: isize, dim: usize, args: &Args) -> Result<Option<isize>> {
    let (stride, padding, dilation) = (args.ints(3)?, args.ints(4)?, args.ints(5)?);
    let sides = [padding[dim], padding[padding.len() / 2 + dim]].map(i128::from);
    let reach = i128::from(dilation[dim]) * (kernel as i128 - 1);
    let padded = input as i128 + sides[0] + sides[1];
    let size = (padded - reach - 1).div_euclid(i128::from(stride[dim])) + 1;
    let last = (size - 1) * i128::from(stride[dim]);
    let counted = sides.into_iter().chain([reach, padded, size, last]).all(|n| n.abs() < LARGEST);
    Ok(counted.then_some(size as isize))
}

/// Places in front of the input and behind it, which sums of a few terms can count.
const LARGEST: i128 = 1 << 60;

/// The dtype in which a convolution is computed.
fn compute_dtype(dtype: DType) -> DType {
    match dtype {
        DType::U8 | DType::I8 | DType::I16 => DType::I32,
        other => other.compute(),
    }
}

/// The private rows can be called from anywhere, so all that the kernel relies on is checked here too: sizes that belong
/// together, and as many outputs as the windows that the geometry says.
fn check_operands(own: [&[isize]; 3], args: &Args) -> Result<()> {
    let [input, weight, output] = own;
    let (rank, groups) = (input.len(), args.int(6)? as isize);
    let positive =
        |place: usize| Ok::<_, Error>(args.ints(place)?.len() == rank - 2 && args.ints(place)?.iter().all(|&n| n > 0));
    let fits = (3..=5).contains(&rank)
        && own.iter().all(|sizes| sizes.len() == rank)
        && groups > 0
        && weight[0] % groups == 0
        && input[0] == output[0]
        && weight[1].checked_mul(groups) == Some(input[1])
        && output[1] == weight[0]
        && positive(3)?
        && positive(5)?
        && args.ints(4)?.len() == 2 * (rank - 2)
        && args.ints(4)?[..rank - 2].iter().all(|&n| n >= 0);
    let mut counted = fits;
    for dim in 0..if fits { rank - 2 } else { 0 } {
        counted &= output_size(input[2 + dim], weight[2 + dim], dim, args)? == Some(output[2 + dim]);
    }
    if counted {
        return Ok(());
    }
    Err(Error::runtime("operands of a convolution do not fit each other").shapes(own))
}

/// Computes the target out of the other two of input, weight and output.
fn run(target: Target, args: &Args, operands: [&Tensor; 3], bias: Option<&Tensor>) -> Result<()> {
    let own = operands.map(|tensor| tensor.sizes().as_slice());
    check_operands(own, args)?;
    if bias.is_some_and(|bias| bias.sizes().as_slice() != &own[1][..1]) {
        return Err(Error::runtime("operands of a convolution do not fit each other").shapes(own));
    }
    let at = match target {
        Target::Input => 0,
        Target::Weight => 1,
        Target::Output => 2,
    };
    let result = operands[at];
    if operands.iter().any(|tensor| tensor.numel() == 0) {
        return without_products(result, bias);
    }
    let [input, weight, output] = own;
    let spread = |sizes: &[isize], missing: usize| {
        let mut three = [missing; 3];
        for (slot, &size) in three.iter_mut().rev().zip(sizes.iter().rev()) {
            *slot = size as usize;
        }
        three
    };
    let list = |place: usize| -> Result<Dims> { Ok(to_dims(args.ints(place)?)) };
    let groups = args.int(6)? as usize;
    let mut strides = spread(&list(3)?, 1);
    // One window makes no step.
    strides.iter_mut().zip(spread(&output[2..], 1)).filter(|(_, count)| *count == 1).for_each(|(step, _)| *step = 1);
    let geometry = Geometry {
        batch: input[0] as usize,
        groups,
        channels: weight[1] as usize,
        features: weight[0] as usize / groups,
        input: spread(&input[2..], 1),
        output: spread(&output[2..], 1),
        kernel: spread(&weight[2..], 1),
        stride: strides,
        padding: spread(&list(4)?[..input.len() - 2], 0),
        dilation: spread(&list(5)?, 1),
    };
    let dtype = compute_dtype(result.dtype());
    if !convolves(dtype) {
        return Err(Error::unsupported("slow_conv2d_cpu", dtype));
    }
    let prepared = |place: usize| {
        if place != at { plain(operands[place], dtype) } else { plain_workplace(result, dtype) }
    };
    let tensors = [prepared(0)?, prepared(1)?, prepared(2)?];
    let bias = bias.map(|bias| plain(bias, dtype)).transpose()?;
    {
        let pins = pin_all(tensors.iter().map(Tensor::storage))?;
        let start =
            |place: usize| pins[place].as_ptr().wrapping_offset(tensors[place].layout().offset * dtype.size() as isize);
        let bias_pin = bias.as_ref().map(|bias| bias.storage().pin()).transpose()?;
        let bias = bias
            .as_ref()
            .zip(bias_pin.as_ref())
            .map(|(bias, pin)| pin.as_ptr().wrapping_offset(bias.layout().offset * dtype.size() as isize).cast_const());
        let operands = Operands { input: start(0), weight: start(1), output: start(2), bias };
        // SAFETY: row-major operands, pinned, of the geometry's sizes; the result is fresh.
        unsafe { convolve(dtype, target, &geometry, operands)? };
    }
    settle(&tensors[at], result)
}

/// Sums of nothing: zeros, or the bias.
fn without_products(result: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    let Some(bias) = bias else { return crate::create::fill(result, Scalar::ZERO) };
    let mut strides = Dims::from_elem(0, result.rank());
    strides[1] = bias.layout().strides[0];
    let spread = Layout { sizes: result.sizes().clone(), strides, offset: bias.layout().offset };
    crate::copy::copy(result, &Tensor::view_of(bias, spread))
}
