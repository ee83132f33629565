//! Dropout: multiplication by a random mask.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::{Error, Layout, Result, Scalar, dispatch};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::create::scalar_of;
use rushlight_dispatch::generator::Generator;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    BatchRule, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Tags, TensorSpec, Variants, operator,
};
use rushlight_dispatch::value::Output;
use rushlight_rng::distributions::dropout_mask;

use crate::create::{draw, on_cuda};
use crate::pointwise::arith::MUL;

#[operator]
pub static DROPOUT: Operator = Operator {
    name: "dropout",
    aliases: &["nn.functional.dropout"],
    variants: Variants::FUNCTION.union(Variants::INPLACE),
    signature: "(Tensor input, float p, bool train) -> Tensor",
    doc: "In training, zeroes each element with probability `p` and divides the rest by `1 - p`; else the input itself.

    >>> torch.dropout(torch.ones(2), 1.0, True)
    tensor([0., 0.])",
    dtypes: DTypes::INEXACT,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, p) = (args.tensor(INPUT)?, args.float(P)?);
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::runtime(format!(
                "dropout probability has to be between 0 and 1, but got {}",
                crate::create::c_text(p)
            )));
        }
        if p == 0.0 || !args.bool(TRAIN)? || input.numel() == 0 {
            return Ok(Output::Tensor(input.clone()));
        }
        let factor =
            if p == 1.0 { scalar_of(Scalar::ZERO, input.dtype(), input.device())? } else { op!(MASK, input, p)? };
        op!(MUL, input, &factor).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), 0.0, True", "t(2, 3), 1.0, True", "t(2, 3), 0.5, False"],
    errors: &[("t(3), 1.2, True", "RuntimeError", "dropout probability has to be between 0 and 1, but got 1.2")],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static MASK: Operator = Operator {
    name: "_dropout_mask",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, float p) -> Tensor",
    doc: "The mask of dropout: zeros with probability `p`, else `1 / (1 - p)`.

    >>> _ = torch.manual_seed(0)
    >>> torch._dropout_mask(torch.ones(4), 0.5)
    tensor([0., 0., 2., 0.])",
    dtypes: DTypes::FLOATS,
    tags: Tags::RANDOM.union(Tags::STRIDE_DEPENDENT),
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        mask(args.tensor(INPUT)?, args.float(P)?).map(Output::Tensor)
    })),
    derivative: Derivative::NonDifferentiable("its result is random"),
    samples: &["t(2, 3), 0.0"],
    reference: "np.ones_like(self)",
    ..Operator::BASE
};

/// Zeros with probability `p`, else `1 / (1 - p)`, drawn from the default stream.
fn mask(like: &Tensor, p: f64) -> Result<Tensor> {
    let dtype = like.dtype();
    if dtype.is_complex() || dtype.is_wide_unsigned() {
        return Err(Error::unsupported("bernoulli_scalar_cpu_", dtype));
    }
    // Drawn in the memory order of the input.
    let layout = Layout { sizes: like.sizes().clone(), strides: like.layout().preserved_strides(), offset: 0 };
    let mask = allocate(&TensorSpec { layout, dtype, device: like.device() })?;
    dispatch!(dtype, T in [f32, f64, f16_, bf16_] => {
        if on_cuda::draws(&mask) {
            on_cuda::dropout(&mask, p)?;
            return Ok(mask);
        }
        draw::fill::<T>(&mask, &Generator::default(), |stream, out| dropout_mask(stream, out, p))?
    }, else => return Err(Error::runtime(format!("result type Float can't be cast to the desired output type {}", dtype.display_name()))));
    Ok(mask)
}
