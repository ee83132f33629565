//! What the table's operators do instead if an operand is sparse: a body for each that declares `Sparse::ExplicitAutograd` or
//! `Sparse::CompositeImplicit`.
//!
//! The bodies call operators of many families. Their definitions are in layers below this one, and do not name it.

use rushlight_dispatch::operator::Operator;
use rushlight_dispatch::primitives::SparseBody;

use super::{convert, elementwise, factories, product, reduce, shape};
use crate::convert::copy::COPY;
use crate::convert::{CLONE, TO_DTYPE};
use crate::create::constant::{EMPTY_LIKE, FULL_LIKE, ONES_LIKE, ZEROS_LIKE};
use crate::create::draw::NORMAL_;
use crate::create::fill::{FILL_, ZERO_};
use crate::create::random::{RAND_LIKE, RANDINT_LIKE, RANDINT_LIKE_LOW, RANDN_LIKE};
use crate::create::resize::{RESIZE_, RESIZE_AS_};
use crate::index::index_select::INDEX_SELECT;
use crate::join::cat::{CAT, STACK};
use crate::linalg::addmm::{ADDMM, ADDMV};
use crate::linalg::matrix::{BMM, MATMUL, MM, MV};
use crate::linalg::triangular::TRIANGULAR_SOLVE;
use crate::nn::embedding::EMBEDDING;
use crate::pointwise::activation_backward::THRESHOLD_BACKWARD;
use crate::pointwise::arith::MUL;
use crate::pointwise::divide::{DIV, FLOOR_DIVIDE};
use crate::pointwise::power::POW;
use crate::reduce::all_any::ANY;
use crate::reduce::norm::NORM;
use crate::reduce::sum::{SUM, SUM_DIM};
use crate::view::complex::VIEW_AS_REAL;
use crate::view::narrow::{SELECT, SLICE};
use crate::view::split::UNBIND;
use crate::view::squeeze::UNSQUEEZE;
use crate::view::transpose::{PERMUTE, SWAPAXES, T, TRANSPOSE};

pub static BODIES: &[(&Operator, SparseBody)] = &[
    (&COPY, convert::copy),
    (&TO_DTYPE, elementwise::cast),
    (&CLONE, elementwise::clone),
    (&EMPTY_LIKE, elementwise::zeros_like),
    (&ZEROS_LIKE, elementwise::zeros_like),
    (&ONES_LIKE, elementwise::filled_like),
    (&FULL_LIKE, elementwise::filled_like),
    (&RAND_LIKE, elementwise::filled_like),
    (&RANDN_LIKE, elementwise::filled_like),
    (&RANDINT_LIKE, elementwise::filled_like),
    (&RANDINT_LIKE_LOW, elementwise::filled_like),
    (&ZERO_, convert::zero),
    (&FILL_, |args| factories::overwrite(args, "fill_.Scalar")),
    (&NORMAL_, |args| factories::overwrite(args, "normal_")),
    (&RESIZE_, factories::resize),
    (&RESIZE_AS_, factories::resize_as),
    (&INDEX_SELECT, shape::index_select),
    (&EMBEDDING, shape::embedding),
    (&CAT, shape::cat),
    (&STACK, shape::stack),
    (&ADDMM, product::addmm),
    (&ADDMV, product::addmv),
    (&TRIANGULAR_SOLVE, product::triangular_solve),
    (&MM, |args| product::matmul(args, MM::MAT2)),
    (&MV, |args| product::matmul(args, MV::VEC)),
    (&BMM, product::bmm),
    (&MATMUL, |args| product::matmul(args, MATMUL::OTHER)),
    (&MUL, elementwise::mul),
    (&DIV, elementwise::div),
    (&FLOOR_DIVIDE, elementwise::floor_divide),
    (&POW, elementwise::pow),
    (&THRESHOLD_BACKWARD, elementwise::threshold_backward),
    (&NORM, elementwise::norm),
    (&SUM, reduce::total),
    (&SUM_DIM, reduce::along),
    (&ANY, reduce::any),
    (&VIEW_AS_REAL, elementwise::view_as_real),
    (&SELECT, shape::select),
    (&SLICE, shape::slice),
    (&UNBIND, shape::unbind),
    (&UNSQUEEZE, shape::unsqueeze),
    (&TRANSPOSE, |args| shape::transpose(args, [TRANSPOSE::DIM0, TRANSPOSE::DIM1])),
    (&SWAPAXES, |args| shape::transpose(args, [SWAPAXES::AXIS0, SWAPAXES::AXIS1])),
    (&T, shape::t),
    (&PERMUTE, shape::permute),
];
