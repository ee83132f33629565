//! Normalisation over the last dimensions.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims};
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Args, Autocast, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Arg, Ints, Output, sizes_value};
use rushlight_dispatch::{interpreter, op};

use super::params::{NormParams, Normal};
use super::primitives::NORMALIZE_LAYER;
use super::{check_floating, check_mixed, product, statistic, wide};
use crate::expr_ext::ExprExt;
use crate::reduce::sum::MEAN_DIM;

/// Returns an error for a shape that is not that of the last dimensions, and for parameters of another shape.
fn check_shape(args: &Args, star: &str, parameters: &[(&str, Arg)]) -> Result<Vec<isize>> {
    use LAYER_NORM::*;

    let (input, shape) = (args.tensor(INPUT)?, to_dims(args.ints(NORMALIZED_SHAPE)?));
    if shape.is_empty() {
        return Err(Error::runtime(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []",
        ));
    }
    for (name, arg) in parameters {
        if let Some(tensor) = args.optional_tensor(*arg)
            && *tensor.sizes() != shape
        {
            return Err(Error::runtime(format!(
                "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {} and normalized_shape = {}",
                Shape(tensor.sizes()),
                Shape(&shape)
            )));
        }
    }
    if !input.sizes().ends_with(&shape) {
        let listed: Vec<String> = shape.iter().map(isize::to_string).collect();
        return Err(Error::runtime(format!(
            "Given normalized_shape={}, expected input with shape [{star}{}], but got input of size{}",
            Shape(&shape),
            listed.join(", "),
            Shape(input.sizes())
        )));
    }
    Ok(shape.to_vec())
}

/// Lines of the last dimensions, whose sizes are `shape`.
fn lines(input: &Tensor, shape: &[isize], centred: bool, eps: f64) -> NormParams {
    let others = &input.sizes()[..input.rank() - shape.len()];
    NormParams { view: [product(others), 1, product(shape), 1], pooled: false, centred, eps }
}

fn layer_norm(args: &Args) -> Result<(Normal, Vec<isize>)> {
    use LAYER_NORM::*;

    let shape = check_shape(args, "*, ", &[("weight", WEIGHT), ("bias", BIAS)])?;
    let input = args.tensor(INPUT)?;
    check_mixed(input, &[args.optional_tensor(WEIGHT), args.optional_tensor(BIAS)])?;
    check_floating(input, "LayerNormKernelImpl")?;
    let params = lines(input, &shape, true, args.float(EPS)?);
    Ok((params.run(&NORMALIZE_LAYER, input, args.optional_tensor(WEIGHT), args.optional_tensor(BIAS))?, shape))
}

#[operator]
pub static LAYER_NORM: Operator = Operator {
    name: "layer_norm",
    namespace: "nn.functional",
    aliases: &["layer_norm"],
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
    doc: "Normalises over the last dimensions, whose sizes are `normalized_shape`.

    out = (input - mean) / sqrt(variance + eps) * weight + bias

    >>> torch.nn.functional.layer_norm(torch.tensor([[1., 3.], [5., 5.]]), (2,))
    tensor([[-1.0000,  1.0000],
            [ 0.0000,  0.0000]])",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| {
        layer_norm(args).map(|(normal, _)| Output::Tensor(normal.out))
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
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
    ..Operator::BASE
};

#[operator]
pub static NATIVE_LAYER_NORM: Operator = Operator {
    name: "native_layer_norm",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "`layer_norm`, with the means and the reciprocal deviations.

    >>> torch.native_layer_norm(torch.tensor([[1., 3.]]), (2,), None, None, 0.)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| {
        let (normal, shape) = layer_norm(args)?;
        let mut sizes = args.tensor(INPUT)?.sizes().clone();
        let at = sizes.len() - shape.len();
        sizes[at..].fill(1);
        let rstd = (Expr::from(&normal.variance) + args.float(EPS)?).rsqrt().done()?;
        let mut results = vec![normal.out];
        for found in [normal.mean, rstd] {
            results.push(op!(
                crate::view::RESHAPE,
                &statistic(args, &[WEIGHT, BIAS], &found.detach())?,
                sizes_value(&sizes)
            )?);
        }
        Ok(Output::Tuple(results))
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(2, 3), (3,), None, None, 0.1", "t(2, 3, 4), (3, 4), pos(3, 4), t(3, 4), 0.1"],
    errors: &[(
        "t(2, 3), (4,), None, None, 0.1",
        "RuntimeError",
        "Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]",
    )],
    reference: "(lambda mean, scale: ((input - mean) * scale * (1 if weight is None else weight) + (0 if bias is None else bias), mean, scale))(input.mean(tuple(range(-len(normalized_shape), 0)), keepdims=True), 1 / np.sqrt(input.var(tuple(range(-len(normalized_shape), 0)), keepdims=True) + eps))",
    ..Operator::BASE
};

#[operator]
pub static RMS_NORM: Operator = Operator {
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
    autocast: Autocast::Fp32.on_cuda_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (rank, least) = (args.tensor(INPUT)?.rank(), args.ints(NORMALIZED_SHAPE)?.len());
        if rank < least {
            return Err(Error::value(format!("Input tensor must have at least {least} dimensions, but got {rank}")));
        }
        let shape = check_shape(args, "*", &[("weight", WEIGHT)])?;
        let input = args.tensor(INPUT)?;
        let dtype = input.dtype();
        let eps = args.optional_scalar(EPS).map(Scalar::f64).unwrap_or(match wide(dtype).to_real() {
            DType::F64 => f64::EPSILON,
            _ => f64::from(f32::EPSILON),
        });
        let weight = args.optional_tensor(WEIGHT);
        if let Some(other) = weight.map(Tensor::dtype).filter(|&other| other != dtype) {
            interpreter::warn(&format!(
                "Mismatch dtype between input and weight: input dtype = {}, weight dtype = {}, Cannot dispatch to fused implementation.",
                dtype.c_name(),
                other.c_name()
            ))?;
        }
        if !dtype.is_differentiable() {
            return Err(Error::unsupported("rms_norm", dtype));
        }
        if dtype.is_complex() {
            let last: Ints = (1..=shape.len() as i64).rev().map(|n| -n).collect();
            let mean = op!(MEAN_DIM, &Expr::from(input).square().done()?, last, true)?;
            let normal = Expr::from(input) * (Expr::from(mean) + eps).rsqrt();
            let scaled = if let Some(weight) = weight { normal * Expr::from(weight) } else { normal };
            return scaled.done().map(Output::Tensor);
        }
        let normal = lines(input, &shape, false, eps).run(&NORMALIZE_LAYER, input, weight, None)?;
        crate::convert::in_format_of(&normal.out, input).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["real(2, 3), (3,)", "real(2, 3, 4), (3, 4), real(3, 4), 0.1"],
    errors: &[
        (
            "t(2, 3), (4,)",
            "RuntimeError",
            "Given normalized_shape=[4], expected input with shape [*4], but got input of size[2, 3]",
        ),
        ("t(3), (2, 3)", "ValueError", "Input tensor must have at least 2 dimensions, but got 1"),
        (
            "t(2, 3), (3,), t(2)",
            "RuntimeError",
            "Expected weight to be of same shape as normalized_shape, but got weight of shape [2] and normalized_shape = [3]",
        ),
    ],
    reference: "input / np.sqrt((input ** 2).mean(tuple(range(-len(normalized_shape), 0)), keepdims=True) + (eps or 0)) * (1 if weight is None else weight)",
    ..Operator::BASE
};
