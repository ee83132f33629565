//! Operators: each in a room of its own, all but those of sparse tensors and the two doors of `vmap` in one table.
//!
//! `row` says what an operator is, `table` lists them, `names` what Python finds of them. `call` is the life of a call,
//! `short` its way for small operands. `signature` and `value` carry arguments, `promote` finds their common dtype, `copy`
//! moves elements, `operands` gives kernels plain ones; `derive` and `expr` are the derivatives, `node` the place in the graph; `variants` and `out` in-place and
//! `out=`. Beside a call stand `autocast` (mixed precision), `backcompat` (warnings on demand), `profile` (who took how
//! long), `generator` (random streams), `mapped` (the samples of a `vmap`), `atomic` (additions of several processes) and `host`, what the engine
//! asks of the interpreter.
//! The rooms: `create`, `convert`, `pointwise`, `reduce`, `view`, `index`, `join`, `linalg`, `fft`, `order`, `nn`, `fused`, `sparse`.

pub mod atomic;
pub mod autocast;
pub mod backcompat;
pub mod call;
pub mod convert;
pub mod copy;
pub mod create;
pub mod derive;
mod enclosed;
pub mod expr;
pub mod fft;
pub mod fused;
pub mod generator;
pub mod host;
pub mod index;
pub mod join;
pub mod keeper;
pub mod linalg;
pub mod mapped;
pub mod names;
pub mod nn;
pub mod node;
pub mod operands;
pub mod order;
pub mod out;
pub mod pointwise;
pub mod profile;
pub mod promote;
pub mod reduce;
pub mod row;
pub mod short;
pub mod signature;
pub mod sparse;
pub mod table;
pub mod value;
pub mod variants;
pub mod view;

pub use call::call;
pub use convert::{item, to_vec};
pub use create::from_slice;
pub use enclosed::{Alone, set_memory};
pub use generator::Generator;
pub use row::Row;
pub use rushlight_autograd::Tensor;
pub use rushlight_core::{DType, Device, Error, Layout, Result, Scalar, Storage};
pub use value::{Args, Ints, Output, Value};

/// Hands autograd the few operators that it performs itself. Calling it again does nothing.
pub fn install() {
    rushlight_core::fork::install();
    rushlight_autograd::install(rushlight_autograd::Arithmetic {
        add: |a, b| op!(pointwise::arith::ADD, a, b),
        clone: |tensor| op!(convert::CLONE, tensor),
        add_: |a, b| {
            let args = Args::new(&pointwise::arith::ADD, [a.into(), b.into(), Value::Scalar(Scalar::ONE)]);
            call::call_into(args, call::Target::InPlace).map(drop)
        },
        empty: mapped::room,
        full: |sizes, value, dtype, device| create::full(sizes, Scalar::Float(value), dtype, device),
        copy_: convert::copy::copy_,
        as_strided: view::strided::as_strided,
        sum_to: reduce::sum_to,
        cast: convert::to_dtype,
        has_nan: |tensor| match tensor.device() {
            Device::Meta => Ok(false),
            _ => Ok(convert::item(&op!(reduce::truth::ANY, op!(pointwise::compare::ISNAN, tensor)?)?)?
                == Scalar::Bool(true)),
        },
    });
}
