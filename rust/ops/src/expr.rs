//! Arithmetic in derivatives: `d.grad() * d.result().conj()` with errors carried along instead of a `?` at every step.

use std::ops::{Add, Div, Mul, Neg, Sub};

use rushlight_autograd::Tensor;
use rushlight_core::layout::DimSet;
use rushlight_core::{Device, Error, Result, Scalar};

use crate::row::Row;
use crate::short::{self, Operand};
use crate::signature::Kind;
use crate::value::{Args, Ints, Output, Value};

/// A tensor, a number, or the error that prevented one.
pub enum Expr {
    Tensor(Tensor),
    Number(Scalar),
    /// No gradient flows here: the argument's gradient is undefined, which counts as zero.
    Nothing,
    Failed(Error),
}

impl From<Tensor> for Expr {
    fn from(tensor: Tensor) -> Self {
        Expr::Tensor(tensor)
    }
}
impl From<&Tensor> for Expr {
    fn from(tensor: &Tensor) -> Self {
        Expr::Tensor(tensor.clone())
    }
}
impl From<Scalar> for Expr {
    fn from(scalar: Scalar) -> Self {
        Expr::Number(scalar)
    }
}
impl From<f64> for Expr {
    fn from(number: f64) -> Self {
        Expr::Number(Scalar::Float(number))
    }
}
impl From<i64> for Expr {
    fn from(number: i64) -> Self {
        Expr::Number(Scalar::Int(number))
    }
}
impl From<Result<Tensor>> for Expr {
    fn from(result: Result<Tensor>) -> Self {
        Expr::new(result)
    }
}

impl Clone for Expr {
    fn clone(&self) -> Self {
        match self {
            Expr::Tensor(tensor) => Expr::Tensor(tensor.clone()),
            Expr::Number(number) => Expr::Number(*number),
            Expr::Nothing => Expr::Nothing,
            Expr::Failed(error) => Expr::Failed(error.clone()),
        }
    }
}

impl Expr {
    pub fn new(result: Result<Tensor>) -> Expr {
        match result {
            Ok(tensor) => Expr::Tensor(tensor),
            Err(error) => Expr::Failed(error),
        }
    }

    pub fn failed(error: Error) -> Expr {
        Expr::Failed(error)
    }

    /// The tensor; a lone number becomes a 0-d tensor.
    pub fn done(self) -> Result<Tensor> {
        match self {
            Expr::Tensor(tensor) => Ok(tensor),
            Expr::Number(number) => precise(number),
            Expr::Nothing => Err(Error::runtime("an undefined gradient was used as a tensor")),
            Expr::Failed(error) => Err(error),
        }
    }

    /// The tensor, or nothing where no gradient flows.
    pub fn gradient(self) -> Result<Option<Tensor>> {
        match self {
            Expr::Nothing => Ok(None),
            other => other.done().map(Some),
        }
    }

    /// Calls a row with this as its first argument; missing arguments take their defaults.
    pub fn call<'a, const N: usize>(self, row: &'static Row, rest: [Value<'a>; N]) -> Expr {
        let first = match self {
            Expr::Failed(_) | Expr::Nothing => return self,
            Expr::Number(number) if row.schema().params[0].kind == Kind::Operand => Value::Scalar(number),
            Expr::Number(number) => match precise(number) {
                Ok(tensor) => Value::Own(tensor),
                Err(error) => return Expr::Failed(error),
            },
            Expr::Tensor(tensor) => Value::Own(tensor),
        };
        let values = std::iter::once(first).chain(rest);
        Expr::new(crate::call::call(Args::new(row, values)).and_then(Output::into_tensor))
    }

    /// A binary row; numbers take part as numbers.
    fn binary(self, row: &'static Row, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Failed(error), _) | (_, Expr::Failed(error)) => Expr::Failed(error),
            (Expr::Nothing, _) | (_, Expr::Nothing) => Expr::Nothing,
            (Expr::Tensor(left), right) => {
                let right = match &right {
                    Expr::Tensor(right) => Operand::Tensor(right),
                    Expr::Number(right) => Operand::Number(*right),
                    _ => return right,
                };
                Expr::new(short::binary(row, Operand::Tensor(&left), right, None))
            }
            (left, Expr::Tensor(right)) => left.call(row, [Value::Own(right)]),
            // Of numbers alone a row would make the default dtype, which knows fewer digits than they.
            (Expr::Number(left), right) => Expr::new(precise(left)).binary(row, right),
        }
    }

    /// The shape behind a reduction: puts the reduced dimensions back as ones, so that it broadcasts.
    pub fn unreduce(self, dims: &[i64], keepdim: bool, rank: usize) -> Expr {
        let Expr::Tensor(tensor) = &self else { return self };
        if keepdim || rank == 0 {
            return self;
        }
        let reduced = match DimSet::of(dims, rank) {
            Ok(reduced) => reduced,
            Err(error) => return Expr::Failed(error),
        };
        let mut own = tensor.layout().sizes.iter();
        let sizes: Ints =
            (0..rank).map(|dim| if reduced.has(dim) { 1 } else { own.next().map_or(1, |&n| n as i64) }).collect();
        self.call(&crate::view::RESHAPE, [Value::Ints(sizes)])
    }
}

