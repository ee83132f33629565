//! What derivatives are written in: a tensor or a number, with an error propagated in the value instead of by `?` at
//! every step.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result, Scalar};

/// A tensor, a number, or an error.
pub enum Expr {
    Tensor(Tensor),
    Number(Scalar),
    /// No gradient: the argument's gradient is undefined, which counts as zero.
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

    /// The sizes of a tensor; empty for anything else.
    pub fn sizes(&self) -> &[isize] {
        match self {
            Expr::Tensor(tensor) => tensor.sizes(),
            _ => &[],
        }
    }
}
