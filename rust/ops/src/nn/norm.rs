//! Normalisation: mean zero and variance one over some dimensions, then a scale and a shift.
//!
//! Statistics are computed in single precision at least. Everything is composed, so that gradients of any order follow.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims};
use rushlight_core::{DType, Error, Result, Scalar};

use crate::convert::to_dtype;
use crate::derive::Derivative;
use crate::expr::Expr;
use crate::op;
use crate::pointwise::divide::DIV_TRUNC;
use crate::reduce::moments::VAR_CORRECTION;
use crate::reduce::sum::{MEAN_DIM, SUM_DIM};
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::{Args, Ints, Output, Value};
use crate::view::reshape::sizes_value;

/// What normalisation gives: the elements, and what they were made with.
struct Normal {
    elements: Expr,
    mean: Tensor,
    rstd: Tensor,
}

/// The dtype of the statistics.
fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

fn normalize(own: &Tensor, dims: &Ints, eps: f64) -> Result<Normal> {
    let own = to_dtype(own, wide(own.dtype()))?;
    let mean = op!(MEAN_DIM, &own, dims.clone(), true)?;
    let centred = Expr::from(&own) - Expr::from(&mean);
    let variance = centred.clone().square().call(&MEAN_DIM, [dims.clone().into(), true.into()]);
    let rstd = (variance + eps).rsqrt().done()?;
    Ok(Normal { elements: centred * Expr::from(&rstd), mean, rstd })
}

/// Scale and shift, which have the shape given here, where there are any; then the input's dtype.
fn affine(
    elements: Expr,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    shape: &[isize],
    dtype: DType,
) -> Result<Tensor> {
    let fitted = |tensor: &Tensor| -> Result<Expr> {
        let tensor = to_dtype(tensor, wide(tensor.dtype()))?;
        op!(crate::view::RESHAPE, &tensor, sizes_value(shape)).map(Expr::from)
    };
    let mut elements = elements;
    if let Some(weight) = weight {
        elements = elements * fitted(weight)?;
    }
    if let Some(bias) = bias {
        elements = elements + fitted(bias)?;
    }
    to_dtype(&elements.done()?, dtype)
}

fn last_dims(count: usize) -> Ints {
    (1..=count as i64).rev().map(|n| -n).collect()
}

/// Refuses a shape that is not that of the last dimensions, and parameters of another shape.
fn check_shape(args: &Args, star: &str, parameters: &[(&str, usize)]) -> Result<Vec<isize>> {
    let (own, shape) = (args.tensor(0)?, to_dims(args.ints(1)?));
    if shape.is_empty() {
        return Err(Error::runtime(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []",
        ));
    }
    for (name, place) in parameters {
        if let Some(tensor) = args.optional_tensor(*place)
            && *tensor.sizes() != shape
        {
            return Err(Error::runtime(format!(
                "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {} and normalized_shape = {}",
                Shape(tensor.sizes()),
                Shape(&shape)
            )));
        }
    }
    if !own.sizes().ends_with(&shape) {
        let listed: Vec<String> = shape.iter().map(isize::to_string).collect();
        return Err(Error::runtime(format!(
            "Given normalized_shape={}, expected input with shape [{star}{}], but got input of size{}",
            Shape(&shape),
            listed.join(", "),
            Shape(own.sizes())
        )));
    }
    Ok(shape.to_vec())
}

fn check_floating(own: &Tensor, kernel: &str) -> Result<()> {
    if own.dtype().is_floating() { Ok(()) } else { Err(Error::unsupported(kernel, own.dtype())) }
}

fn layer_norm(args: &Args) -> Result<(Tensor, Normal)> {
    let shape = check_shape(args, "*, ", &[("weight", 2), ("bias", 3)])?;
    let own = args.tensor(0)?;
    check_floating(own, "LayerNormKernelImpl")?;
    let normal = normalize(own, &last_dims(shape.len()), args.float(4)?)?;
    let (weight, bias) = (args.optional_tensor(2), args.optional_tensor(3));
    Ok((affine(normal.elements.clone(), weight, bias, &shape, own.dtype())?, normal))
}

