//! Checkpoints: `rushlight-io` for `serialization.py`. A reader and a writer of archives, and the unpickler that
//! turns the interpreter's steps into Python objects through callbacks.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyAttributeError, PyLookupError, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{IntoPyDict, PyByteArray, PyBytes, PyComplex, PyDict, PyFrozenSet, PyList, PySet, PyString, PyTuple};
use pyo3::{create_exception, exceptions};
use rushlight_core::alloc::filled;
use rushlight_core::file_map;
use rushlight_io::pickle::{Limits, Outcome, Policy, STORAGES, Step, interpret};
use rushlight_io::source::FileSource;
use rushlight_io::zip::{Archive, Writer};
use rushlight_io::{Error, Result, Source, legacy_format};

create_exception!(
    _C,
    CheckpointError,
    exceptions::PyException,
    "An invalid checkpoint: the kind of error and the name or sentence that belongs to it."
);

/// Bytes are copied out of tensors piece by piece, so that no reference into memory that others may write is formed.
const PIECE: usize = 1 << 20;

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("_CheckpointError", module.py().get_type::<CheckpointError>())?;
    module.add_class::<PyReader>()?;
    module.add_class::<PyWriter>()?;
    module.add_function(wrap_pyfunction!(unpickle, module)?)?;
    module.add_function(wrap_pyfunction!(checkpoint_knows, module)?)?;
    module.add("_CHECKPOINT_STORAGES", STORAGES.into_py_dict(module.py())?)?;
    module.add_function(wrap_pyfunction!(pickle_globals, module)?)?;
    module.add_function(wrap_pyfunction!(legacy_layout, module)?)
}

fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    let (kind, about) = match error {
        Error::Io(error) => return error.into(),
        Error::NotAnArchive | Error::NoCentralDirectory | Error::BadArchive(_) | Error::BadChecksum(_) => {
            ("archive", text)
        }
        Error::NoRecord(name) => ("missing", name),
        Error::Memory { .. } => return PyMemoryError::new_err(text),
        Error::UnexpectedEnd { .. } => ("end", text),
        Error::Global(name) => ("global", name),
        Error::Opcode(_) | Error::Pickle { .. } | Error::Limit(_) => ("pickle", text),
    };
    CheckpointError::new_err((kind, about))
}

/// A file given by its path, or its bytes.
enum Input {
    File(FileSource),
    Memory(PyBackedBytes),
}

impl Source for Input {
    fn size(&self) -> u64 {
        match self {
            Input::File(file) => file.size(),
            Input::Memory(bytes) => Source::size(&**bytes),
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        match self {
            Input::File(file) => file.read_at(offset, into),
            Input::Memory(bytes) => (**bytes).read_at(offset, into),
        }
    }
}

/// An archive that is open for reading.
#[pyclass(frozen, name = "_CheckpointReader")]
struct PyReader(Archive<Input>);

#[pymethods]
impl PyReader {
    #[new]
    fn new(py: Python<'_>, source: &Bound<'_, PyAny>) -> PyResult<Self> {
        let input = match source.cast::<PyBytes>() {
            Ok(bytes) => Input::Memory(PyBackedBytes::from(bytes.clone())),
            Err(_) => Input::File(FileSource::new(File::open(source.extract::<PathBuf>()?)?).map_err(raise)?),
        };
        Ok(PyReader(py.detach(|| Archive::open(input)).map_err(raise)?))
    }

    fn names(&self) -> Vec<&str> {
        self.0.names().collect()
    }

    fn read<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.0.read(name)).map_err(raise)?;
        copied_bytes(py, &bytes)
    }

    /// Offset and size of a record within the file.
    fn range(&self, name: &str) -> PyResult<(u64, u64)> {
        self.0.record(name).map(|record| (record.offset, record.size)).map_err(raise)
    }

    /// Fills a writable buffer, which has the record's size and is not shared yet.
    fn read_into(&self, py: Python<'_>, name: &str, buffer: PyBuffer<u8>) -> PyResult<()> {
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyTypeError::new_err("the buffer must be writable and contiguous"));
        }
        let place = ByteRange { start: buffer.buf_ptr().cast(), size: buffer.len_bytes() };
        py.detach(|| {
            // SAFETY: the buffer is held until the end of the call and belongs to a storage that was just made.
            let into = unsafe { std::slice::from_raw_parts_mut(place.start(), place.size) };
            self.0.read_into(name, into)
        })
        .map_err(raise)
    }
}

