//! Dropout: a random mask that is multiplied with.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::{Error, Layout, Result, Scalar, dispatch};
use rushlight_rng::distributions::dropout_mask;

use crate::call::allocate;
use crate::create::{draw, scalar_of};
use crate::derive::Derivative;
use crate::generator::Generator;
use crate::mapped::Mapped;
use crate::op;
use crate::pointwise::arith::MUL;
use crate::row::{DTypes, Row, Run, Spec, Traits, Variants};
use crate::value::Output;

pub static DROPOUT: Row = Row {
    name: "dropout",
    aliases: &["nn.functional.dropout"],
    variants: Variants::FUNCTION.union(Variants::INPLACE),
    signature: "(Tensor input, float p, bool train) -> Tensor",
    doc: "In training, zeroes each element with probability `p` and divides the rest by `1 - p`; else the input itself.

    >>> torch.dropout(torch.ones(2), 1.0, True)
    tensor([0., 0.])",
    dtypes: DTypes::INEXACT,
    run: Run::Compose(|args| {
        let (input, p) = (args.tensor(0)?, args.float(1)?);
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::runtime(format!("dropout probability has to be between 0 and 1, but got {p}")));
        }
        if p == 0.0 || !args.bool(2)? || input.numel() == 0 {
            return Ok(Output::Tensor(input.clone()));
        }
        let factor =
            if p == 1.0 { scalar_of(Scalar::ZERO, input.dtype(), input.device())? } else { op!(MASK, input, p)? };
        op!(MUL, input, &factor).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), 0.0, True", "t(2, 3), 1.0, True", "t(2, 3), 0.5, False"],
    errors: &[("t(3), 1.2, True", "RuntimeError", "dropout probability has to be between 0 and 1, but got 1.2")],
    reference: "",
    ..Row::BASE
};

pub static MASK: Row = Row {
    name: "_dropout_mask",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, float p) -> Tensor",
    doc: "What dropout multiplies with: zeros with probability `p`, else `1 / (1 - p)`.

    >>> _ = torch.manual_seed(0)
    >>> torch._dropout_mask(torch.ones(4), 0.5)
    tensor([0., 0., 2., 0.])",
    dtypes: DTypes::FLOATS,
    traits: Traits::DRAWS.union(Traits::SEES_MEMORY),
    mapped: Mapped::Shape,
    run: Run::Body(|args| mask(args.tensor(0)?, args.float(1)?).map(Output::Tensor)),
    derivative: Derivative::NonDifferentiable("its result is random"),
    samples: &["t(2, 3), 0.0"],
    reference: "np.ones_like(self)",
    ..Row::BASE
};

/// Zeros with probability `p`, else `1 / (1 - p)`, drawn from the default stream.
fn mask(like: &Tensor, p: f64) -> Result<Tensor> {
    let dtype = like.dtype();
    if dtype.is_complex() || dtype.is_wide_unsigned() {
        return Err(Error::unsupported("bernoulli_scalar_cpu_", dtype));
    }
    // In the order in which the input lies in memory.
    let layout = Layout { sizes: like.sizes().clone(), strides: like.layout().preserved_strides(), offset: 0 };
    let mask = allocate(&Spec { layout, dtype, device: like.device() })?;
    dispatch!(dtype, T in [f32, f64, f16_, bf16_] => {
        draw::fill::<T>(&mask, &Generator::default(), |stream, out| dropout_mask(stream, out, p))?
    }, else => return Err(Error::runtime(format!("result type Float can't be cast to the desired output type {}", dtype.title()))));
    Ok(mask)
}