pub static LAYER_NORM: Row = Row {
    name: "layer_norm",
    namespace: "nn.functional",
    aliases: &["layer_norm"],
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
    doc: "Normalises the last dimensions, which `normalized_shape` names, of each element of the others.

    out = (input - mean) / sqrt(variance + eps) * weight + bias

    >>> torch.nn.functional.layer_norm(torch.tensor([[1., 3.], [5., 5.]]), (2,))
    tensor([[-1.0000,  1.0000],
            [ 0.0000,  0.0000]])",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| layer_norm(args).map(|(output, _)| Output::Tensor(output))),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), (3,)", "t(2, 3, 4), (3, 4), pos(3, 4), t(3, 4)", "t(4, 3), (3,), None, t(3), 0.1"],
    errors: &[
        (
            "t(2, 3), (4,)",
            "RuntimeError",
            "Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]",
        ),
        (
            "t(2, 3), ()",
            "RuntimeError",
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []",
        ),
        (
            "t(2, 3), (3,), t(2)",
            "RuntimeError",
            "Expected weight to be of same shape as normalized_shape, but got weight of shape [2] and normalized_shape = [3]",
        ),
    ],
    reference: "(lambda axes: (input - input.mean(axes, keepdims=True)) / np.sqrt(input.var(axes, keepdims=True) + eps) * (1 if weight is None else weight) + (0 if bias is None else bias))(tuple(range(-len(normalized_shape), 0)))",
    ..Row::BASE
};

pub static NATIVE_LAYER_NORM: Row = Row {
    name: "native_layer_norm",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "`layer_norm`, with the means and the reciprocal deviations.

    >>> torch.native_layer_norm(torch.tensor([[1., 3.]]), (2,), None, None, 0.)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        let (output, normal) = layer_norm(args)?;
        let own = args.tensor(0)?.dtype();
        // Parameters wider than the input keep the statistics wide.
        let parameters = [args.optional_tensor(2), args.optional_tensor(3)];
        let dtype = parameters.into_iter().flatten().map(Tensor::dtype).find(|&dtype| dtype != own).unwrap_or(own);
        let statistic = |tensor: Tensor| to_dtype(&tensor.detach(), dtype);
        Ok(Output::Tuple(vec![output, statistic(normal.mean)?, statistic(normal.rstd)?]))
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), (3,), None, None, 0.1", "t(2, 3, 4), (3, 4), pos(3, 4), t(3, 4), 0.1"],
    errors: &[(
        "t(2, 3), (4,), None, None, 0.1",
        "RuntimeError",
        "Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]",
    )],
    reference: "(lambda mean, scale: ((input - mean) * scale * (1 if weight is None else weight) + (0 if bias is None else bias), mean, scale))(input.mean(tuple(range(-len(normalized_shape), 0)), keepdims=True), 1 / np.sqrt(input.var(tuple(range(-len(normalized_shape), 0)), keepdims=True) + eps))",
    ..Row::BASE
};