/// The bytes of a buffer that is held.
#[derive(Clone, Copy)]
struct ByteRange {
    start: *mut u8,
    size: usize,
}

impl ByteRange {
    /// A method, so that closures capture the whole value, which threads may share, and not the bare pointer.
    fn start(&self) -> *mut u8 {
        self.start
    }
}

// SAFETY: an address range; the buffer behind it outlives every use.
unsafe impl Send for ByteRange {}
// SAFETY: see above.
unsafe impl Sync for ByteRange {}

/// A copy as Python bytes, or MemoryError.
pub fn copied_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |to| {
        to.copy_from_slice(bytes);
        Ok(())
    })
}

/// The target of an archive: a descriptor, written without the GIL, or a Python object's `write`.
enum Output {
    File(File),
    Object(Py<PyAny>),
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Output::File(file) => file.write(bytes),
            Output::Object(object) => Python::attach(|py| {
                let written =
                    object.call_method1(py, "write", (copied_bytes(py, bytes)?,)).map_err(std::io::Error::from)?;
                // An unbuffered file may write less than all; other objects return nothing, or something else.
                Ok(written.extract(py).map_or(bytes.len(), |count: usize| count.min(bytes.len())))
            }),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An archive that is being written; `finish` completes it.
#[pyclass(name = "_CheckpointWriter")]
struct PyWriter(Option<Writer<Output>>);

impl PyWriter {
    fn writer(&mut self) -> PyResult<&mut Writer<Output>> {
        self.0.as_mut().ok_or_else(|| PyValueError::new_err("the archive is complete"))
    }
}

#[pymethods]
impl PyWriter {
    /// `target` is a path, or an object with `write`; payloads begin at multiples of `alignment`. Without `checksums`
    /// none are computed.
    #[new]
    fn new(target: &Bound<'_, PyAny>, folder: &str, alignment: u64, checksums: bool) -> PyResult<Self> {
        let output = if target.hasattr("write")? {
            Output::Object(target.clone().unbind())
        } else {
            Output::File(File::create(target.extract::<PathBuf>()?)?)
        };
        Ok(PyWriter(Some(Writer::new(output, folder).with_checksums(checksums).aligned(alignment).map_err(raise)?)))
    }

    fn record(&mut self, py: Python<'_>, name: &str, data: PyBuffer<u8>) -> PyResult<()> {
        if !data.is_c_contiguous() {
            return Err(PyTypeError::new_err("the buffer must be contiguous"));
        }
        let place = ByteRange { start: data.buf_ptr().cast(), size: data.len_bytes() };
        let mut piece = filled(0u8, PIECE.min(place.size)).map_err(crate::errors::raise)?;
        let truncations_before = file_map::truncations();
        let writer = self.writer()?;
        py.detach(|| {
            writer.begin(name, place.size as u64)?;
            let mut done = 0;
            while done < place.size {
                let size = PIECE.min(place.size - done);
                // SAFETY: within the buffer, which is held until the end of the call.
                unsafe { std::ptr::copy_nonoverlapping(place.start().add(done), piece.as_mut_ptr(), size) };
                writer.data(&piece[..size])?;
                done += size;
            }
            writer.end()
        })
        .map_err(raise)?;
        if file_map::truncations() != truncations_before {
            return Err(PyRuntimeError::new_err("a mapped file was changed while its tensors were written to another"));
        }
        Ok(())
    }

