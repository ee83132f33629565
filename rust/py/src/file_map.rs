//! Mapped files under storages.

use std::fs::{File, OpenOptions};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rushlight::Storage;
use rushlight_core::block::Block;
use rushlight_core::file_map::{FileMap, MapMode};

/// A mapped file; storages over parts of it keep it alive.
#[pyclass(frozen, name = "_FileMap", module = "rushlight._C")]
struct PyFileMap(Arc<FileMap>);

#[pymethods]
impl PyFileMap {
    /// Maps the first `nbytes` bytes, or all. Writes stay in this process, unless the mapping is `shared`.
    #[new]
    #[pyo3(signature = (path, shared, nbytes=None))]
    fn new(path: &str, shared: bool, nbytes: Option<usize>) -> PyResult<Self> {
        let file = OpenOptions::new().read(true).write(shared).open(path)?;
        let length = nbytes.or_else(|| usize::try_from(file.metadata().ok()?.len()).ok()).unwrap_or(usize::MAX);
        let writes = if shared { MapMode::Shared } else { MapMode::Private };
        Ok(PyFileMap(Arc::new(FileMap::new(file, path.to_owned(), length, writes)?)))
    }

    /// The first `nbytes` bytes of an open file, with writes going to the file; the mapping owns the descriptor.
    #[staticmethod]
    fn _of_descriptor(descriptor: RawFd, name: String, nbytes: usize) -> PyResult<Self> {
        // SAFETY: the caller transfers the descriptor; the system rejects a closed one.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        if file.metadata()?.len() < nbytes as u64 {
            return Err(PyRuntimeError::new_err(format!("the file {name} was truncated while it was sent")));
        }
        Ok(PyFileMap(Arc::new(FileMap::new(file, name, nbytes, MapMode::Shared)?)))
    }

    /// The bytes from `offset` on.
    fn storage<'py>(&self, py: Python<'py>, offset: usize, nbytes: usize) -> PyResult<Bound<'py, PyAny>> {
        let block = Block::file(&self.0, offset, nbytes, false);
        let block = block.ok_or_else(|| PyRuntimeError::new_err("the file was truncated while it was read"))?;
        crate::storage::wrap(py, Storage::new(block))
    }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyFileMap>()
}
