//! The groups of `rushlight.multiprocessing`, whose processes work together: each uses its share of the cores unless the user sets another number, and
//! all may add to the same elements.

use std::sync::atomic::AtomicUsize;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::errors::{kind_of, raise};
use crate::storage::PyStorage;
use crate::{object, scalars};

/// Makes this process a member of a group. `count` is shared memory in which the group's parent writes the number of
/// members.
#[pyfunction]
fn _join_group(count: &Bound<'_, PyStorage>) -> PyResult<()> {
    let storage = &count.get().storage;
    if !storage.is_shared()
        || storage.len() < size_of::<AtomicUsize>()
        || !storage.address().is_multiple_of(align_of::<AtomicUsize>())
    {
        return Err(PyValueError::new_err("the count of a group's members must be in shared memory"));
    }
    // The process stays a member until it ends, and so the memory is never freed.
    let pin = Box::leak(Box::new(storage.clone())).pin().map_err(raise)?;
    let address = pin.as_ptr().cast::<AtomicUsize>();
    std::mem::forget(pin);
    // SAFETY: aligned, long enough, and pinned forever; other processes write it atomically.
    rushlight_par::set_group(unsafe { &*address });
    Ok(())
}

/// `rushlight.multiprocessing.atomic_add_`.
#[pyfunction]
fn _atomic_add(
    target: &Bound<'_, PyAny>,
    update: &Bound<'_, PyAny>,
    index: Option<&Bound<'_, PyAny>>,
    alpha: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let index = index.map(object::tensor).transpose()?;
    let alpha = match scalars::number(alpha)? {
        Some(alpha) if !alpha.is_complex() => alpha,
        _ => return Err(PyTypeError::new_err(format!("alpha must be a real number, not {}", kind_of(alpha)))),
    };
    rushlight::atomic::add(object::tensor(target)?, index, object::tensor(update)?, alpha).map_err(raise)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_join_group, module)?)?;
    module.add_function(wrap_pyfunction!(_atomic_add, module)?)
}
