//! The operators that programs use most, as methods of tensors. [`call`](super::call) has all others.

use rushlight_autograd::Tensor;
use rushlight_core::{Element, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::value::{Ints, Value};

use crate::convert;
use crate::linalg::matrix::{MATMUL, MM};
use crate::pointwise::compare::EQ;
use crate::pointwise::explog::{EXP, LOG};
use crate::pointwise::power::POW;
use crate::reduce::all_any::{ALL, ANY};
use crate::reduce::norm::NORM;
use crate::reduce::sum::{MEAN, MEAN_DIM, SUM, SUM_DIM};
use crate::view::RESHAPE;
use crate::view::expand::EXPAND_AS;
use crate::view::squeeze::UNSQUEEZE;
use crate::view::transpose::T;

/// Operators of tensors. Each of them is torch's method of that name, with its errors.
///
/// ```
/// use rushlight::{Operators, Result};
///
/// # fn main() -> Result<()> {
/// let x = rushlight::tensor(&[3.0, 4.0])?;
/// assert_eq!(x.norm(2.0, &[], false)?.item()?.f64(), 5.0);
/// assert_eq!((x.expr() * 2.0 - 1.0).done()?.to_vec::<f32>()?, [5.0, 7.0]);
/// # Ok(())
/// # }
/// ```
pub trait Operators {
    /// The tensor as a part of a formula with `+ - * /`.
    fn expr(&self) -> Expr;

    /// Whether the elements are equal, one by one.
    fn eq(&self, other: &Tensor) -> Result<Tensor>;
    /// Whether all elements are true, or differ from zero.
    fn all(&self) -> Result<Tensor>;
    /// Whether an element is true, or differs from zero.
    fn any(&self) -> Result<Tensor>;
    fn pow(&self, exponent: impl Into<Scalar>) -> Result<Tensor>;
    fn exp(&self) -> Result<Tensor>;
    fn log(&self) -> Result<Tensor>;
    /// The norm of the vectors along some dimensions; along all if there are none.
    fn norm(&self, p: impl Into<Scalar>, dims: &[i64], keepdim: bool) -> Result<Tensor>;
    fn sum(&self) -> Result<Tensor>;
    fn sum_dims(&self, dims: &[i64], keepdim: bool) -> Result<Tensor>;
    fn mean(&self) -> Result<Tensor>;
    fn mean_dims(&self, dims: &[i64], keepdim: bool) -> Result<Tensor>;
    /// The product of two matrices.
    fn mm(&self, other: &Tensor) -> Result<Tensor>;
    /// The product of vectors, matrices or batches of matrices, as Python's `@`.
    fn matmul(&self, other: &Tensor) -> Result<Tensor>;
    /// A matrix transposed, as a view.
    fn t(&self) -> Result<Tensor>;
    fn unsqueeze(&self, dim: i64) -> Result<Tensor>;
    fn expand_as(&self, other: &Tensor) -> Result<Tensor>;
    fn reshape(&self, sizes: &[i64]) -> Result<Tensor>;

    /// The only element. `f64()`, `i64()` and `truth()` of the result are numbers of Rust.
    ///
    /// # Errors
    /// RuntimeError: there is another number of elements.
    fn item(&self) -> Result<Scalar>;
    /// The elements in row-major order, converted to a dtype.
    fn to_vec<E: Element>(&self) -> Result<Vec<E>>;

    /// Sets whether gradients of this leaf are computed. Returns the tensor.
    ///
    /// # Errors
    /// RuntimeError: the tensor is a result of others, or its dtype has no gradients.
    fn requires_grad_(&self, requires: bool) -> Result<Tensor>;
}

impl Operators for Tensor {
    fn expr(&self) -> Expr {
        self.into()
    }
    fn eq(&self, other: &Tensor) -> Result<Tensor> {
        op!(EQ, self, other)
    }
    fn all(&self) -> Result<Tensor> {
        op!(ALL, self)
    }
    fn any(&self) -> Result<Tensor> {
        op!(ANY, self)
    }
    fn pow(&self, exponent: impl Into<Scalar>) -> Result<Tensor> {
        op!(POW, self, exponent.into())
    }
    fn exp(&self) -> Result<Tensor> {
        op!(EXP, self)
    }
    fn log(&self) -> Result<Tensor> {
        op!(LOG, self)
    }
    fn norm(&self, p: impl Into<Scalar>, dims: &[i64], keepdim: bool) -> Result<Tensor> {
        op!(NORM, self, p.into(), some(dims), keepdim)
    }
    fn sum(&self) -> Result<Tensor> {
        op!(SUM, self)
    }
    fn sum_dims(&self, dims: &[i64], keepdim: bool) -> Result<Tensor> {
        op!(SUM_DIM, self, dims, keepdim)
    }
    fn mean(&self) -> Result<Tensor> {
        op!(MEAN, self)
    }
    fn mean_dims(&self, dims: &[i64], keepdim: bool) -> Result<Tensor> {
        op!(MEAN_DIM, self, dims, keepdim)
    }
    fn mm(&self, other: &Tensor) -> Result<Tensor> {
        op!(MM, self, other)
    }
    fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        op!(MATMUL, self, other)
    }
    fn t(&self) -> Result<Tensor> {
        op!(T, self)
    }
    fn unsqueeze(&self, dim: i64) -> Result<Tensor> {
        op!(UNSQUEEZE, self, dim)
    }
    fn expand_as(&self, other: &Tensor) -> Result<Tensor> {
        op!(EXPAND_AS, self, other)
    }
    fn reshape(&self, sizes: &[i64]) -> Result<Tensor> {
        op!(RESHAPE, self, sizes)
    }
    fn item(&self) -> Result<Scalar> {
        convert::item(self)
    }
    fn to_vec<E: Element>(&self) -> Result<Vec<E>> {
        convert::to_vec(self)
    }
    fn requires_grad_(&self, requires: bool) -> Result<Tensor> {
        self.set_requires_grad(requires)?;
        Ok(self.clone())
    }
}

/// The dimensions, or none if there are none.
fn some(dims: &[i64]) -> Value<'static> {
    match dims {
        [] => Value::None,
        dims => Value::Ints(Ints::from_slice(dims)),
    }
}
