//! The implementation of `ExprExt`: the operator behind each method.

use rushlight_autograd::Tensor;
use rushlight_core::Scalar;
use rushlight_dispatch::create;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::value::{Ints, Value};

use crate::expr_ext::ExprExt;
use crate::index::put::INDEX_PUT_DIMS;
use crate::index::scatter::SCATTER_ADD;
use crate::join::diag::DIAG_EMBED;
use crate::join::tril::{TRIL, TRIU};
use crate::linalg::contract::OUTER;
use crate::linalg::matrix::MATMUL;
use crate::linalg::triangular::triangular;
use crate::pointwise::clamp::CLAMP_MIN;
use crate::pointwise::compare::{EQ, GE, GT, ISFINITE, LE, LT};
use crate::pointwise::complex::{CONJ_AT_ONCE, REAL_PART};
use crate::pointwise::divide::RECIPROCAL;
use crate::pointwise::explog::{EXP, LOG};
use crate::pointwise::hyperbolic::TANH;
use crate::pointwise::logical::{LOGICAL_AND, LOGICAL_OR};
use crate::pointwise::power::{RSQRT, SQRT, SQUARE};
use crate::pointwise::sign::{ABS, SGN};
use crate::pointwise::special::SIGMOID;
use crate::pointwise::trig::{COS, SIN};
use crate::pointwise::where_::WHERE;
use crate::reduce::sum::{SUM_DIM, sum_to};
use crate::view::diagonal::DIAGONAL;
use crate::view::narrow::narrow;
use crate::view::squeeze::UNSQUEEZE;
use crate::view::transpose::{T, TRANSPOSE, across};

macro_rules! of_one {
    ($($method:ident $op:ident;)*) => {$(
        fn $method(self) -> Expr {
            self.call(&$op, [])
        }
    )*};
}

macro_rules! of_two {
    ($($method:ident $op:ident;)*) => {$(
        fn $method(self, other: impl Into<Expr>) -> Expr {
            self.with(&$op, other)
        }
    )*};
}

impl ExprExt for Expr {
    of_one! {
        abs ABS;
        cos COS;
        exp EXP;
        isfinite ISFINITE;
        log LOG;
        reciprocal RECIPROCAL;
        rsqrt RSQRT;
        sgn SGN;
        sigmoid SIGMOID;
        sin SIN;
        sqrt SQRT;
        square SQUARE;
        tanh TANH;
    }

    of_two! {
        and LOGICAL_AND;
        or LOGICAL_OR;
        equals EQ;
        above GT;
        below LT;
        at_least GE;
        at_most LE;
    }

    fn at_least_zero(self) -> Expr {
        self.call(&CLAMP_MIN, [Scalar::Int(0).into()])
    }

    fn choose(self, yes: impl Into<Expr>, no: impl Into<Expr>) -> Expr {
        let value = |expr: Expr| match expr {
            Expr::Tensor(tensor) => Ok(Value::Own(tensor)),
            Expr::Number(number) => Ok(Value::Scalar(number)),
            other => Err(other),
        };
        match (value(yes.into()), value(no.into())) {
            (Ok(yes), Ok(no)) => self.call(&WHERE, [yes, no]),
            (Err(stuck), _) | (_, Err(stuck)) => stuck,
        }
    }

    fn conj(self) -> Expr {
        match self {
            Expr::Tensor(tensor) if tensor.dtype().is_complex() => Expr::Tensor(tensor).call(&CONJ_AT_ONCE, []),
            Expr::Number(Scalar::Complex(number)) => Expr::Number(Scalar::Complex(number.conj())),
            own => own,
        }
    }

    fn real(self) -> Expr {
        match self {
            Expr::Tensor(tensor) if tensor.dtype().is_complex() => Expr::Tensor(tensor).call(&REAL_PART, []),
            own => own,
        }
    }

    fn sum_over(self, dim: i64) -> Expr {
        self.call(&SUM_DIM, [dim.into()])
    }

    fn sum_to(self, sizes: &[isize]) -> Expr {
        match self {
            Expr::Tensor(tensor) => Expr::new(sum_to(&tensor, sizes)),
            other => other,
        }
    }

    fn scatter_add(self, dim: i64, index: Tensor, source: Tensor) -> Expr {
        self.call(&SCATTER_ADD, [dim.into(), index.into(), source.into()])
    }

    fn index_put_add(self, indices: Vec<Tensor>, dims: Ints, values: Tensor) -> Expr {
        self.call(&INDEX_PUT_DIMS, [indices.into(), dims.into(), values.into(), true.into()])
    }

    fn part(self, dim: i64, start: isize, length: isize) -> Expr {
        match self {
            Expr::Tensor(tensor) => Expr::new(narrow(&tensor, dim, start as i64, length as i64)),
            other => other,
        }
    }

    fn swapped(self, a: i64, b: i64) -> Expr {
        self.call(&TRANSPOSE, [a.into(), b.into()])
    }

    fn transposed(self) -> Expr {
        self.swapped(-2, -1)
    }

    fn adjoint(self) -> Expr {
        self.transposed().conj()
    }

    fn across(self) -> Expr {
        match self {
            Expr::Tensor(tensor) => Expr::new(across(&tensor)),
            other => other.call(&T, []),
        }
    }

    fn matmul(self, other: impl Into<Expr>) -> Expr {
        self.with_tensor(&MATMUL, other.into())
    }

    fn outer(self, other: impl Into<Expr>) -> Expr {
        self.with_tensor(&OUTER, other.into())
    }

    fn along_columns(self) -> Expr {
        self.call(&UNSQUEEZE, [(-2i64).into()])
    }

    fn along_rows(self) -> Expr {
        self.call(&UNSQUEEZE, [(-1i64).into()])
    }

    fn diagonals(self) -> Expr {
        self.call(&DIAGONAL, [0i64.into(), (-2i64).into(), (-1i64).into()])
    }

    fn on_diagonals(self) -> Expr {
        self.call(&DIAG_EMBED, [])
    }

    fn tril(self, diagonal: i64) -> Expr {
        self.call(&TRIL, [diagonal.into()])
    }

    fn triu(self, diagonal: i64) -> Expr {
        self.call(&TRIU, [diagonal.into()])
    }

    fn with_diagonal_of_ones(self) -> Expr {
        let Expr::Tensor(tensor) = &self else { return self };
        let sizes = &tensor.sizes()[..tensor.rank() - 1];
        match create::full(sizes, Scalar::ONE, tensor.dtype(), tensor.device()) {
            Ok(ones) => Expr::from(ones).on_diagonals() + self.clone().tril(-1) + self.triu(1),
            Err(error) => Expr::failed(error),
        }
    }

    fn solve_triangular(self, b: Expr, upper: bool, left: bool, unit: bool) -> Expr {
        match (self.done(), b.done()) {
            (Ok(a), Ok(b)) => Expr::new(triangular(&a, &b, upper, left, unit)),
            (Err(error), _) | (_, Err(error)) => Expr::failed(error),
        }
    }
}
