//! Arguments and results of operators, independent of Python.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result, Scalar};
use smallvec::SmallVec;

use crate::generator::Generator;

/// Integers; few are stored inline, so that a value stays small.
pub type Ints = SmallVec<[i64; 2]>;
pub type Floats = SmallVec<[f64; 2]>;

/// Sizes as an argument.
pub fn sizes_value(sizes: &[isize]) -> Value<'static> {
    Value::Ints(sizes.iter().map(|&size| size as i64).collect::<Ints>())
}

/// One argument of a call.
#[derive(Clone)]
pub enum Value<'a> {
    /// An optional argument that was not given.
    None,
    Tensor(&'a Tensor),
    /// A tensor that the call owns, such as one made from a number.
    Own(Tensor),
    Scalar(Scalar),
    Bool(bool),
    Int(i64),
    Float(f64),
    Ints(Ints),
    Floats(Floats),
    Tensors(Vec<Option<Tensor>>),
    DType(DType),
    Device(Device),
    Str(&'a str),
    /// A text that a graph node stores.
    Text(Box<str>),
    Generator(Generator),
}

impl<'a> From<&'a Tensor> for Value<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Value::Tensor(tensor)
    }
}
impl From<Tensor> for Value<'_> {
    fn from(tensor: Tensor) -> Self {
        Value::Own(tensor)
    }
}
impl From<Scalar> for Value<'_> {
    fn from(scalar: Scalar) -> Self {
        Value::Scalar(scalar)
    }
}
impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Value::Bool(flag)
    }
}
impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}
impl From<usize> for Value<'_> {
    fn from(number: usize) -> Self {
        Value::Int(number as i64)
    }
}
impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Value::Scalar(Scalar::Float(number))
    }
}
impl From<&[i64]> for Value<'_> {
    fn from(numbers: &[i64]) -> Self {
        Value::Ints(Ints::from_slice(numbers))
    }
}
impl From<Ints> for Value<'_> {
    fn from(numbers: Ints) -> Self {
        Value::Ints(numbers)
    }
}
impl From<DType> for Value<'_> {
    fn from(dtype: DType) -> Self {
        Value::DType(dtype)
    }
}
impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Str(text)
    }
}
impl From<Vec<Tensor>> for Value<'_> {
    fn from(tensors: Vec<Tensor>) -> Self {
        Value::Tensors(tensors.into_iter().map(Some).collect())
    }
}
impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::None, Into::into)
    }
}

impl Value<'_> {
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            Value::Own(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Whether this is a tensor, or certainly equal to `preset`.
    pub(crate) fn is_tensor_or(&self, preset: &Value<'static>) -> bool {
        match (self, preset) {
            (Value::Tensor(_) | Value::Own(_) | Value::Tensors(_) | Value::None, Value::None) => true,
            (Value::Scalar(Scalar::Int(a)), Value::Scalar(Scalar::Int(b))) | (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::Ints(a), Value::Ints(b)) => a == b,
            _ => false,
        }
    }

    /// The same value without a borrow, for a graph node to store; tensors are stored separately.
    pub(crate) fn stored(&self) -> Value<'static> {
        match self {
            Value::None | Value::Tensor(_) | Value::Own(_) | Value::Tensors(_) => Value::None,
            Value::Str(x) => Value::Text((*x).into()),
            Value::Text(x) => Value::Text(x.clone()),
            Value::Scalar(x) => Value::Scalar(*x),
            Value::Bool(x) => Value::Bool(*x),
            Value::Int(x) => Value::Int(*x),
            Value::Float(x) => Value::Float(*x),
            Value::Ints(x) => Value::Ints(x.clone()),
            Value::Floats(x) => Value::Floats(x.clone()),
            Value::DType(x) => Value::DType(*x),
            Value::Device(x) => Value::Device(*x),
            Value::Generator(x) => Value::Generator(x.clone()),
        }
    }
}

/// The tensors that a kernel fills; most operators have one.
pub type Results = SmallVec<[Tensor; 2]>;

pub type Values<'a> = SmallVec<[Value<'a>; 4]>;

