//! `UntypedStorage`: a tensor's bytes as an object of their own, and their transfer between processes.
//!
//! A storage has at most one object, which it keeps alive as long as anything else has a handle on the storage.

use rushlight_dispatch::allocate::storage;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyType};
use rushlight::{DType, Device, Storage, Tensor};
use rushlight_core::Layout;
use rushlight_core::block::Block;
use rushlight_core::file_map::MapMode;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::shared::{self, Bundle, Identity};
use rushlight_core::storage::WeakStorage;

use crate::buffer::Memory;
use crate::dtype::{PyDevice, wanted_device};
use crate::errors::{kind_of, raise};
use crate::foreign_buffer::{Buffer, block_over};
use crate::reclaim::{DeferredDrop, Owned};
use crate::scalars;

/// The pickle of a storage: the function that rebuilds it, and its arguments, the content and the device.
type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyAny>, String));

/// The base of `UntypedStorage`, which is derived from it in Python and so has attributes that the garbage collector
/// sees.
#[pyclass(frozen, subclass, weakref, name = "_StorageBase", module = "rushlight._C")]
pub struct PyStorage {
    pub storage: Storage,
    /// The object's address, once it is in `ALIVE`.
    object: AtomicUsize,
}

/// The objects by the identity of their storages. Used only with the GIL.
static ALIVE: ForkMutex<Option<HashMap<usize, usize>>> = ForkMutex::new(Rank::Tables, None);

/// The class `UntypedStorage`.
static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

thread_local! {
    /// The storage of the object under construction.
    static COMING: RefCell<Option<Storage>> = const { RefCell::new(None) };
}

impl From<Storage> for PyStorage {
    fn from(storage: Storage) -> Self {
        PyStorage { storage, object: AtomicUsize::new(0) }
    }
}

impl Drop for PyStorage {
    fn drop(&mut self) {
        let object = *self.object.get_mut();
        if object == 0 {
            return;
        }
        let identity = self.storage.identity();
        if let Some(alive) = ALIVE.lock().as_mut()
            && alive.get(&identity) == Some(&object)
        {
            alive.remove(&identity);
        }
    }
}

