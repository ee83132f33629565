//! The operators that derivatives use most, as methods of `Expr`: `d.grad() * d.input(INPUT).cos()`.
//!
//! The definitions of operators use these methods in their derivatives, and the methods call operators. This file is
//! below all operators and has only the declarations; `expr_ext_impl` is above them and calls them.

use rushlight_autograd::Tensor;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::value::Ints;

macro_rules! of_one {
    ($($method:ident)*) => {$(
        fn $method(self) -> Expr;
    )*};
}

macro_rules! of_two {
    ($($method:ident)*) => {$(
        fn $method(self, other: impl Into<Expr>) -> Expr;
    )*};
}

pub trait ExprExt: Sized {
    of_one! { abs cos exp isfinite log reciprocal rsqrt sgn sigmoid sin sqrt square tanh }

    of_two! { and or equals above below at_least at_most }

    fn at_least_zero(self) -> Expr;

    /// `yes` where this is true, elsewhere `no`.
    fn choose(self, yes: impl Into<Expr>, no: impl Into<Expr>) -> Expr;

    /// The conjugate; a real tensor is unchanged.
    fn conj(self) -> Expr;

    /// The real part; a real tensor is unchanged.
    fn real(self) -> Expr;

    /// The sum over one dimension, which is removed.
    fn sum_over(self, dim: i64) -> Expr;

    /// Sums broadcast dimensions down to these sizes.
    fn sum_to(self, sizes: &[isize]) -> Expr;

    /// Adds the elements of `source` at the positions along `dim` that `index` has for each of them.
    fn scatter_add(self, dim: i64, index: Tensor, source: Tensor) -> Expr;

    /// Adds `values` at the indices, which index the dimensions `dims`.
    fn index_put_add(self, indices: Vec<Tensor>, dims: Ints, values: Tensor) -> Expr;

    /// `length` indices of a dimension, counted from the last, from `start` on.
    fn part(self, dim: i64, start: isize, length: isize) -> Expr;

    /// Two dimensions exchanged, as a view.
    fn swapped(self, a: i64, b: i64) -> Expr;

    /// The last two dimensions exchanged, as a view.
    fn transposed(self) -> Expr;

    /// The matrices transposed and conjugated.
    fn adjoint(self) -> Expr;

    /// A matrix transposed, as a view.
    fn across(self) -> Expr;

    /// The product of matrices or vectors, with torch's rules for `@`.
    fn matmul(self, other: impl Into<Expr>) -> Expr;

    /// The products of each element of one vector and each of another.
    fn outer(self, other: impl Into<Expr>) -> Expr;

    /// A vector for each matrix, which scales its columns.
    fn along_columns(self) -> Expr;

    /// A vector for each matrix, which scales its rows.
    fn along_rows(self) -> Expr;

    /// The diagonals of matrices.
    fn diagonals(self) -> Expr;

    /// Matrices with these diagonals.
    fn on_diagonals(self) -> Expr;

    fn tril(self, diagonal: i64) -> Expr;

    fn triu(self, diagonal: i64) -> Expr;

    /// Matrices with ones on their diagonals.
    fn with_diagonal_of_ones(self) -> Expr;

    /// The solution of a system with this triangle.
    fn solve_triangular(self, b: Expr, upper: bool, left: bool, unit: bool) -> Expr;
}
