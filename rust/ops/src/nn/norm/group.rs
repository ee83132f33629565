//! Normalisation of groups of channels.

use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};

use super::kernel::{NORMALIZE_GROUP, Plan};
use super::{check_floating, check_mixed, product, statistic};
use crate::derive::Derivative;
use crate::expr::Expr;
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::{Args, Output};

/// Checks the arguments of `group_norm`, in torch's order.
fn plan(args: &Args) -> Result<Plan> {
    let (own, groups) = (args.tensor(0)?, args.int(1)?);
    if own.rank() < 2 {
        return Err(Error::runtime(format!(
            "Expected at least 2 dimensions for input tensor but received {}",
            own.rank()
        )));
    }
    if groups <= 0 {
        return Err(Error::runtime(format!("Expected num groups to be greater than 0, got {groups}")));
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
    check_mixed(own, &[args.optional_tensor(2), args.optional_tensor(3)])?;
    check_floating(own, "GroupNormKernelImpl")?;
    let run = product(&own.sizes()[2..]);
    Ok(Plan { view: [batch, groups, channels / groups, run], pooled: false, centred: true, eps: args.float(4)? })
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
        let plan = plan(args)?;
        let (weight, bias) = (args.optional_tensor(2), args.optional_tensor(3));
        let normal = plan.run(&NORMALIZE_GROUP, args.tensor(0)?, weight, bias)?;
        crate::convert::in_format_of(&normal.out, args.tensor(0)?).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

pub static NATIVE_GROUP_NORM: Row = Row {
    name: "native_group_norm",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "`group_norm`, with the means and the reciprocal deviations of the groups, `(N, group)`.

    >>> torch.native_group_norm(torch.tensor([[1., 3.]]), None, None, 1, 2, 1, 1, 0.)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        let [samples, channels, run, groups] =
            [args.int(3)?, args.int(4)?, args.int(5)?, args.int(6)?].map(|size| size as isize);
        if groups <= 0 || channels % groups != 0 {
            return Err(Error::runtime(format!(
                "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and num_groups={groups}",
                Shape(own.sizes())
            )));
        }
        check_mixed(own, &[args.optional_tensor(1), args.optional_tensor(2)])?;
        check_floating(own, "GroupNormKernelImpl")?;
        let plan =
            Plan { view: [samples, groups, channels / groups, run], pooled: false, centred: true, eps: args.float(7)? };
        let normal = plan.run(&NORMALIZE_GROUP, own, args.optional_tensor(1), args.optional_tensor(2))?;
        let rstd = (Expr::from(&normal.variance) + plan.eps).rsqrt().done()?;
        let statistics = [statistic(args, &[1, 2], &normal.mean)?, statistic(args, &[1, 2], &rstd)?];
        Ok(Output::Tuple([normal.out].into_iter().chain(statistics).collect()))
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 4), None, None, 2, 4, 1, 2, 0.1", "t(2, 6, 3), pos(6), t(6), 2, 6, 3, 3, 0.1"],
    errors: &[(
        "t(2, 3), None, None, 2, 3, 1, 2, 0.1",
        "RuntimeError",
        "Expected number of channels in input to be divisible by num_groups, but got input of shape [2, 3] and num_groups=2",
    )],
    reference: "(lambda x: (((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)).reshape(N, C, HxW) * (1 if weight is None else weight.reshape(C, 1)) + (0 if bias is None else bias.reshape(C, 1))).reshape(input.shape))(input.reshape(N, group, -1)), input.reshape(N, group, -1).mean(-1), 1 / np.sqrt(input.reshape(N, group, -1).var(-1) + eps)",
    ..Row::BASE
};
