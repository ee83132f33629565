//! The operators, and the front end for programs in Rust, whose names are at the root. All operators are in one table,
//! except those of sparse tensors, the two entry points of `vmap`, and products that the CPU refuses (`linalg/out_dtype.rs`).
//!
//! - `table` lists the operators, `names` maps them to Python's names.
//! - `expr_ext` declares the operators that derivatives use most as methods, `expr_ext_impl` implements the methods;
//!   `vmap` has the two entry points of `vmap`, `atomic` additions from several processes.
//! - `held` has the addresses of operands for kernels on CUDA devices.
//! - `front` is what a program in Rust uses.
//! - The families: `create`, `convert`, `pointwise`, `reduce`, `view`, `index`, `join`, `linalg`, `fft`, `order`, `nn`,
//!   `fused`, `sparse`, `quantized`.
//!
//! The definition of an operator and the steps of a call are in the crate `dispatch`.

pub mod atomic;
pub mod convert;
pub mod create;
pub mod expr_ext;
mod expr_ext_impl;
pub mod fft;
mod front;
pub mod fused;
mod held;
pub mod index;
pub mod join;
pub mod linalg;
pub mod names;
pub mod nn;
pub mod order;
pub mod pointwise;
pub mod quantized;
pub mod reduce;
pub mod sparse;
pub mod table;
pub mod view;
pub mod vmap;

use rushlight_autograd::Arithmetic;
use rushlight_dispatch::handled;
use rushlight_dispatch::primitives::{Primitives, QuantizedPrimitives, SparsePrimitives};
use rushlight_dispatch::vmap::empty;

/// Differentiation, with the names of torch's C++ front end.
pub mod autograd {
    pub use crate::front::{BackwardContext, Context, Function};
    pub use rushlight_autograd::engine::{Options, backward, grad};
    pub use rushlight_autograd::modes::NoGradGuard;
}

pub use convert::{item, to_vec};
pub use front::{
    Operators, TensorOptions, call, device, dtype, full, manual_seed, ones, ones_like, rand, randn, requires_grad,
    tensor, zeros,
};
pub use rushlight_autograd::Tensor;
pub use rushlight_core::{DType, Device, Error, Layout, Result, Scalar, Storage};
pub use rushlight_dispatch::create::from_slice;
pub use rushlight_dispatch::expr::Expr;
pub use rushlight_dispatch::generator::Generator;
pub use rushlight_dispatch::op;
pub use rushlight_dispatch::operator::{Args, Operator};
pub use rushlight_dispatch::value::{Ints, Output, Target, Value};

static PRIMITIVES: Primitives = Primitives {
    add: &pointwise::arith::ADD,
    sub: &pointwise::arith::SUB,
    mul: &pointwise::arith::MUL,
    div: &pointwise::divide::DIV,
    neg: &pointwise::arith::NEG,
    conj: &pointwise::complex::CONJ_AT_ONCE,
    real: &pointwise::complex::REAL_PART,
    clone: &convert::CLONE,
    reshape: &view::RESHAPE,
    expand: &view::expand::EXPAND,
    select: &view::narrow::SELECT,
    narrow: &view::narrow::NARROW,
    stack: &join::STACK,
    sum: &reduce::sum::SUM_DIM,
    add_batch_dim: &vmap::ADD_BATCH_DIM,
    remove_batch_dim: &vmap::REMOVE_BATCH_DIM,
    cast: convert::to_dtype,
    copy_: convert::copy::copy_,
    sum_to: reduce::sum_to,
    sparse: SparsePrimitives {
        over_values: sparse::elementwise::over_values,
        sum: sparse::add::sum,
        add_into_dense: sparse::add::into_dense,
        to_dense: &sparse::TO_DENSE,
        empty: sparse::parts::empty_in,
        bodies: sparse::bodies::BODIES,
        refused: sparse::layouts::refused,
    },
    quantized: QuantizedPrimitives { dequantize: quantized::convert::dequantize, bodies: quantized::bodies::BODIES },
    table: table::OPERATORS,
};

static ARITHMETIC: Arithmetic = Arithmetic {
    add: |a, b| handled::derive(|| op!(pointwise::arith::ADD, a, b)),
    clone: |tensor| op!(convert::CLONE, tensor),
    detach: handled::detach,
    add_: |a, b| {
        let args = Args::new(&pointwise::arith::ADD, [a.into(), b.into(), Value::Scalar(Scalar::ONE)]);
        handled::derive(|| args.call_into(Target::InPlace)).map(drop)
    },
    empty,
    full: |sizes, value, dtype, device| rushlight_dispatch::create::full(sizes, Scalar::Float(value), dtype, device),
    copy_: convert::copy::copy_,
    as_strided: view::strided::as_strided,
    sum_to: reduce::sum_to,
    cast: convert::to_dtype,
    has_nan: |tensor| has_any(&pointwise::compare::ISNAN, tensor),
    has_inf: |tensor| has_any(&pointwise::compare::ISINF, tensor),
    elements: convert::to_vec,
};

/// Installs the few operators that the lower crates call; derivatives need them. Calling it again has no effect.
pub fn install() {
    rushlight_core::fork::install();
    rushlight_dispatch::primitives::install(&PRIMITIVES);
    rushlight_autograd::install(&ARITHMETIC);
}

/// Whether a property holds for an element; on `meta` for none.
fn has_any(property: &'static Operator, tensor: &Tensor) -> Result<bool> {
    if tensor.device() == Device::Meta {
        return Ok(false);
    }
    let found = property.tensor([tensor.into()])?;
    Ok(convert::item(&op!(reduce::all_any::ANY, found)?)? == Scalar::Bool(true))
}
