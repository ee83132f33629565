//! Arithmetic in derivatives: `d.grad() * d.result().conj()`, with errors propagated in the value instead of by `?` at
//! every step.

use std::ops::{Add, Div, Mul, Neg, Sub};

use rushlight_autograd::Tensor;
use rushlight_core::layout::DimSet;
use rushlight_core::{Device, Error, Result, Scalar};

use crate::create;
use crate::expr::Expr;
use crate::operator::{Args, Operator};
use crate::primitives::{Primitives, primitives};
use crate::signature::Kind;
use crate::value::{Ints, Operand, Output, Value};

impl Expr {
    /// The tensor; a number becomes a 0-d tensor.
    pub fn done(self) -> Result<Tensor> {
        match self {
            Expr::Tensor(tensor) => Ok(tensor),
            Expr::Number(number) => precise(number),
            Expr::Nothing => Err(Error::runtime("an undefined gradient was used as a tensor")),
            Expr::Failed(error) => Err(error),
        }
    }

    /// The tensor, or `None` if there is no gradient.
    pub fn gradient(self) -> Result<Option<Tensor>> {
        match self {
            Expr::Nothing => Ok(None),
            other => other.done().map(Some),
        }
    }

    /// Calls an operator with this as its first argument; missing arguments take their defaults.
    pub fn call<'a, const N: usize>(self, op: &'static Operator, rest: [Value<'a>; N]) -> Expr {
        let first = match self {
            Expr::Failed(_) | Expr::Nothing => return self,
            Expr::Number(number) if op.schema().params[0].kind == Kind::Operand => Value::Scalar(number),
            Expr::Number(number) => match precise(number) {
                Ok(tensor) => Value::Own(tensor),
                Err(error) => return Expr::Failed(error),
            },
            Expr::Tensor(tensor) => Value::Own(tensor),
        };
        let values = std::iter::once(first).chain(rest);
        Expr::new(Args::new(op, values).call().and_then(Output::into_tensor))
    }

    /// A binary operator; numbers stay numbers.
    fn binary(self, op: &'static Operator, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Failed(error), _) | (_, Expr::Failed(error)) => Expr::Failed(error),
            (Expr::Nothing, _) | (_, Expr::Nothing) => Expr::Nothing,
            (Expr::Tensor(left), right) => {
                let right = match &right {
                    Expr::Tensor(right) => Operand::Tensor(right),
                    Expr::Number(right) => Operand::Number(*right),
                    _ => return right,
                };
                Expr::new(op.binary(Operand::Tensor(&left), right, None))
            }
            (left, Expr::Tensor(right)) => left.call(op, [Value::Own(right)]),
            // With numbers alone the operator would use the default dtype, which has fewer digits.
            (Expr::Number(left), right) => Expr::new(precise(left)).binary(op, right),
        }
    }

    fn arithmetic(self, op: fn(&Primitives) -> &'static Operator, other: Expr) -> Expr {
        match primitives() {
            Ok(primitives) => self.binary(op(primitives), other),
            Err(error) => Expr::Failed(error),
        }
    }

    /// The gradient of a reduction: restores the reduced dimensions with size one, so that it broadcasts.
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
        match primitives() {
            Ok(primitives) => self.call(primitives.reshape, [Value::Ints(sizes)]),
            Err(error) => Expr::Failed(error),
        }
    }
}

/// A number as a 0-d tensor in double precision, which does not affect the dtype of tensors in promotion.
fn precise(number: Scalar) -> Result<Tensor> {
    create::scalar_of(number, number.dtype(), Device::Cpu)
}

macro_rules! arithmetic {
    ($($trait:ident $method:ident;)*) => {$(
        impl<T: Into<Expr>> $trait<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                self.arithmetic(|primitives| primitives.$method, other.into())
            }
        }
        impl $trait<Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                Expr::from(self).arithmetic(|primitives| primitives.$method, other)
            }
        }
    )*};
}

arithmetic! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        match primitives() {
            Ok(primitives) => self.call(primitives.neg, []),
            Err(error) => Expr::Failed(error),
        }
    }
}

impl Expr {
    /// A binary operator; numbers stay numbers.
    pub fn with(self, op: &'static Operator, other: impl Into<Expr>) -> Expr {
        self.binary(op, other.into())
    }

    /// An operator of two tensors; a number becomes a 0-d tensor.
    pub fn with_tensor(self, op: &'static Operator, other: Expr) -> Expr {
        match other.done() {
            Ok(other) => self.call(op, [other.into()]),
            Err(error) => Expr::Failed(error),
        }
    }

    /// An operator of two tensors and some numbers.
    pub fn with_numbers<const N: usize>(self, op: &'static Operator, other: Expr, numbers: [Scalar; N]) -> Expr {
        let first = match (self, other) {
            (Expr::Tensor(own), Expr::Tensor(other)) => [Value::Own(own), Value::Own(other)],
            (Expr::Failed(error), _) | (_, Expr::Failed(error)) => return Expr::Failed(error),
            (Expr::Nothing, _) | (_, Expr::Nothing) => return Expr::Nothing,
            _ => return Expr::Failed(Error::runtime(format!("{} needs two tensors", op.name))),
        };
        let values = first.into_iter().chain(numbers.map(Value::Scalar));
        Expr::new(Args::new(op, values).call().and_then(Output::into_tensor))
    }

    /// Zeros of the same shape.
    pub fn zeros_like(self) -> Expr {
        match self {
            Expr::Tensor(tensor) => Expr::new(create::zeros(tensor.sizes(), tensor.dtype(), tensor.device())),
            other => other,
        }
    }
}