    /// The checksums of all records so far.
    fn checksums(&mut self) -> PyResult<Vec<u32>> {
        Ok(self.writer()?.checksums().collect())
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        let writer = self.0.take().ok_or_else(|| PyValueError::new_err("the archive is complete"))?;
        py.detach(|| writer.finish()).map_err(raise)?;
        Ok(())
    }
}

/// The Python callbacks for a pickle; the interpreter has already rejected what the policy forbids.
struct Callbacks {
    find_global: Py<PyAny>,
    load_storage: Py<PyAny>,
    set_state: Py<PyAny>,
}

/// The object of a pickle, its length in bytes and its protocol. `allowed` are names beyond the default list;
/// `find_global(module, name)`, `load_storage(class, key, location, elements, slice)` with a class from `find_global` and the name,
/// start and count of a slice or None, and `set_state(object, state)` are implemented in Python.
#[pyfunction]
#[pyo3(name = "_unpickle")]
fn unpickle<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    allowed: Vec<String>,
    find_global: Py<PyAny>,
    load_storage: Py<PyAny>,
    set_state: Py<PyAny>,
) -> PyResult<(Bound<'py, PyAny>, usize, u8)> {
    let bytes = data.as_bytes();
    let outcome = py.detach(|| interpret(bytes, &Policy::with(allowed), Limits::default())).map_err(raise)?;
    let callbacks = Callbacks { find_global, load_storage, set_state };
    Ok((build(py, &outcome, &callbacks)?, outcome.length, outcome.protocol))
}

/// Whether all checkpoints may contain this name.
#[pyfunction]
#[pyo3(name = "_checkpoint_knows")]
fn checkpoint_knows(module: &str, name: &str) -> bool {
    Policy::knows(module, name)
}

/// All globals that a pickle names and that are not on the default list.
#[pyfunction]
#[pyo3(name = "_pickle_globals")]
fn pickle_globals(py: Python<'_>, data: &Bound<'_, PyBytes>) -> PyResult<Vec<String>> {
    let bytes = data.as_bytes();
    let outcome = py.detach(|| interpret(bytes, &Policy::inspect(), Limits::default())).map_err(raise)?;
    let names = outcome.steps.iter().filter_map(|step| match step {
        Step::Global { module, name } if !Policy::knows(module, name) => Some(format!("{module}.{name}")),
        _ => None,
    });
    Ok(names.collect())
}

/// The layout of a file of the format before torch 1.6.
#[pyclass(frozen, get_all, name = "_LegacyLayout")]
struct PyLegacyLayout {
    /// The offset of the object's pickle.
    start: usize,
    /// The offset of the first storage.
    storages: usize,
    /// The keys of the storages in the order in which they follow.
    keys: Vec<String>,
    /// The class of each storage that the object uses, by its key.
    classes: HashMap<String, (String, String)>,
}

/// Builds nothing: the object's pickle is only searched for its storages.
#[pyfunction]
#[pyo3(name = "_legacy_layout")]
fn legacy_layout(py: Python<'_>, data: &Bound<'_, PyBytes>) -> PyResult<PyLegacyLayout> {
    let bytes = data.as_bytes();
    let read = py.detach(|| legacy_format::read(bytes, &Policy::inspect(), Limits::default())).map_err(raise)?;
    if !read.little_endian {
        return Err(PyRuntimeError::new_err("checkpoints of big-endian machines cannot be read"));
    }
    let classes = read.object.steps.into_iter().filter_map(|step| match step {
        Step::Storage(storage) => Some((storage.key, (storage.module, storage.class))),
        _ => None,
    });
    Ok(PyLegacyLayout { start: read.start, storages: read.storages, keys: read.keys, classes: classes.collect() })
}

/// The error of a call with invalid arguments, as an error of the pickle.
fn unfit(py: Python<'_>, opcode: &str, error: PyErr) -> PyErr {
    let fault = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyAttributeError>(py)
        || error.is_instance_of::<PyLookupError>(py);
    if !fault {
        return error;
    }
    let fault = CheckpointError::new_err(("pickle", format!("{opcode}: {error}")));
    fault.set_cause(py, Some(error));
    fault
}