/// The Python object of a storage: the existing one, or a new one.
pub fn wrap(py: Python<'_>, storage: Storage) -> PyResult<Bound<'_, PyAny>> {
    let known = ALIVE.lock().as_ref().and_then(|alive| alive.get(&storage.identity()).copied());
    let known = known.map(|object| object as *mut ffi::PyObject);
    // SAFETY: an object leaves the table before its memory is freed, and the GIL is held. One without references is being
    // destroyed.
    let living = known.filter(|&object| unsafe { ffi::Py_REFCNT(object) } > 0);
    let object = match living {
        // SAFETY: as above.
        Some(object) => unsafe { Bound::from_borrowed_ptr(py, object) },
        None => {
            let class = CLASS.get(py).ok_or_else(|| PyRuntimeError::new_err("UntypedStorage does not exist yet"))?;
            COMING.set(Some(storage.clone()));
            let made = py.get_type::<PyStorage>().call_method1(intern!(py, "__new__"), (class.bind(py),));
            COMING.set(None);
            made?
        }
    };
    adopt(object.cast::<PyStorage>()?);
    Ok(object)
}

/// Makes a storage keep this object, which becomes its only one, as long as anything else has a handle on the storage.
pub fn adopt(object: &Bound<'_, PyStorage>) {
    let own = object.get();
    let address = object.as_ptr() as usize;
    if own.object.swap(address, Ordering::Relaxed) == 0 {
        ALIVE.lock().get_or_insert_default().insert(own.storage.identity(), address);
    }
    if !own.storage.is_kept() && own.storage.keep() {
        // SAFETY: a living object; `LastStorage` drops this reference.
        unsafe { ffi::Py_IncRef(object.as_ptr()) };
    }
}

/// The last handle on a storage besides that of its object.
struct LastStorage(Storage);

impl Owned for LastStorage {
    fn end(self: Box<Self>, py: Python<'_>) {
        let storage = self.0;
        if !storage.is_kept() || storage.owners() > 2 {
            return;
        }
        let object = ALIVE.lock().as_ref().and_then(|alive| alive.get(&storage.identity()).copied());
        storage.release_kept();
        drop(storage);
        if let Some(object) = object {
            // SAFETY: the storage kept one reference.
            drop(unsafe { Bound::from_owned_ptr(py, object as *mut ffi::PyObject) });
        }
    }
}

/// Sets the class of storages' objects.
#[pyfunction]
fn _set_storage_class(storage_class: Bound<'_, PyType>) {
    let _ = CLASS.set(storage_class.py(), storage_class.unbind());
}

/// Copies bytes of one storage, from a place on, to the beginning of another one, on any devices.
fn copy_bytes(to: &Storage, (from, place): (&Storage, isize), bytes: usize) -> PyResult<()> {
    if bytes == 0 {
        return Ok(());
    }
    let content = |storage: &Storage, offset: isize| {
        let layout = Layout { offset, ..Layout::contiguous(&[bytes as isize]) };
        Tensor::new(storage.clone(), layout, DType::U8, storage.device())
    };
    rushlight_dispatch::copy::copy(&content(to, 0), &content(from, place)).map_err(raise)
}

/// The storage itself, or a copy of one on a CUDA device.
fn on_host(storage: &Storage) -> PyResult<Storage> {
    if !matches!(storage.device(), Device::Cuda(_)) {
        return Ok(storage.clone());
    }
    let copy = Storage::heap(storage.len()).map_err(raise)?;
    copy_bytes(&copy, (storage, 0), storage.len())?;
    Ok(copy)
}

/// The storage of a Python object.
pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Storage> {
    let own = object.cast::<PyStorage>().map_err(|_| PyTypeError::new_err("expected an UntypedStorage"))?;
    Ok(own.get().storage.clone())
}

#[pymethods]
impl PyStorage {
    /// `size` uninitialised bytes.
    #[new]
    #[pyo3(signature = (size=0, *, device=None))]
    fn new(size: usize, device: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        if let Some(coming) = COMING.take() {
            return Ok(coming.into());
        }
        let device = wanted_device("UntypedStorage", device)?.map_or(Device::Cpu, |device| device.placed());
        match device {
            Device::Unsupported(unsupported) if !unsupported.needs_module() => Err(PyRuntimeError::new_err(format!(
                "torch.UntypedStorage(): Storage device not recognized: {}",
                unsupported.kind()
            ))),
            device => storage(device, size).map(PyStorage::from).map_err(raise),
        }
    }

    /// The bytes of an object with the buffer protocol, without a copy; the object is kept alive as long as they are
    /// used.
    #[staticmethod]
    #[pyo3(signature = (buffer, offset=0, nbytes=None))]
    fn _from_buffer<'py>(
        buffer: &Bound<'py, PyAny>,
        offset: usize,
        nbytes: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let held = Buffer::get(buffer, ffi::PyBUF_SIMPLE)?;
        let (start, length) = (held.view().buf.cast::<u8>(), held.view().len as usize);
        let nbytes = nbytes.unwrap_or(length.saturating_sub(offset));
        if offset.checked_add(nbytes).is_none_or(|end| end > length) {
            return Err(PyValueError::new_err(format!(
                "{nbytes} bytes from {offset} on do not fit a buffer of {length} bytes"
            )));
        }
        // SAFETY: the range lies within the buffer.
        let block = unsafe { block_over(buffer, held, start.add(offset), nbytes)? };
        wrap(buffer.py(), Storage::new(block))
    }

    fn nbytes(&self) -> usize {
        self.storage.len()
    }

    fn size(&self) -> usize {
        self.storage.len()
    }

    fn __len__(&self) -> usize {
        self.storage.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<u8> {
        let length = self.storage.len() as isize;
        let place = if index < 0 { index + length } else { index };
        if place < 0 || place >= length {
            return Err(PyIndexError::new_err(format!("index {index} out of range for storage of size {length}")));
        }
        if self.storage.is_wrapper() {
            return Err(PyRuntimeError::new_err(
                "The tensor has a non-zero number of elements, but its data is not allocated yet.",
            ));
        }
        if let Device::Cuda(_) = self.storage.device() {
            let byte = Storage::heap(1).map_err(raise)?;
            copy_bytes(&byte, (&self.storage, place), 1)?;
            // SAFETY: the storage has one byte.
            return Ok(unsafe { byte.pin().map_err(raise)?.as_ptr().read() });
        }
        let pin = self.storage.pin().map_err(raise)?;
        if place as usize >= pin.block().len() {
            return Err(PyIndexError::new_err(format!("index {index} out of range for storage of size {length}")));
        }
        // SAFETY: within the pinned block.
        Ok(unsafe { pin.as_ptr().offset(place).read() })
    }

    /// Changes the size of the storage and keeps the bytes that fit. A size of zero frees its memory, and reading its
    /// tensors is an error until it grows again.
    ///
    /// >>> x = torch.ones(2)
    /// >>> x.untyped_storage().resize_(0).nbytes()
    /// 0
    /// >>> _ = x.untyped_storage().resize_(8)
    /// >>> x.fill_(3)
    /// tensor([3., 3.])
    fn resize_<'py>(slf: PyRef<'py, Self>, size: &Bound<'py, PyAny>) -> PyResult<PyRef<'py, Self>> {
        slf._check_bytes("resize_")?;
        let Some(wanted) = scalars::int(size)? else {
            let kind = kind_of(size);
            return Err(PyRuntimeError::new_err(format!("resize_ expects an int, but got {kind}")));
        };
        let Ok(wanted) = usize::try_from(wanted) else {
            return Err(PyRuntimeError::new_err(format!("a storage cannot have {wanted} bytes")));
        };
        if !slf.storage.is_resizable() {
            return Err(PyRuntimeError::new_err("Trying to resize storage that is not resizable"));
        }
        if wanted != slf.storage.len() {
            // SAFETY: called from Python, with the GIL.
            unsafe { slf.storage.resize(wanted) }.map_err(raise)?;
        }
        Ok(slf)
    }

    /// Whether `resize_` may change the size: not if the memory is foreign, or is exported to other objects.
    fn resizable(&self) -> bool {
        self.storage.is_resizable()
    }

    fn data_ptr(&self) -> PyResult<usize> {
        if self.storage.is_wrapper() { Err(no_pointer()) } else { Ok(self.storage.address()) }
    }

    /// Whether it is the storage of a tensor whose class handles operators.
    fn _is_wrapper(&self) -> bool {
        self.storage.is_wrapper()
    }

    /// Raises RuntimeError for the storage of a tensor whose class handles operators, which has no bytes for a function.
    fn _check_bytes(&self, function: &str) -> PyResult<()> {
        if self.storage.is_wrapper() {
            let sentence = format!("Attempted to call {function}() on an invalid python storage.");
            return Err(PyRuntimeError::new_err(sentence));
        }
        Ok(())
    }

    #[getter]
    fn device(&self) -> PyDevice {
        self.storage.device().into()
    }

    #[getter]
    fn is_cuda(&self) -> bool {
        matches!(self.storage.device(), Device::Cuda(_))
    }

    fn is_shared(&self) -> bool {
        self.is_cuda() || self.storage.is_cross_process()
    }

    /// The name of the file that is mapped and written through, or None.
    #[getter]
    fn filename(&self) -> Option<String> {
        self._written_through().map(|(_, name, _)| name)
    }

    /// For a mapped file that is written through: its descriptor, which the storage keeps, its name, and the bytes'
    /// offset.
    fn _written_through(&self) -> Option<(RawFd, String, usize)> {
        let (map, offset) = self.storage.file()?;
        let (file, name, writes) = map.file()?;
        (writes == MapMode::Shared).then(|| (file.as_raw_fd(), name.to_owned(), offset))
    }

    /// Moves the bytes to shared memory; all tensors on them follow. Memory of a CUDA device can be shared where it is.
    fn share_memory_(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        slf._check_bytes("share_memory_")?;
        share(&slf.storage)?;
        Ok(slf)
    }

    /// The bytes as a Python object, copied.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        if self.storage.is_wrapper() {
            return Err(no_pointer());
        }
        if self.storage.is_empty() {
            return Ok(PyBytes::new(py, &[]));
        }
        let here = on_host(&self.storage)?;
        let pin = here.pin().map_err(raise)?;
        PyBytes::new_with(py, pin.block().len(), |copy| {
            // SAFETY: within the pinned block; copied without forming a reference into memory that others may write.
            unsafe { std::ptr::copy_nonoverlapping(pin.as_ptr(), copy.as_mut_ptr(), copy.len()) };
            Ok(())
        })
    }

    fn clone<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self._check_bytes("copy_")?;
        let (device, bytes) = (self.storage.device(), self.storage.len());
        let copy = storage(device, bytes).map_err(raise)?;
        copy_bytes(&copy, (&self.storage, 0), bytes)?;
        wrap(py, copy)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let rebuild = py.import("rushlight._utils")?.getattr("_rebuild_storage")?;
        let content = match self.storage.device() {
            Device::Meta if !self.storage.is_wrapper() => self.storage.len().into_pyobject(py)?.into_any(),
            _ => self.tobytes(py)?.into_any(),
        };
        Ok((rebuild, (content, self.storage.device().to_string())))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyStorage>().is_ok_and(|other| self.storage.same(&other.get().storage))
    }

    fn __hash__(&self) -> usize {
        self.storage.identity()
    }

    /// # Safety
    /// Only the interpreter calls it, with a view to fill in.
    unsafe fn __getbuffer__(slf: PyRef<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let memory = Bound::new(slf.py(), Memory::of(&slf.storage)?)?;
        // SAFETY: CPython gives a valid structure, which holds the object that keeps the bytes in place.
        let status = unsafe { ffi::PyObject_GetBuffer(memory.as_ptr(), view, flags) };
        if status == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// torch's error for the address of bytes that a tensor whose class handles operators does not have.
#[cold]
fn no_pointer() -> PyErr {
    PyRuntimeError::new_err("Attempted to access the data pointer on an invalid python storage.")
}

/// Moves bytes that are private to this process to shared memory. Memory of a CUDA device can be shared where it is.
pub fn share(storage: &Storage) -> PyResult<()> {
    if let Device::Cuda(_) = storage.device() {
        return Ok(());
    }
    // A file that is written through is shared already, and writes must continue to reach it.
    // A file that is written through is shared already, and writes must continue to reach it. An emptied storage has no
    // bytes that could be shared.
    let is_emptied = storage.is_empty() && storage.pin().is_err();
    if storage.is_cross_process() || is_emptied { Ok(()) } else { shared::share(storage).map(drop).map_err(raise) }
}

type Key = (Identity, usize);

/// The storages over shared blocks in this process, so that bytes that arrive twice are one storage.
static KNOWN: ForkMutex<Option<HashMap<Key, WeakStorage>>> = ForkMutex::new(Rank::Tables, None);

/// The storages of one message.
#[pyclass(name = "_SharedBundle", module = "rushlight._C")]
struct SharedBundle(Bundle);

#[pymethods]
impl SharedBundle {
    #[new]
    fn new() -> Self {
        SharedBundle(Bundle::new())
    }

    /// Moves a storage to shared memory if necessary; returns the arena's number, the offset and the size.
    fn add(&mut self, storage: &Bound<'_, PyAny>) -> PyResult<(usize, usize, usize, usize)> {
        let storage = storage.cast::<PyStorage>().map_err(|_| PyTypeError::new_err("expected an UntypedStorage"))?;
        let storage = &storage.get().storage;
        let block = shared::share(storage).map_err(raise)?;
        remember(block.key(), storage);
        let handle = self.0.add(&block).map_err(|error| raise(error.into()))?;
        Ok((handle.arena, handle.offset, handle.bytes, storage.len().min(handle.bytes)))
    }

    /// The descriptor of an arena, which the bundle keeps.
    fn descriptor(&mut self, index: usize) -> PyResult<RawFd> {
        self.0.descriptor(index).map(|descriptor| descriptor.as_raw_fd()).map_err(|error| raise(error.into()))
    }

    fn __len__(&self) -> usize {
        self.0.arenas()
    }
}

fn remember(key: Key, storage: &Storage) {
    let mut known = KNOWN.lock();
    let known = known.get_or_insert_default();
    if known.len() > 1024 && known.len().is_power_of_two() {
        known.retain(|_, storage| storage.upgrade().is_some());
    }
    known.insert(key, storage.downgrade());
}

/// The storage that a peer sent: the existing one if it was received before.
#[pyfunction]
fn _shared_storage(
    py: Python<'_>,
    descriptor: RawFd,
    offset: usize,
    block: usize,
    nbytes: usize,
) -> PyResult<Bound<'_, PyAny>> {
    if descriptor < 0 {
        return Err(PyRuntimeError::new_err("not a handle of shared memory: no descriptor"));
    }
    // SAFETY: the caller owns the descriptor, which is open during the call; the system rejects a closed one.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let block = shared::import(borrowed, offset, block).map_err(|error| raise(error.into()))?;
    let key = block.key();
    let living = KNOWN.lock().as_ref().and_then(|known| known.get(&key)?.upgrade());
    if let Some(storage) = living.filter(Storage::is_shared) {
        return wrap(py, storage);
    }
    let storage = Storage::new(Block::shared_in_part(block, nbytes));
    remember(key, &storage);
    wrap(py, storage)
}

/// The shared memory of this process: arenas, blocks, bytes, mapped bytes.
#[pyfunction]
fn _shared_usage() -> (usize, usize, usize, usize) {
    let usage = shared::usage();
    (usage.arenas, usage.blocks, usage.bytes, usage.mapped)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    rushlight_core::storage::set_left_alone(|last| drop(DeferredDrop::new(LastStorage(last))));
    module.add_class::<PyStorage>()?;
    module.add_function(wrap_pyfunction!(_set_storage_class, module)?)?;
    module.add_class::<SharedBundle>()?;
    module.add_function(wrap_pyfunction!(_shared_storage, module)?)?;
    module.add_function(wrap_pyfunction!(_shared_usage, module)?)
}
