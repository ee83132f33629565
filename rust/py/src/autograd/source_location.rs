//! The user's line of a call: a code object's number and an instruction's offset, recorded in nanoseconds and decoded
//! only for messages.
//!
//! Code objects are kept in a table once they were seen (they are few, and bounded), so that a source location may
//! outlive its function. Looking up the line costs microseconds, so it is done only when needed.
//!
//! Lines of this package do not help users (`linear.py` does not tell which layer), so those of its callers are used
//! instead.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use rushlight_autograd::SourceLocation;
use rushlight_autograd::accumulate::is_accumulating;
use rushlight_core::fork::{self, ForkMutex, Rank};

use crate::attach;

/// When the table is full, further code objects have no number, and their lines stay unknown.
const MAX_CODES: usize = 1 << 16;

#[derive(Default)]
struct Codes {
    numbers: HashMap<usize, u32>,
    /// The code objects, by number minus one; each is owned.
    objects: Vec<usize>,
}

static CODES: ForkMutex<Option<Codes>> = ForkMutex::new(Rank::Tables, None);

type Lasti = unsafe extern "C" fn(*mut ffi::PyFrameObject) -> std::ffi::c_int;
/// `PyFrame_GetLasti`, which takes half the time of reading `f_lasti`; it is not in the stable ABI, so it may be
/// missing.
static LASTI: OnceLock<Option<Lasti>> = OnceLock::new();
type Back = unsafe extern "C" fn(*mut ffi::PyFrameObject) -> *mut ffi::PyFrameObject;
/// `PyFrame_GetBack`, which is not in the stable ABI either.
static BACK: OnceLock<Option<Back>> = OnceLock::new();

/// The folder of this package's files, with a trailing separator.
static PACKAGE_DIR: OnceLock<String> = OnceLock::new();
/// The bit of a code object's number that marks this package's files.
const INSIDE: u32 = 1 << 31;
/// The maximum number of frames that are searched.
const CALLERS: usize = 32;

/// A power of two.
const SEEN: usize = 64;

thread_local! {
    /// A cache of recently seen code objects and their numbers, indexed by address: loops run in few functions.
    static RECENT: [Cell<(usize, u32)>; SEEN] = const { [const { Cell::new((0, 0)) }; SEEN] };
}

/// Finds the package's folder; before that, every line counts as the user's.
pub fn find_package_dir(py: Python<'_>) -> PyResult<()> {
    let package = py.import("sys")?.getattr("modules")?.get_item("rushlight")?;
    let path: String = package.getattr("__path__")?.get_item(0)?.extract()?;
    let _ = PACKAGE_DIR.set(path + std::path::MAIN_SEPARATOR_STR);
    Ok(())
}

/// The current location of the user's program on this thread; empty if the thread is detached, or holds a lock of an
/// accumulation: looking at frames may collect garbage, which runs Python code.
pub fn here() -> SourceLocation {
    if crate::without_gil::is_detached() || is_accumulating() {
        return SourceLocation::default();
    }
    // SAFETY: the thread is attached; the frame is borrowed from the running interpreter.
    unsafe {
        let frame = ffi::PyEval_GetFrame();
        if frame.is_null() {
            return SourceLocation::default();
        }
        let py = Python::assume_attached();
        let code = code_of(frame);
        if code & INSIDE == 0 {
            return SourceLocation { code, offset: offset_of(py, frame) };
        }
        caller(py, frame).unwrap_or_else(|| SourceLocation { code: code & !INSIDE, offset: offset_of(py, frame) })
    }
}

/// The nearest caller outside of this package.
///
/// # Safety
/// `frame` is a living frame, on a thread that holds the GIL.
unsafe fn caller(py: Python<'_>, frame: *mut ffi::PyFrameObject) -> Option<SourceLocation> {
    // SAFETY: guaranteed by the caller (see `# Safety`); every frame but the first is owned here while it is used.
    unsafe {
        let mut owned: Option<Bound<'_, PyAny>> = None;
        for _ in 0..CALLERS {
            let frame = owned.as_ref().map_or(frame, |frame| frame.as_ptr().cast());
            let back = back_of(py, frame)?;
            let next = back.as_ptr().cast();
            let code = code_of(next);
            if code & INSIDE == 0 {
                return Some(SourceLocation { code, offset: offset_of(py, next) });
            }
            owned = Some(back);
        }
        None
    }
}

/// The number of a frame's code object.
///
/// # Safety
/// `frame` is a living frame.
unsafe fn code_of(frame: *mut ffi::PyFrameObject) -> u32 {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        let code = ffi::PyFrame_GetCode(frame).cast::<ffi::PyObject>();
        let number = number_of(code);
        ffi::Py_DecRef(code);
        number
    }
}

/// The caller of a frame.
///
/// # Safety
/// `frame` is a living frame.
unsafe fn back_of(py: Python<'_>, frame: *mut ffi::PyFrameObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: guaranteed by the caller (see `# Safety`); the symbol has had this type since it appeared.
    unsafe {
        let back = BACK.get_or_init(|| {
            let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"PyFrame_GetBack".as_ptr());
            std::mem::transmute::<*mut std::ffi::c_void, Option<Back>>(symbol)
        });
        let caller = match back {
            Some(back) => back(frame).cast(),
            None => ffi::PyObject_GetAttr(frame.cast(), pyo3::intern!(py, "f_back").as_ptr()),
        };
        let caller = Bound::from_owned_ptr_or_opt(py, caller);
        if caller.is_none() {
            ffi::PyErr_Clear();
        }
        caller.filter(|caller| !caller.is_none())
    }
}

