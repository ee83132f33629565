//! The steps of a call, independent of any operator.
//!
//! The files, in the order in which they build on each other:
//! - `value`, `generator`, `signature`: arguments, results, and the parameters of an operator; `expr`, `saved_meta`:
//!   the values of derivatives; `interpreter`: the services of the Python interpreter; `unsupported`: the error for what a backend lacks.
//! - `operator`: the definition of an operator. `args`, `operator_cache`, `naming` and `out` read it; `primitives` are
//!   the few operators that these modules call, installed by the crate with the operators.
//! - `allocate`, `copy`, `create`, `operands`, `promote`: tensors are made and moved here, unrecorded; `transfer` moves plain
//!   elements within a device and between devices, and `device_loops` runs loops over elements on CUDA devices.
//! - `derivative` and `node`: derivatives, and the nodes of the graph; `subgraph`: several calls as one node;
//!   `variants`: what in-place forms and `out=` may write; `overlap`: memory that they share with an operand.
//! - `interceptors`: which interceptors may apply to a call. The interceptors are `autocast` (mixed precision), `vmap`,
//!   `sparse`, `quantized`, `call::lazy_conj` (lazy conjugates), `profile` (the profiler), `call_cache` (saved calls)
//!   and `call::handled` (modes and classes with `__torch_dispatch__`, whose handlers `handled` calls).
//! - `fast_path` and `call`: the fast path and the steps of a call; `arithmetic`: the operators of derivatives.
//!
//! `backcompat` has optional warnings, and `waits` those of calls that wait for a device; `deterministic` is torch's mode of that name.

pub mod allocate;
pub mod args;
pub mod arithmetic;
pub mod autocast;
pub mod backcompat;
pub mod call;
pub mod call_cache;
pub mod copy;
pub mod create;
pub mod derivative;
pub mod deterministic;
pub mod device_loops;
pub mod expr;
pub mod fast_path;
pub mod generator;
pub mod handled;
pub mod interceptors;
pub mod interpreter;
pub mod naming;
pub mod node;
pub mod operands;
pub mod operator;
mod operator_cache;
pub mod out;
pub mod overlap;
pub mod primitives;
pub mod profile;
pub mod promote;
pub mod quantized;
pub mod saved_meta;
pub mod signature;
pub mod sparse;
pub mod subgraph;
mod transfer;
pub mod unsupported;
pub mod value;
pub mod variants;
pub mod vmap;
pub mod waits;
