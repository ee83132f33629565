//! Normalisation of groups of channels.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Args, Autocast, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::Output;

use super::params::NormParams;
use super::primitives::NORMALIZE_GROUP;
use super::{check_floating, check_mixed, product, statistic};
use crate::expr_ext::ExprExt;

/// Checks the arguments of `group_norm`, in torch's order.
fn params(args: &Args) -> Result<NormParams> {
    use GROUP_NORM::*;

    let (input, groups) = (args.tensor(INPUT)?, args.int(NUM_GROUPS)?);
    if input.rank() < 2 {
        return Err(Error::runtime(format!(
            "Expected at least 2 dimensions for input tensor but received {}",
            input.rank()
        )));
    }
    if groups <= 0 {
        return Err(Error::runtime(format!("Expected num groups to be greater than 0, got {groups}")));
    }
    let (batch, channels) = (input.sizes()[0], input.sizes()[1]);
    let groups = groups as isize;
    if batch * channels / groups * product(&input.sizes()[2..]) == 1 {
        let mut sizes = vec![batch * channels / groups, groups];
        sizes.extend(&input.sizes()[2..]);
        return Err(Error::value(format!(
            "Expected more than 1 value per channel when training, got input size {}",
            Shape(&sizes)
        )));
    }
    if channels % groups != 0 {
        return Err(Error::runtime(format!(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and num_groups={groups}",
            Shape(input.sizes())
        )));
    }
    check_params(input, [args.optional_tensor(WEIGHT), args.optional_tensor(BIAS)], channels)?;
    check_mixed(input, &[args.optional_tensor(WEIGHT), args.optional_tensor(BIAS)])?;
    check_floating(input, "GroupNormKernelImpl")?;
    let run = product(&input.sizes()[2..]);
    Ok(NormParams {
        view: [batch, groups, channels / groups, run],
        pooled: false,
        centred: true,
        eps: args.float(EPS)?,
    })
}

/// Scale and shift have a number for each channel. torch's sentence about the shift shows the scale's shape if there is one.
fn check_params(input: &Tensor, [weight, bias]: [Option<&Tensor>; 2], channels: isize) -> Result<()> {
    for (name, param) in [("weight", weight), ("bias", bias)] {
        if let Some(param) = param
            && param.sizes().as_slice() != [channels]
        {
            return Err(Error::runtime(format!(
                "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {} and input of shape {}",
                Shape(weight.unwrap_or(param).sizes()),
                Shape(input.sizes())
            )));
        }
    }
    Ok(())
}

#[operator]
pub static GROUP_NORM: Operator = Operator {
    name: "group_norm",
    namespace: "nn.functional",
    aliases: &["group_norm"],
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
    doc: "Normalises groups of channels of `(N, C, *)`; scale and shift have a number for each channel.

    >>> torch.nn.functional.group_norm(torch.tensor([[1., 3., 5., 9.]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| {
        let params = params(args)?;
        let (weight, bias) = (args.optional_tensor(WEIGHT), args.optional_tensor(BIAS));
        let normal = params.run(&NORMALIZE_GROUP, args.tensor(INPUT)?, weight, bias)?;
        crate::convert::in_format_of(&normal.out, args.tensor(INPUT)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(2, 4), 2", "t(2, 6, 3), 3, pos(6), t(6)"],
    errors: &[
        ("t(4), 2", "RuntimeError", "Expected at least 2 dimensions for input tensor but received 1"),
        ("t(2, 4), -2", "RuntimeError", "Expected num groups to be greater than 0, got -2"),
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
    ..Operator::BASE
};

#[operator]
pub static NATIVE_GROUP_NORM: Operator = Operator {
    name: "native_group_norm",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "`group_norm`, with the means and the reciprocal deviations of the groups, `(N, group)`.

    >>> torch.native_group_norm(torch.tensor([[1., 3.]]), None, None, 1, 2, 1, 1, 0.)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        let [samples, channels, run, groups] =
            [args.int(N)?, args.int(C)?, args.int(HXW)?, args.int(GROUP)?].map(|size| size as isize);
        if groups <= 0 {
            return Err(Error::runtime(format!("Expected num groups to be greater than 0, got {groups}")));
        }
        if channels % groups != 0 {
            return Err(Error::runtime(format!(
                "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and num_groups={groups}",
                Shape(input.sizes())
            )));
        }
        check_params(input, [args.optional_tensor(WEIGHT), args.optional_tensor(BIAS)], channels)?;
        check_mixed(input, &[args.optional_tensor(WEIGHT), args.optional_tensor(BIAS)])?;
        check_floating(input, "GroupNormKernelImpl")?;
        let params = NormParams {
            view: [samples, groups, channels / groups, run],
            pooled: false,
            centred: true,
            eps: args.float(EPS)?,
        };
        let normal = params.run(&NORMALIZE_GROUP, input, args.optional_tensor(WEIGHT), args.optional_tensor(BIAS))?;
        let rstd = (Expr::from(&normal.variance) + params.eps).rsqrt().done()?;
        let statistics = [statistic(args, &[WEIGHT, BIAS], &normal.mean)?, statistic(args, &[WEIGHT, BIAS], &rstd)?];
        Ok(Output::Tuple([normal.out].into_iter().chain(statistics).collect()))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 4), None, None, 2, 4, 1, 2, 0.1", "t(2, 6, 3), pos(6), t(6), 2, 6, 3, 3, 0.1"],
    errors: &[(
        "t(2, 3), None, None, 2, 3, 1, 2, 0.1",
        "RuntimeError",
        "Expected number of channels in input to be divisible by num_groups, but got input of shape [2, 3] and num_groups=2",
    )],
    reference: "(lambda x: (((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)).reshape(N, C, HxW) * (1 if weight is None else weight.reshape(C, 1)) + (0 if bias is None else bias.reshape(C, 1))).reshape(input.shape))(input.reshape(N, group, -1)), input.reshape(N, group, -1).mean(-1), 1 / np.sqrt(input.reshape(N, group, -1).var(-1) + eps)",
    ..Operator::BASE
};
