//! The operators that the crates below call: those of gradients, and the primitives of a call.

use rushlight_autograd::{Arithmetic, Tensor};
use rushlight_core::{Device, Result, Scalar};
use rushlight_dispatch::handled;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::primitives::{Primitives, QuantizedPrimitives, SparsePrimitives};
use rushlight_dispatch::value::{Target, Value};
use rushlight_dispatch::vmap::empty;

use crate::{convert, join, pointwise, quantized, reduce, sparse, table, view, vmap};

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
        into_compressed: sparse::factories::into_compressed,
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
