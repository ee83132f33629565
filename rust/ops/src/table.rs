//! The list of operators. Each row stands in its room; here is only its name.

use crate::row::Row;
use crate::{convert, copy, pointwise, reduce, view};

pub static ROWS: &[&Row] = &[
    &pointwise::arith::ADD,
    &pointwise::arith::SUB,
    &pointwise::arith::MUL,
    &pointwise::arith::DIV,
    &pointwise::arith::NEG,
    &pointwise::complex::CONJ,
    &pointwise::complex::REAL_PART,
    &pointwise::explog::EXP,
    &reduce::sum::SUM,
    &reduce::sum::SUM_DIM,
    &view::reshape::VIEW,
    &view::reshape::RESHAPE,
    &view::expand::EXPAND,
    &view::strided::AS_STRIDED,
    &convert::TO_DTYPE,
    &convert::CLONE,
    &copy::COPY_,
];