/// The offset of a frame's current instruction.
///
/// # Safety
/// `frame` is a living frame.
unsafe fn offset_of(py: Python<'_>, frame: *mut ffi::PyFrameObject) -> u32 {
    // SAFETY: guaranteed by the caller (see `# Safety`); the symbol has had this type since it appeared.
    unsafe {
        if let Some(last) = LASTI.get_or_init(|| {
            let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"PyFrame_GetLasti".as_ptr());
            std::mem::transmute::<*mut std::ffi::c_void, Option<Lasti>>(symbol)
        }) {
            return last(frame).max(0) as u32;
        }
        let name = pyo3::intern!(py, "f_lasti");
        let offset = Bound::from_owned_ptr_or_opt(py, ffi::PyObject_GetAttr(frame.cast(), name.as_ptr()));
        let Some(offset) = offset else {
            ffi::PyErr_Clear();
            return 0;
        };
        ffi::PyLong_AsLong(offset.as_ptr()).max(0) as u32
    }
}

/// The number of a code object, which is added to the table when it is first seen.
///
/// # Safety
/// `code` is a living code object.
unsafe fn number_of(code: *mut ffi::PyObject) -> u32 {
    let key = code as usize;
    let slot = (key >> 4) % SEEN;
    let (last, number) = RECENT.with(|lately| lately[slot].get());
    if last == key {
        return number;
    }
    fork::assert_no_lock_held();
    let known = CODES.lock().as_ref().and_then(|codes| codes.numbers.get(&key).copied());
    // Reading the file's name may release the GIL, so no lock is held meanwhile.
    // SAFETY: a living code object.
    let number = known.unwrap_or_else(|| unsafe { add(code, is_inside(code)) });
    if number == 0 {
        return 0;
    }
    RECENT.with(|lately| lately[slot].set((key, number)));
    number
}

/// Adds a code object to the table, unless another thread did meanwhile; returns its number, or 0 if the table is full.
///
/// # Safety
/// `code` is a living code object, and the thread holds the GIL.
unsafe fn add(code: *mut ffi::PyObject, inside: bool) -> u32 {
    let key = code as usize;
    let mut codes = CODES.lock();
    let codes = codes.get_or_insert_default();
    if let Some(number) = codes.numbers.get(&key) {
        return *number;
    }
    if codes.objects.len() >= MAX_CODES {
        return 0;
    }
    // SAFETY: a living code object; the table owns it from here on.
    unsafe { ffi::Py_IncRef(code) };
    codes.objects.push(key);
    let number = codes.objects.len() as u32 | if inside { INSIDE } else { 0 };
    codes.numbers.insert(key, number);
    number
}

/// Whether a code object belongs to this package.
///
/// # Safety
/// `code` is a living code object, and the thread holds the GIL.
unsafe fn is_inside(code: *mut ffi::PyObject) -> bool {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    let code = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), code) };
    let Ok(file) = code.getattr(pyo3::intern!(code.py(), "co_filename")) else { return false };
    let Ok(file) = file.extract::<String>() else { return false };
    PACKAGE_DIR.get().is_some_and(|home| file.starts_with(home.as_str()))
}

/// File, line, function and the line's text.
pub fn describe(source_location: SourceLocation) -> Option<String> {
    let code = {
        let codes = CODES.lock();
        *codes.as_ref()?.objects.get((source_location.code as usize).checked_sub(1)?)?
    };
    attach::attached(|py| {
        // SAFETY: the table owns the code object.
        let code = unsafe { Bound::from_borrowed_ptr(py, code as *mut ffi::PyObject) };
        read(&code, source_location.offset).ok()
    })
}

/// The name of a parameter among all modules.
pub fn parameter(tensor: &rushlight::Tensor) -> Option<String> {
    attach::attached(|py| {
        let object = crate::object::wrap_bound(py, tensor.clone())?;
        py.import("rushlight._error_names")?.getattr("parameter")?.call1((object,))?.extract()
    })
    .unwrap_or(None)
}

/// The stack of this thread, in the format of Python's tracebacks.
pub fn trace() -> Option<String> {
    attach::attached(|py| {
        let lines = py.import("traceback")?.call_method0("format_stack")?;
        lines.extract::<Vec<String>>().map(|lines| lines.concat())
    })
    .ok()
}

fn read(code: &Bound<'_, PyAny>, offset: u32) -> PyResult<String> {
    let mut line: u32 = code.getattr("co_firstlineno")?.extract()?;
    for entry in code.call_method0("co_lines")?.try_iter()? {
        let (start, end, at): (u32, u32, Option<u32>) = entry?.extract()?;
        if (start..end).contains(&offset)
            && let Some(at) = at
        {
            line = at;
        }
    }
    let file: String = code.getattr("co_filename")?.extract()?;
    let function: String = code.getattr("co_name")?.extract()?;
    let text: String = code.py().import("linecache")?.call_method1("getline", (&file, line))?.extract()?;
    let text = text.trim();
    let quoted = if text.is_empty() { String::new() } else { format!(": {text}") };
    Ok(format!("{file}:{line}, in {function}{quoted}"))
}