/// An argument of an operator by its name in the signature: `#[operator]` generates `ADD::OTHER` for `ADD`.
///
/// ```
/// # use rushlight_core::Result;
/// # use rushlight_dispatch::operator::{Operator, operator};
/// # use rushlight_dispatch::operator::Args;
/// #[operator]
/// static ADD: Operator = Operator { name: "add", signature: "(Tensor self, Tensor other) -> Tensor", ..Operator::BASE };
///
/// fn rank(args: &Args) -> Result<usize> {
///     Ok(args.tensor(ADD::OTHER)?.rank())
/// }
/// # assert_eq!([ADD::INPUT.position(), ADD::OTHER.position()], [0, 1]);
/// ```
///
/// A name that the signature does not have does not compile:
///
/// ```compile_fail,E0425
/// # use rushlight_core::Result;
/// # use rushlight_dispatch::operator::{Operator, operator};
/// # use rushlight_dispatch::operator::Args;
/// # #[operator]
/// # static ADD: Operator = Operator { name: "add", signature: "(Tensor self, Tensor other) -> Tensor", ..Operator::BASE };
/// fn rank(args: &Args) -> Result<usize> {
///     Ok(args.tensor(ADD::OTHERS)?.rank())
/// }
/// ```
///
/// And a number is no argument:
///
/// ```compile_fail,E0308
/// # use rushlight_core::Result;
/// # use rushlight_dispatch::operator::Args;
/// fn rank(args: &Args) -> Result<usize> {
///     Ok(args.tensor(1)?.rank())
/// }
/// ```
///
/// A function that several operators share uses the names of one of them. Development builds check that the called
/// operator has the same name at that position.
#[derive(Clone, Copy)]
pub struct Arg {
    position: usize,
    #[cfg(debug_assertions)]
    name: &'static str,
}

impl Arg {
    /// The first argument, under any name.
    pub const FIRST: Arg = Arg::of_signature(0, "");

    /// For the code that `#[operator]` generates from the signature.
    #[doc(hidden)]
    pub const fn of_signature(position: usize, name: &'static str) -> Arg {
        let _ = name;
        Arg {
            position,
            #[cfg(debug_assertions)]
            name,
        }
    }

    #[inline]
    pub const fn position(self) -> usize {
        self.position
    }

    #[cfg(debug_assertions)]
    pub(crate) fn name(self) -> &'static str {
        self.name
    }
}

impl PartialEq for Arg {
    fn eq(&self, other: &Arg) -> bool {
        self.position == other.position
    }
}

/// An operand of a pointwise operator.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    Tensor(&'a Tensor),
    Number(Scalar),
}

pub type Operands<'a> = SmallVec<[Operand<'a>; 4]>;

impl<'a> Operand<'a> {
    #[inline]
    pub fn as_tensor(&self) -> Option<&'a Tensor> {
        match self {
            Operand::Tensor(tensor) => Some(tensor),
            Operand::Number(_) => None,
        }
    }
}

impl<'a> From<Operand<'a>> for Value<'a> {
    #[inline]
    fn from(operand: Operand<'a>) -> Self {
        match operand {
            Operand::Tensor(tensor) => Value::Tensor(tensor),
            Operand::Number(number) => Value::Scalar(number),
        }
    }
}

/// The destination of the results.
pub enum Target<'a> {
    Fresh,
    /// Overwrites the first argument.
    InPlace,
    /// `out=`: one tensor for each result.
    Out(&'a [Tensor]),
}

/// The result of a call.
#[derive(Clone)]
pub enum Output {
    Tensor(Tensor),
    /// Several results: a tuple, with names if the operator has them.
    Tuple(Vec<Tensor>),
    /// As many results as the call requested: a tuple without names (`split`, `unbind`).
    List(Vec<Tensor>),
    Bool(bool),
    Int(i64),
    Float(f64),
    DType(DType),
    Nothing,
}

impl Output {
    pub fn tensors(&self) -> &[Tensor] {
        match self {
            Output::Tensor(tensor) => std::slice::from_ref(tensor),
            Output::Tuple(list) | Output::List(list) => list,
            _ => &[],
        }
    }

    pub fn into_tensor(self) -> Result<Tensor> {
        match self {
            Output::Tensor(tensor) => Ok(tensor),
            _ => Err(Error::runtime("an operator that gives one tensor gave something else")),
        }
    }

    pub fn into_tensors(self) -> Vec<Tensor> {
        match self {
            Output::Tensor(tensor) => vec![tensor],
            Output::Tuple(list) | Output::List(list) => list,
            _ => Vec::new(),
        }
    }

    /// The same with each tensor replaced.
    pub fn map(self, mut with: impl FnMut(Tensor) -> Result<Tensor>) -> Result<Output> {
        Ok(match self {
            Output::Tensor(tensor) => Output::Tensor(with(tensor)?),
            Output::Tuple(list) => Output::Tuple(list.into_iter().map(&mut with).collect::<Result<_>>()?),
            Output::List(list) => Output::List(list.into_iter().map(with).collect::<Result<_>>()?),
            other => other,
        })
    }
}