/// One loop over the steps: each uses only objects that already exist.
fn build<'py>(py: Python<'py>, outcome: &Outcome, callbacks: &Callbacks) -> PyResult<Bound<'py, PyAny>> {
    let mut objects: Vec<Bound<'py, PyAny>> = Vec::new();
    for step in &outcome.steps {
        let get = |id: &u32| &objects[*id as usize];
        let all = |ids: &[u32]| ids.iter().map(|id| get(id).clone()).collect::<Vec<_>>();
        let made = match step {
            Step::None => py.None().into_bound(py),
            Step::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
            Step::Int(value) => value.into_pyobject(py)?.into_any(),
            Step::BigInt(bytes) => {
                let options = PyDict::new(py);
                options.set_item("signed", true)?;
                let int = py.get_type::<pyo3::types::PyInt>();
                int.call_method("from_bytes", (copied_bytes(py, bytes)?, "little"), Some(&options))?
            }
            Step::Float(value) => value.into_pyobject(py)?.into_any(),
            Step::Complex(real, imaginary) => PyComplex::from_doubles(py, *real, *imaginary).into_any(),
            Step::Str(text) => PyString::new(py, text).into_any(),
            Step::Bytes(bytes) => copied_bytes(py, bytes)?.into_any(),
            Step::ByteArray(bytes) => {
                let copy = |to: &mut [u8]| {
                    to.copy_from_slice(bytes);
                    Ok(())
                };
                PyByteArray::new_with(py, bytes.len(), copy)?.into_any()
            }
            Step::Tuple(items) => PyTuple::new(py, all(items))?.into_any(),
            Step::List => PyList::empty(py).into_any(),
            Step::Dict => PyDict::new(py).into_any(),
            Step::Set => PySet::empty(py)?.into_any(),
            Step::FrozenSet(items) => PyFrozenSet::new(py, all(items))?.into_any(),
            Step::Global { module, name } => callbacks.find_global.bind(py).call1((module, name))?,
            Step::Call { function, arguments } => {
                let arguments = get(arguments).cast::<PyTuple>()?;
                get(function).call1(arguments).map_err(|error| unfit(py, "REDUCE", error))?
            }
            Step::New { class, arguments } => {
                let class = get(class);
                let full = PyTuple::new(py, [class.clone()])?.add(get(arguments))?;
                let new = class.getattr("__new__")?;
                new.call1(full.cast::<PyTuple>()?).map_err(|error| unfit(py, "NEWOBJ", error))?
            }
            Step::Storage(storage) => {
                let class = callbacks.find_global.bind(py).call1((&storage.module, &storage.class))?;
                let load = callbacks.load_storage.bind(py);
                let slice = storage.slice.as_ref().map(|part| (&part.key, part.start, part.elements));
                load.call1((class, &storage.key, &storage.location, storage.elements, slice))?
            }
            Step::Append { list, items } => {
                let list = get(list).cast::<PyList>()?;
                items.iter().try_for_each(|item| list.append(get(item)))?;
                continue;
            }
            Step::SetItems { dict, items } => {
                let dict = get(dict);
                // Only dicts take items from a file: a tensor would run the code for indexing.
                if !dict.is_instance_of::<PyDict>() {
                    let what = format!("Can only SETITEM for a dict, but got {}", dict.get_type().name()?);
                    return Err(CheckpointError::new_err(("pickle", what)));
                }
                items.iter().try_for_each(|(key, value)| dict.set_item(get(key), get(value)))?;
                continue;
            }
            Step::Add { set, items } => {
                let set = get(set).cast::<PySet>()?;
                items.iter().try_for_each(|item| set.add(get(item)))?;
                continue;
            }
            Step::Build { object, state } => {
                let set_state = callbacks.set_state.bind(py);
                set_state.call1((get(object), get(state))).map_err(|error| unfit(py, "BUILD", error))?;
                continue;
            }
        };
        objects.push(made);
    }
    Ok(objects[outcome.root as usize].clone())
}