pub static RMS_NORM: Row = Row {
    name: "rms_norm",
    namespace: "nn.functional",
    aliases: &["rms_norm"],
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
    doc: "Divides by the root of the mean square over the last dimensions; `eps` is the dtype's own by default.

    out = input / sqrt(mean(input ** 2) + eps) * weight

    >>> torch.nn.functional.rms_norm(torch.tensor([[3., 4.]]), (2,))
    tensor([[0.8485, 1.1314]])",
    dtypes: DTypes::INEXACT,
    run: Run::Compose(|args| {
        let shape = check_shape(args, "*", &[("weight", 2)])?;
        let own = args.tensor(0)?;
        let dtype = own.dtype();
        let eps = args.optional_scalar(3).map(Scalar::f64).unwrap_or(match wide(dtype).to_real() {
            DType::F64 => f64::EPSILON,
            _ => f64::from(f32::EPSILON),
        });
        let x = Expr::from(to_dtype(own, wide(dtype))?);
        let mean = op!(MEAN_DIM, &x.clone().square().done()?, last_dims(shape.len()), true)?;
        affine(x * (Expr::from(mean) + eps).rsqrt(), args.optional_tensor(2), None, &shape, dtype).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["real(2, 3), (3,)", "real(2, 3, 4), (3, 4), real(3, 4), 0.1"],
    errors: &[
        (
            "t(2, 3), (4,)",
            "RuntimeError",
            "Given normalized_shape=[4], expected input with shape [*4], but got input of size[2, 3]",
        ),
        (
            "t(2, 3), (3,), t(2)",
            "RuntimeError",
            "Expected weight to be of same shape as normalized_shape, but got weight of shape [2] and normalized_shape = [3]",
        ),
    ],
    reference: "input / np.sqrt((input ** 2).mean(tuple(range(-len(normalized_shape), 0)), keepdims=True) + (eps or 0)) * (1 if weight is None else weight)",
    ..Row::BASE
};

/// The shape in which a parameter of one number a channel meets `(N, C, ..)`.
fn by_channel(own: &Tensor) -> Vec<isize> {
    let mut shape = vec![1; own.rank()];
    shape[1] = -1;
    shape
}

fn product(sizes: &[isize]) -> isize {
    rushlight_core::layout::product(sizes) as isize
}

pub static GROUP_NORM: Row = Row {
    name: "group_norm",
    namespace: "nn.functional",
    aliases: &["group_norm"],
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
    doc: "Normalises groups of channels of `(N, C, *)`; scale and shift have a number for each channel.

    >>> torch.nn.functional.group_norm(torch.tensor([[1., 3., 5., 9.]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        let (own, groups) = (args.tensor(0)?, args.int(1)?);
        if own.rank() < 2 {
            return Err(Error::runtime(format!(
                "Expected at least 2 dimensions for input tensor but received {}",
                own.rank()
            )));
        }
        if groups <= 0 {
            return Err(Error::runtime(format!("Expected num_groups to be greater than 0, got {groups}")));
        }
        let (batch, channels) = (own.sizes()[0], own.sizes()[1]);
        let groups = groups as isize;
        if batch * channels / groups * product(&own.sizes()[2..]) == 1 {
            let mut sizes = vec![batch * channels / groups, groups];
            sizes.extend(&own.sizes()[2..]);
            return Err(Error::value(format!(
                "Expected more than 1 value per channel when training, got input size {}",
                Shape(&sizes)
            )));
        }
        if channels % groups != 0 {
            return Err(Error::runtime(format!(
                "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and num_groups={groups}",
                Shape(own.sizes())
            )));
        }
        for (name, place) in [("weight", 2), ("bias", 3)] {
            if let Some(tensor) = args.optional_tensor(place)
                && tensor.sizes().as_slice() != [channels]
            {
                return Err(Error::runtime(format!(
                    "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {} and input of shape {}",
                    Shape(tensor.sizes()),
                    Shape(own.sizes())
                )));
            }
        }
        check_floating(own, "GroupNormKernelImpl")?;
        let each = product(&own.sizes()[1..]) / groups;
        let grouped = op!(crate::view::RESHAPE, own, sizes_value(&[batch, groups, each]))?;
        let normal = normalize(&grouped, &last_dims(1), args.float(4)?)?;
        let elements = normal.elements.call(&crate::view::RESHAPE, [sizes_value(own.sizes())]);
        let (weight, bias) = (args.optional_tensor(2), args.optional_tensor(3));
        affine(elements, weight, bias, &by_channel(own), own.dtype()).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 4), 2", "t(2, 6, 3), 3, pos(6), t(6)"],
    errors: &[
        ("t(4), 2", "RuntimeError", "Expected at least 2 dimensions for input tensor but received 1"),
        (
            "t(2, 3), 2",
            "RuntimeError",
            "Expected number of channels in input to be divisible by num_groups, but got input of shape [2, 3] and num_groups=2",
        ),
        (
            "t(2, 4, 3), 2, t(3)",
            "RuntimeError",
            "Expected weight to be a vector of size equal to the number of channels in input, but got weight of shape [3] and input of shape [2, 4, 3]",
        ),
        ("t(1, 2), 2", "ValueError", "Expected more than 1 value per channel when training, got input size [1, 2]"),
    ],
    reference: "(lambda x: ((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)).reshape(input.shape) * (1 if weight is None else weight.reshape(-1, *(1,) * (input.ndim - 2))) + (0 if bias is None else bias.reshape(-1, *(1,) * (input.ndim - 2))))(input.reshape(input.shape[0], num_groups, -1))",
    ..Row::BASE
};

/// The operands that hold a number for each channel do; torch counts them for each sample where those are normalised apart.
fn check_channels(args: &Args, samples: isize) -> Result<()> {
    let channels = args.tensor(0)?.sizes().get(1).copied().unwrap_or(0);
    for (name, place) in [("running_mean", 1), ("running_var", 2), ("weight", 3), ("bias", 4)] {
        if let Some(found) = args.optional_tensor(place).map(|tensor| tensor.numel() as isize)
            && found != channels
        {
            let (due, found) = (samples.saturating_mul(channels), samples.saturating_mul(found));
            return Err(Error::runtime(format!("{name} should contain {due} elements not {found}")));
        }
    }
    Ok(())
}

/// Statistics of each channel of `(N, C, ..)`: the batch's own, by which running ones move, or the running ones.
fn channel_norm(args: &Args, own: &Tensor, use_own: bool, whole: &Tensor, momentum: f64, eps: f64) -> Result<Expr> {
    let running = [args.optional_tensor(1), args.optional_tensor(2)];
    let channels = own.sizes()[1];
    let shape = by_channel(own);
    let fitted =
        |tensor: &Tensor| op!(crate::view::RESHAPE, &to_dtype(tensor, wide(tensor.dtype()))?, sizes_value(&shape));
    if !use_own {
        let [Some(mean), Some(variance)] = running else { return Err(Error::runtime("statistics are missing")) };
        let own = Expr::from(to_dtype(own, wide(own.dtype()))?);
        return Ok((own - Expr::from(fitted(mean)?)) * (Expr::from(fitted(variance)?) + eps).rsqrt());
    }
    let dims: Ints = (0..own.rank() as i64).filter(|&dim| dim != 1).collect();
    let normal = normalize(own, &dims, eps)?;
    let _off = rushlight_autograd::modes::GradMode::new(false);
    let moved = |running: &Tensor, now: Tensor| -> Result<()> {
        // A batch whose samples were normalised apart counts with their mean.
        let now = op!(crate::view::RESHAPE, &now, sizes_value(&[-1, running.numel() as isize]))?;
        let now = op!(MEAN_DIM, &now, Ints::from_slice(&[0]))?;
        let now = op!(crate::view::RESHAPE, &now, sizes_value(running.sizes()))?;
        let next = Expr::from(running) * (1.0 - momentum) + Expr::from(now) * momentum;
        crate::copy::copy(running, &next.done()?)?;
        running.bump_version();
        Ok(())
    };
    if channels > 0 && whole.numel() > 0 {
        if let Some(mean) = running[0] {
            moved(mean, normal.mean.detach())?;
        }
        if let Some(variance) = running[1] {
            let own = to_dtype(&own.detach(), wide(own.dtype()))?;
            moved(variance, op!(VAR_CORRECTION, &own, dims, Value::None, true)?)?;
        }
    }
    Ok(normal.elements)
}

pub static BATCH_NORM: Row = Row {
    name: "batch_norm",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
    doc: "Normalises each channel of `(N, C, *)` over the batch: in training with its own statistics, by which the running ones
move in place, else with the running ones.

    >>> torch.nn.functional.batch_norm(torch.tensor([[1.], [3.]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        let (own, training) = (args.tensor(0)?, args.bool(5)?);
        let sizes = own.sizes();
        if training && sizes.len() > 1 && sizes[0].wrapping_mul(product(&sizes[2..])) == 1 {
            return Err(Error::value(format!(
                "Expected more than 1 value per channel when training, got input size torch.Size({})",
                Shape(sizes)
            )));
        }
        if let (false, Some(name)) = (training, ["running_mean", "running_var"].iter().zip(1..).find(|(_, at)| !args.has(*at)))
        {
            return Err(Error::runtime(format!("{} must be defined in evaluation mode", name.0)));
        }
        check_channels(args, 1)?;
        check_floating(own, "batch_norm")?;
        if own.rank() < 2 {
            if own.numel() == 0 {
                return op!(crate::convert::CLONE, own).map(Output::Tensor);
            }
            return Err(Error::runtime(format!("batch_norm expects at least 2 dimensions, but got {}", own.rank())));
        }
        let elements = channel_norm(args, own, training, own, args.float(6)?, args.float(7)?)?;
        let (weight, bias) = (args.optional_tensor(3), args.optional_tensor(4));
        affine(elements, weight, bias, &by_channel(own), own.dtype()).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(3, 2), None, None, training=True", "t(3, 2, 2), t(2), pos(2), pos(2), t(2)"],
    errors: &[
        ("t(2, 3), None, None", "RuntimeError", "running_mean must be defined in evaluation mode"),
        ("t(2, 3), t(2), t(3)", "RuntimeError", "running_mean should contain 3 elements not 2"),
        ("t(1, 3), None, None, training=True", "ValueError", "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])"),
    ],
    reference: "",
    ..Row::BASE
};

pub static INSTANCE_NORM: Row = Row {
    name: "instance_norm",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor",
    doc: "Normalises each channel of each sample of `(N, C, *)`; running statistics move by the batch's mean.

    >>> torch.nn.functional.instance_norm(torch.tensor([[[1., 3.]]]))
    tensor([[[-1.0000,  1.0000]]])",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        let (own, use_own) = (args.tensor(0)?, args.bool(5)?);
        let sizes = own.sizes();
        if use_own && (sizes.len() < 2 || product(&sizes[2..]) == 1) {
            return Err(Error::value(format!(
                "Expected more than 1 spatial element when training, got input size torch.Size({})",
                Shape(sizes)
            )));
        }
        if !use_own && (!args.has(1) || !args.has(2)) {
            return Err(Error::runtime(
                "Expected running_mean and running_var to be defined when use_input_stats is false",
            ));
        }
        check_floating(own, "batch_norm")?;
        if sizes.len() < 2 {
            return Err(Error::runtime(format!(
                "instance_norm expects at least 2 dimensions, but got {}",
                sizes.len()
            )));
        }
        check_channels(args, sizes[0])?;
        let mut joined = vec![1, sizes[0].saturating_mul(sizes[1])];
        joined.extend(&sizes[2..]);
        let apart = if use_own { op!(crate::view::RESHAPE, own, sizes_value(&joined))? } else { own.clone() };
        let elements = channel_norm(args, &apart, use_own, own, args.float(6)?, args.float(7)?)?;
        let elements = elements.call(&crate::view::RESHAPE, [sizes_value(sizes)]);
        let (weight, bias) = (args.optional_tensor(3), args.optional_tensor(4));
        affine(elements, weight, bias, &by_channel(own), own.dtype()).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3, 4)", "t(2, 3, 2, 2), None, None, pos(3), t(3)"],
    errors: &[
        (
            "t(2, 3)",
            "ValueError",
            "Expected more than 1 spatial element when training, got input size torch.Size([2, 3])",
        ),
        ("t(2, 3, 2), t(2)", "RuntimeError", "running_mean should contain 6 elements not 4"),
        ("t(2, 3, 2), None, t()", "RuntimeError", "running_var should contain 6 elements not 2"),
        (
            "t(2, 3, 2), use_input_stats=False",
            "RuntimeError",
            "Expected running_mean and running_var to be defined when use_input_stats is false",
        ),
    ],
    reference: "",
    ..Row::BASE
};

pub static LOCAL_RESPONSE_NORM: Row = Row {
    name: "local_response_norm",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor",
    doc: "Divides each channel by a power of what `size` neighbouring channels hold.

    out = input / (k + alpha * mean(squares of neighbours)) ** beta

    >>> torch.nn.functional.local_response_norm(torch.tensor([[[2.], [4.]]]), 2, alpha=1., beta=1.)
    tensor([[[0.6667],
             [0.3636]]])",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        let (own, size) = (args.tensor(0)?, args.int(1)?);
        if own.rank() < 3 {
            return Err(Error::value(format!(
                "Expected 3D or higher dimensionality                          input (got {} dimensions)",
                own.rank()
            )));
        }
        if size <= 0 {
            return Err(Error::runtime("kernel size should be greater than zero"));
        }
        if own.numel() == 0 {
            return Ok(Output::Tensor(own.clone()));
        }
        // Zeros before and behind the channels, where neighbours are missing.
        let mut pad: Ints = std::iter::repeat_n(0, 2 * (own.rank() - 2)).collect();
        pad.extend([size / 2, (size - 1) / 2]);
        let squares = Expr::from(own).square().call(&crate::join::pad::CONSTANT_PAD, [pad.into()]);
        let windows = squares.call(&crate::view::unfold::UNFOLD, [1i64.into(), size.into(), 1i64.into()]);
        let last = Ints::from_slice(&[-1]);
        let mean = if own.dtype().is_floating() {
            windows.call(&MEAN_DIM, [last.into()])
        } else {
            windows.call(&SUM_DIM, [last.into()]).with(&DIV_TRUNC, size)
        };
        let divisor = (mean * args.float(2)? + args.float(4)?).with(&crate::pointwise::power::POW, args.float(3)?);
        (Expr::from(own) / divisor).done().map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 4, 3), 2", "t(2, 5, 2, 2), 3, 1.0, 0.5, 2.0"],
    errors: &[(
        "t(2, 3), 2",
        "ValueError",
        "Expected 3D or higher dimensionality                          input (got 2 dimensions)",
    )],
    reference: "",
    ..Row::BASE
};
