//! The numbers among the operands of a pointwise operator: whether the dtype of the computation can hold them.

use rushlight_core::{DType, Result, Scalar};

use crate::create::check_fits;
use crate::operator::{Args, Tags};
use crate::signature::Kind;
use crate::value::Value;

/// Whether every dtype can hold these numbers.
pub fn all_small(numbers: &[Scalar]) -> bool {
    numbers.iter().all(|number| match number {
        Scalar::Bool(_) => true,
        Scalar::Int(number) => (-1..=127).contains(number),
        Scalar::Float(number) => (-0.5..=127.0).contains(number),
        Scalar::UInt(_) | Scalar::Complex(_) => false,
    })
}

/// Returns an error for numbers that the dtype of the computation cannot hold. Half types are computed in float32, whose
/// range counts unless the operator rounds its numbers.
pub fn check(args: &Args, common: DType) -> Result<()> {
    let compute = if args.op.tags.has(Tags::ROUNDED_PARAMETERS) { common } else { common.compute() };
    let given = args.op.schema().params.iter().zip(&args.values);
    given.filter(|(param, _)| param.kind == Kind::Scalar).try_for_each(|(_, value)| match value {
        Value::Scalar(number) => check_fits(*number, compute),
        _ => Ok(()),
    })
}
