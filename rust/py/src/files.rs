//! Mapped files under storages: those that are mapped here, and those of the interpreter's `mmap`.

use std::fs::{File, OpenOptions};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView};
use rushlight::Storage;
use rushlight_core::file_map::{FileMap, Writes};
use rushlight_core::storage::Block;

use crate::buffer::Buffer;
use crate::reclaim::Keep;
use crate::storage::PyStorage;

/// A file as memory; storages over parts of it keep it.
#[pyclass(frozen, name = "_FileMap", module = "rushlight._C")]
struct PyFileMap(Arc<FileMap>);

#[pymethods]
impl PyFileMap {
    /// The first `nbytes` bytes, or all. What is written stays in this process, unless it is `shared` with the file.
    #[new]
    #[pyo3(signature = (path, shared, nbytes=None))]
    fn new(path: &str, shared: bool, nbytes: Option<usize>) -> PyResult<Self> {
        let file = OpenOptions::new().read(true).write(shared).open(path)?;
        let length = nbytes.or_else(|| usize::try_from(file.metadata().ok()?.len()).ok()).unwrap_or(usize::MAX);
        let writes = if shared { Writes::Through } else { Writes::Private };
        Ok(PyFileMap(Arc::new(FileMap::new(file, path.to_owned(), length, writes)?)))
    }

    /// The first `nbytes` bytes of an open file, written through; the descriptor belongs to the mapping.
    #[staticmethod]
    fn _of_descriptor(descriptor: RawFd, name: String, nbytes: usize) -> PyResult<Self> {
        // SAFETY: the caller gives it away; a closed one is refused by the system.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        if file.metadata()?.len() < nbytes as u64 {
            return Err(PyRuntimeError::new_err(format!("the file {name} became shorter on its way")));
        }
        Ok(PyFileMap(Arc::new(FileMap::new(file, name, nbytes, Writes::Through)?)))
    }

    /// The bytes from `offset` on.
    fn storage(&self, offset: usize, nbytes: usize) -> PyResult<PyStorage> {
        let block = Block::file(&self.0, offset, nbytes, false);
        let block = block.ok_or_else(|| PyRuntimeError::new_err("the file became shorter while it was read"))?;
        Ok(PyStorage(Storage::new(block)))
    }
}

/// Bytes of a buffer as a block that holds it. Where they are those of a mapped file, the block knows it.
///
/// # Safety
/// The bytes lie within the buffer of `object`, which is `held`.
pub unsafe fn block_over(object: &Bound<'_, PyAny>, held: Buffer, start: *mut u8, bytes: usize) -> PyResult<Block> {
    let read_only = held.view().readonly != 0;
    let owner = Box::new(Keep::new(held));
    if bytes == 0 || !is_mapping(object)? {
        // SAFETY: by the caller's word; the buffer stays valid as long as it is held.
        return Ok(unsafe { Block::foreign(start, bytes, read_only, owner) });
    }
    // SAFETY: as above; `mmap` maps whole pages.
    let map = Arc::new(unsafe { FileMap::foreign(start, bytes, owner) });
    Block::file(&map, 0, bytes, read_only).ok_or_else(|| PyRuntimeError::new_err("a mapping without an address"))
}

/// Whether the memory of an object is that of the interpreter's `mmap`, or of a view of one.
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
        } else if crate::numpy::is_array(&object)? {
            object.getattr(intern!(py, "base"))?
        } else {
            return Ok(false);
        }
    }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyFileMap>()
}
