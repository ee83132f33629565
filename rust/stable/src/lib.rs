//! The stable ABI of LibTorch: libraries that were compiled for it define operators and use tensors through C functions,
//! which this crate exports under torch's names.
//!
//! `load` loads a library and returns what it registers (`registry`); `stand_in` makes the shared objects that take the
//! place of torch's own, which the library names as its dependencies. `exceptions` calls a function of such a library
//! and catches what it throws. Arguments and results are 64 bits each (`values`), tensors are handles (`handles`), dtypes
//! and other enumerations are numbers (`numbers`). `dispatcher` has the functions that call operators, `parallel` loops over
//! threads, `devices` streams and current devices. Each function returns 0, or 1 after it has kept an error (`errors`).
//!
//! Everything that comes from a library is trusted as far as the ABI goes: a library that breaks it breaks the process,
//! as it does in torch.

use std::ffi::c_void;

mod devices;
mod dispatcher;
mod errors;
mod exceptions;
mod handles;
mod load;
mod numbers;
mod parallel;
mod registry;
mod stand_in;
pub mod values;

pub use dispatcher::set_dispatch;
pub use errors::take_last;
pub use exceptions::Thrown;
pub use load::load;
pub use numbers::{Enumeration, dtype_of};
pub use registry::{Kernel, Registration, take as take_registrations};

/// Calls a function of a library.
///
/// # Errors
/// What the function throws.
///
/// # Safety
/// The stack has the function's arguments, and room for its results.
pub unsafe fn call(kernel: Kernel, stack: *mut u64, arguments: u64, results: u64) -> Result<(), Thrown> {
    let stack = stack.expose_provenance() as u64;
    // SAFETY: guaranteed by the caller.
    unsafe { exceptions::call_guarded(kernel as *const () as *const c_void, stack, arguments, results) }
}
