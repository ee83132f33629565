//! The operators, and the front end for programs in Rust, whose names are at the root. The lists of operators
//! are `table`, and three short ones that `README.md` names.
//!
//! - `table` lists the operators, `names` maps them to Python's names; `reference` has the lines that
//!   the reference pages and `help()` show of them.
//! - `expr_ext` declares the operators that derivatives use most as methods, `expr_ext_impl` implements the methods;
//!   `vmap` has the two entry points of `vmap`, `atomic` additions from several processes.
//! - `held` has the addresses of operands for kernels on CUDA devices.
//! - `front` is what a program in Rust uses. `install` gives the lower crates the operators that they call.
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
mod install;
pub mod join;
pub mod linalg;
pub mod names;
pub mod nn;
pub mod order;
pub mod pointwise;
pub mod quantized;
pub mod reduce;
pub mod reference;
pub mod sparse;
pub mod table;
pub mod view;
pub mod vmap;

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
pub use install::install;
pub use rushlight_autograd::Tensor;
pub use rushlight_core::{DType, Device, Error, Layout, Result, Scalar, Storage};
pub use rushlight_dispatch::create::from_slice;
pub use rushlight_dispatch::expr::Expr;
pub use rushlight_dispatch::generator::Generator;
pub use rushlight_dispatch::op;
pub use rushlight_dispatch::operator::{Args, Operator};
pub use rushlight_dispatch::value::{Ints, Output, Target, Value};
