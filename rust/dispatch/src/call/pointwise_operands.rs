//! The operands of a pointwise call among its arguments.

use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_cpu::pointwise::Numbers;

use crate::operator::Args;
use crate::promote;
use crate::signature::Kind;
use crate::value::{Operand, Operands, Value};

/// Splits the arguments into operands and numbers, by the kinds of the signature.
#[inline]
pub fn split<'a>(args: &'a Args) -> Result<(Operands<'a>, Numbers)> {
    let mut operands = Operands::new();
    let mut numbers = Numbers::new();
    for (param, value) in args.op.schema().params.iter().zip(&args.values) {
        match (param.kind, value) {
            (_, Value::Tensor(tensor)) => operands.push(Operand::Tensor(tensor)),
            (_, Value::Own(tensor)) => operands.push(Operand::Tensor(tensor)),
            (Kind::Operand, Value::Scalar(number)) => operands.push(Operand::Number(*number)),
            (Kind::Operand, Value::Int(number)) => operands.push(Operand::Number(Scalar::Int(*number))),
            (Kind::Operand, Value::Float(number)) => operands.push(Operand::Number(Scalar::Float(*number))),
            (Kind::Operand, Value::Bool(flag)) => operands.push(Operand::Number(Scalar::Bool(*flag))),
            (_, Value::Scalar(number)) => numbers.push(*number),
            (_, Value::Bool(flag)) => numbers.push(Scalar::Bool(*flag)),
            (_, Value::Int(number)) => numbers.push(Scalar::Int(*number)),
            (_, Value::Float(number)) => numbers.push(Scalar::Float(*number)),
            (_, Value::None | Value::Str(_) | Value::DType(_)) => {}
            _ => return Err(Error::type_(format!("{}(): unexpected argument", args.op.python_name()))),
        }
    }
    Ok((operands, numbers))
}

/// The common dtype of the operands of a pointwise call, if there are operands; `numbers` may take part.
pub fn common_dtype_of(args: &Args, with_numbers: bool) -> Result<Option<DType>> {
    let (operands, numbers) = split(args)?;
    let extra: &[Scalar] = if with_numbers { &numbers } else { &[] };
    if operands.is_empty() { Ok(None) } else { promote::common(&operands, extra).map(Some) }
}
