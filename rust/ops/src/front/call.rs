//! Any operator of the table by its name.

use once_cell::race::OnceBox;
use rushlight_core::{Error, Result, Scalar};
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::signature::{Kind, Param};
use rushlight_dispatch::value::{Output, Value};

use crate::install::install;
use crate::names::{CallForm, Names, collect};

/// Calls an operator with torch's name: `softmax`, `linalg.inv`, `nn.functional.relu`. The arguments stand in the order of its
/// signature; those that are left out at the end have their defaults.
///
/// ```
/// # use rushlight::{Operators, Output, Result, call};
/// # fn main() -> Result<()> {
/// let x = rushlight::tensor(&[2.0, 5.0, 3.0])?;
/// let sorted = call("sort", [(&x).into(), (-1i64).into(), true.into()])?;
/// let Output::Tuple(parts) = sorted else { unreachable!() };
/// assert_eq!(parts[0].to_vec::<f64>()?, [5.0, 3.0, 2.0]);
/// assert_eq!(call("nn.functional.relu", [(&x).into()])?.into_tensor()?.to_vec::<f64>()?, [2.0, 5.0, 3.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// TypeError: there is no operator of this name, or it does not take these arguments. Whatever the operator itself refuses.
pub fn call<'a>(name: &str, arguments: impl IntoIterator<Item = Value<'a>>) -> Result<Output> {
    install();
    let found = overloads(name);
    if found.is_empty() {
        return Err(Error::type_(format!("module 'torch' has no attribute '{name}'")));
    }
    let arguments: Vec<Value> = arguments.into_iter().collect();
    for op in found {
        if let Some(values) = fitted(op, &arguments) {
            return Args::new(op, values).call();
        }
    }
    let forms: Vec<String> = found.iter().map(|op| format!("{name}{}", op.signature)).collect();
    Err(Error::type_(format!("{name}() received an invalid combination of arguments")).hint(format!(
        "It takes one of these lists, of which the last ones may be left out:\n  {}",
        forms.join("\n  ")
    )))
}

fn overloads(name: &str) -> &'static [&'static Operator] {
    static NAMES: OnceBox<Names> = OnceBox::new();
    let names = NAMES.get_or_init(|| Box::new(collect()));
    let (namespace, own) = name.rsplit_once('.').unwrap_or(("", name));
    // The namespaces of the table are 'static, and this one may not be.
    let Some(namespace) = names.keys().map(|key| key.0).find(|known| *known == namespace) else { return &[] };
    let forms = [CallForm::Function, CallForm::Method, CallForm::InPlaceFunction, CallForm::InPlaceMethod];
    let found = forms.into_iter().find_map(|form| names.get(&(namespace, own.to_owned(), form)));
    found.map_or(&[], Vec::as_slice)
}

/// The arguments as the operator takes them. None if it does not.
fn fitted<'a>(op: &'static Operator, arguments: &[Value<'a>]) -> Option<Vec<Value<'a>>> {
    let params = &op.schema().params;
    if arguments.len() > params.len() {
        return None;
    }
    let needed = params.iter().skip(arguments.len()).all(|param| param.default.is_some());
    let values: Option<Vec<Value>> =
        arguments.iter().zip(params.iter()).map(|(value, param)| as_kind(value, param)).collect();
    values.filter(|_| needed)
}

/// A value as one of the parameter's kind. None if it is of another kind.
fn as_kind<'a>(value: &Value<'a>, param: &Param) -> Option<Value<'a>> {
    Some(match (param.kind, value) {
        (_, Value::None) if param.optional => Value::None,
        (Kind::Tensor | Kind::Operand | Kind::TensorOrFloat, Value::Tensor(_) | Value::Own(_))
        | (Kind::Operand | Kind::Scalar, Value::Scalar(_))
        | (Kind::Bool | Kind::Truth, Value::Bool(_))
        | (Kind::Int, Value::Int(_))
        | (Kind::Float, Value::Float(_))
        | (Kind::Ints | Kind::IntOrInts, Value::Ints(_))
        | (Kind::Floats, Value::Floats(_))
        | (Kind::Tensors, Value::Tensors(_))
        | (Kind::DType, Value::DType(_))
        | (Kind::Device, Value::Device(_))
        | (Kind::Str | Kind::Layout | Kind::MemoryFormat, Value::Str(_) | Value::Text(_))
        | (Kind::Generator, Value::Generator(_)) => value.clone(),
        (Kind::Operand | Kind::Scalar, Value::Int(number)) => Value::Scalar(Scalar::Int(*number)),
        (Kind::Operand | Kind::Scalar, Value::Bool(truth)) => Value::Scalar(Scalar::Bool(*truth)),
        (Kind::Int, Value::Scalar(Scalar::Int(number))) => Value::Int(*number),
        (Kind::Float | Kind::TensorOrFloat, Value::Scalar(number)) => Value::Float(number.f64()),
        (Kind::Float | Kind::TensorOrFloat, Value::Int(number)) => Value::Float(*number as f64),
        (Kind::IntOrInts, Value::Int(number)) => Value::Ints(std::iter::once(*number).collect()),
        _ => return None,
    })
}
