//! Buffers of other Python objects as blocks of storages. Those of Python's `mmap` are registered as mapped files.

use std::ffi::c_int;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView};
use rushlight_core::block::Block;
use rushlight_core::file_map::FileMap;

use crate::numpy_types;
use crate::reclaim::{DeferredDrop, Owned};

/// A buffer that is held until the storage over it is dropped.
pub struct Buffer(Box<ffi::Py_buffer>);

// SAFETY: released with the GIL, see `reclaim`.
unsafe impl Send for Buffer {}

impl Owned for Buffer {
    fn end(mut self: Box<Self>, _: Python<'_>) {
        // SAFETY: filled by `PyObject_GetBuffer`, released once.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) };
    }
}

impl Buffer {
    pub fn get(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Buffer> {
        let mut view: Box<ffi::Py_buffer> = Box::new(ffi::Py_buffer::new());
        // SAFETY: a living object and memory for the result.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Buffer(view))
    }

    pub fn view(&self) -> &ffi::Py_buffer {
        &self.0
    }
}

/// Bytes of a buffer as a block that holds the buffer. If they are those of a mapped file, the block is registered as
/// one.
///
/// # Safety
/// The bytes lie within the buffer of `object`, which is `held`.
pub unsafe fn block_over(object: &Bound<'_, PyAny>, held: Buffer, start: *mut u8, bytes: usize) -> PyResult<Block> {
    let read_only = held.view().readonly != 0;
    let owner = Box::new(DeferredDrop::new(held));
    if bytes == 0 || !is_mapping(object)? {
        // SAFETY: guaranteed by the caller (see `# Safety`); the buffer stays valid as long as it is held.
        return Ok(unsafe { Block::foreign(start, bytes, read_only, owner) });
    }
    // SAFETY: as above; `mmap` maps whole pages.
    let map = Arc::new(unsafe { FileMap::foreign(start, bytes, owner) });
    Block::file(&map, 0, bytes, read_only).ok_or_else(|| PyRuntimeError::new_err("a mapping without an address"))
}

/// Whether the memory of an object is that of Python's `mmap`, or of a view of one.
fn is_mapping(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?.cast_into::<PyDict>()?;
    let Some(module) = modules.get_item(intern!(py, "mmap"))? else { return Ok(false) };
    let class = module.getattr(intern!(py, "mmap"))?;
    let mut object = object.clone();
    loop {
        object = if object.is_instance(&class)? {
            return Ok(true);
        } else if object.is_instance_of::<PyMemoryView>() {
            object.getattr(intern!(py, "obj"))?
        } else if numpy_types::is_array(&object)? {
            object.getattr(intern!(py, "base"))?
        } else {
            return Ok(false);
        }
    }
}
