//! Operators that treat each element alone.
//!
//! Most rows differ from their neighbours by one expression; what they share stands here.

pub mod activation;
pub mod activation_backward;
pub mod analytic;
pub mod arith;
pub mod bessel;
pub mod bitwise;
pub mod choose;
pub mod clamp;
pub mod compare;
pub mod complex;
pub mod divide;
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
pub mod same;
pub mod sign;
pub mod special;
pub mod ternary;
pub mod trig;

use rushlight_core::{DType, Error, Result};
use rushlight_cpu::pointwise::Tile;

use crate::row::{Pointwise, Promote, Row, Run, Variants};
use crate::value::Args;

type Pick = fn(DType) -> Option<Tile>;

/// The operands' common dtype, for computation and result.
pub(crate) const fn common(cpu: Pick) -> Run {
    Run::Pointwise(Pointwise { promote: Promote::Common, cpu })
}

/// The common dtype; integers become the default float.
pub(crate) const fn float(cpu: Pick) -> Run {
    Run::Pointwise(Pointwise { promote: Promote::IntToFloat, cpu })
}

/// A question: the result is bool.
pub(crate) const fn question(cpu: Pick) -> Run {
    Run::Pointwise(Pointwise { promote: Promote::ToBool, cpu })
}

/// Like `common`, with the numbers taking part in promotion.
pub(crate) const fn with_numbers(cpu: Pick) -> Run {
    Run::Pointwise(Pointwise { promote: Promote::WithNumbers, cpu })
}

/// What functions of one tensor have in common.
pub(crate) const UNARY: Row = Row {
    variants: Variants::ALL,
    signature: "(Tensor self) -> Tensor",
    samples: &["t(2, 3)", "t(0)", "t()", "t(4, 3).t()"],
    ..Row::BASE
};

/// A bad call of two operands: shapes that do not broadcast.
pub(crate) const MISMATCH: crate::row::Bad = (
    "t(5, 2, 4), t(3, 1)",
    "RuntimeError",
    "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
);

/// What functions of two tensors have in common.
pub(crate) const BINARY: Row = Row {
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor other) -> Tensor",
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), t()", "t(0, 3), t(1, 3)"],
    errors: &[MISMATCH],
    ..Row::BASE
};

/// Refuses a call on numbers alone.
pub(crate) fn some_tensor(args: &Args) -> Result<()> {
    if args.has_tensor(0) || args.has_tensor(1) { Ok(()) } else { Err(args.needs_tensor()) }
}

/// Refuses complex tensors with torch's sentence.
pub(crate) fn no_complex(args: &Args, error: fn() -> Error) -> Result<()> {
    if args.each_tensor().any(|(_, tensor)| tensor.dtype().is_complex()) { Err(error()) } else { Ok(()) }
}