/// A number as a 0-d tensor in double precision, which leaves the dtype to the tensors that it meets.
fn precise(number: Scalar) -> Result<Tensor> {
    crate::create::scalar_of(number, number.dtype(), Device::Cpu)
}

macro_rules! arithmetic {
    ($($trait:ident $method:ident $row:path;)*) => {$(
        impl<T: Into<Expr>> $trait<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                self.binary(&$row, other.into())
            }
        }
        impl $trait<Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                Expr::from(self).binary(&$row, other)
            }
        }
    )*};
}

arithmetic! {
    Add add crate::pointwise::arith::ADD;
    Sub sub crate::pointwise::arith::SUB;
    Mul mul crate::pointwise::arith::MUL;
    Div div crate::pointwise::divide::DIV;
}

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        self.call(&crate::pointwise::arith::NEG, [])
    }
}

/// The rows that derivatives use most, as methods.
macro_rules! words {
    ($($method:ident $row:path;)*) => { impl Expr {$(
        pub fn $method(self) -> Expr {
            self.call(&$row, [])
        }
    )*} };
}

words! {
    abs crate::pointwise::sign::ABS;
    cos crate::pointwise::trig::COS;
    exp crate::pointwise::explog::EXP;
    isfinite crate::pointwise::compare::ISFINITE;
    log crate::pointwise::explog::LOG;
    reciprocal crate::pointwise::divide::RECIPROCAL;
    rsqrt crate::pointwise::power::RSQRT;
    sgn crate::pointwise::sign::SGN;
    sigmoid crate::pointwise::special::SIGMOID;
    sin crate::pointwise::trig::SIN;
    sqrt crate::pointwise::power::SQRT;
    square crate::pointwise::power::SQUARE;
    tanh crate::pointwise::hyperbolic::TANH;
}

/// Rows of two operands that derivatives use most, as methods.
macro_rules! pairs {
    ($($method:ident $row:path;)*) => { impl Expr {$(
        pub fn $method(self, other: impl Into<Expr>) -> Expr {
            self.with(&$row, other)
        }
    )*} };
}

pairs! {
    and crate::pointwise::logical::LOGICAL_AND;
    or crate::pointwise::logical::LOGICAL_OR;
    equals crate::pointwise::compare::EQ;
    above crate::pointwise::compare::GT;
    below crate::pointwise::compare::LT;
    at_least crate::pointwise::compare::GE;
    at_most crate::pointwise::compare::LE;
}

impl Expr {
    /// A row of two operands; numbers take part as numbers.
    pub fn with(self, row: &'static Row, other: impl Into<Expr>) -> Expr {
        self.binary(row, other.into())
    }

    /// A row of two tensors and some numbers.
    pub fn with_numbers<const N: usize>(self, row: &'static Row, other: Expr, numbers: [Scalar; N]) -> Expr {
        let first = match (self, other) {
            (Expr::Tensor(own), Expr::Tensor(other)) => [Value::Own(own), Value::Own(other)],
            (Expr::Failed(error), _) | (_, Expr::Failed(error)) => return Expr::Failed(error),
            (Expr::Nothing, _) | (_, Expr::Nothing) => return Expr::Nothing,
            _ => return Expr::Failed(Error::runtime(format!("{} needs two tensors", row.name))),
        };
        let values = first.into_iter().chain(numbers.map(Value::Scalar));
        Expr::new(crate::call(Args::new(row, values)).and_then(Output::into_tensor))
    }

    /// Where this holds `yes`, elsewhere `no`.
    pub fn choose(self, yes: impl Into<Expr>, no: impl Into<Expr>) -> Expr {
        let value = |expr: Expr| match expr {
            Expr::Tensor(tensor) => Ok(Value::Own(tensor)),
            Expr::Number(number) => Ok(Value::Scalar(number)),
            other => Err(other),
        };
        match (value(yes.into()), value(no.into())) {
            (Ok(yes), Ok(no)) => self.call(&crate::pointwise::choose::WHERE, [yes, no]),
            (Err(stuck), _) | (_, Err(stuck)) => stuck,
        }
    }

    /// Zeros of the same shape.
    pub fn zeros_like(self) -> Expr {
        match self {
            Expr::Tensor(tensor) => Expr::new(crate::create::zeros(tensor.sizes(), tensor.dtype(), tensor.device())),
            other => other,
        }
    }
}
