//! Elementwise operators.
//!
//! Most of them differ by one expression; their shared parts are here.

pub mod activation;
pub mod activation_backward;
pub mod analytic;
pub mod arith;
pub mod bessel;
pub mod bitwise;
pub mod clamp;
pub mod compare;
pub mod complex;
pub mod divide;
pub mod equal;
pub mod explog;
pub mod exponent;
pub mod frexp;
pub mod gauss;
pub mod hyperbolic;
pub mod incomplete;
pub mod logical;
pub mod numbers;
pub mod polynomials;
pub mod power;
pub mod round;
pub mod sign;
pub mod special;
pub mod ternary;
pub mod trig;
pub mod where_;

use rushlight_core::{Error, Result};
use rushlight_cpu::loops::Loops;
use rushlight_dispatch::operator::{
    Args, DTypes, ErrorInput, Implementation, Operator, Pointwise, Promote, Variants, operator,
};

/// The operands' common dtype, for computation and result.
pub(crate) const fn common(loops: Loops) -> Implementation {
    Implementation::Pointwise(Pointwise { promote: Promote::Common, keeps_strides: DTypes::NONE, loops })
}

/// The common dtype; integers become the default float.
pub(crate) const fn float(loops: Loops) -> Implementation {
    Implementation::Pointwise(Pointwise { promote: Promote::IntToFloat, keeps_strides: DTypes::NONE, loops })
}

/// A predicate: the result is bool.
pub(crate) const fn question(loops: Loops) -> Implementation {
    Implementation::Pointwise(Pointwise { promote: Promote::ToBool, keeps_strides: DTypes::NONE, loops })
}

/// Like `common`, with the numbers taking part in promotion.
pub(crate) const fn with_numbers(loops: Loops) -> Implementation {
    Implementation::Pointwise(Pointwise { promote: Promote::WithNumbers, keeps_strides: DTypes::NONE, loops })
}

/// The same for an operator whose result keeps the operand's strides in these dtypes.
pub(crate) const fn keeping_strides(keeps_strides: DTypes, implementation: Implementation) -> Implementation {
    match implementation {
        Implementation::Pointwise(Pointwise { promote, loops, .. }) => {
            Implementation::Pointwise(Pointwise { promote, keeps_strides, loops })
        }
        other => other,
    }
}

/// Shared by functions of one tensor.
#[operator]
pub(crate) const UNARY: Operator = Operator {
    variants: Variants::ALL,
    signature: "(Tensor self) -> Tensor",
    samples: &["t(2, 3)", "t(0)", "t()", "t(4, 3).t()"],
    ..Operator::BASE
};

/// An invalid call of two operands: shapes that do not broadcast.
pub(crate) const MISMATCH: ErrorInput = (
    "t(5, 2, 4), t(3, 1)",
    "RuntimeError",
    "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
);

/// Shared by functions of two tensors.
#[operator]
pub(crate) const BINARY: Operator = Operator {
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor other) -> Tensor",
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), t()", "t(0, 3), t(1, 3)"],
    errors: &[MISMATCH],
    ..Operator::BASE
};

/// Returns an error for a call with numbers alone.
pub(crate) fn some_tensor(args: &Args) -> Result<()> {
    if args.each_tensor().next().is_some() { Ok(()) } else { Err(args.needs_tensor()) }
}

/// Returns torch's error for complex tensors.
pub(crate) fn no_complex(args: &Args, error: fn() -> Error) -> Result<()> {
    if args.each_tensor().any(|(_, tensor)| tensor.dtype().is_complex()) { Err(error()) } else { Ok(()) }
}
