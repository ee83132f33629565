//! The user's line: a code object's number and an instruction's offset, taken in nanoseconds, read only for messages.
//!
//! Code objects that were seen are kept in a table for ever (they are few, and bounded), so that an origin may outlive
//! its function. Reading the line itself would cost microseconds, so it waits until somebody asks.
//!
//! Lines of this package tell a user nothing (`linear.py` does not say which layer), so they are left for their callers'.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use rushlight_autograd::Origin;
use rushlight_core::fork::{ForkMutex, Rank};

use crate::attach;

/// More code objects than this have no number, and their lines stay unknown.
const BOUND: usize = 1 << 16;

#[derive(Default)]
struct Codes {
    numbers: HashMap<usize, u32>,
    /// The code objects, by number less one; each is owned.
    objects: Vec<usize>,
}

static CODES: ForkMutex<Option<Codes>> = ForkMutex::new(Rank::Tables, None);

type Lasti = unsafe extern "C" fn(*mut ffi::PyFrameObject) -> std::ffi::c_int;
/// `PyFrame_GetLasti`, half the price of reading `f_lasti`; the stable ABI leaves it out, so it may be missing.
static LASTI: OnceLock<Option<Lasti>> = OnceLock::new();
type Back = unsafe extern "C" fn(*mut ffi::PyFrameObject) -> *mut ffi::PyFrameObject;
/// `PyFrame_GetBack`, which the stable ABI leaves out too.
static BACK: OnceLock<Option<Back>> = OnceLock::new();

/// Where the files of this package lie, with a separator behind it.
static HOME: OnceLock<String> = OnceLock::new();
/// The bit of a code object's number that says that its file is one of these.
const INSIDE: u32 = 1 << 31;
/// So many callers are looked at.
const CALLERS: usize = 32;

/// A power of two.
const SEEN: usize = 64;

thread_local! {
    /// Code objects seen lately and their numbers, each at a place that its address names: loops run in few functions.
    static LATELY: [Cell<(usize, u32)>; SEEN] = const { [const { Cell::new((0, 0)) }; SEEN] };
}

/// Finds the package's own files; before, every line counts as the user's.
pub fn find_home(py: Python<'_>) -> PyResult<()> {
    let package = py.import("sys")?.getattr("modules")?.get_item("rushlight")?;
    let path: String = package.getattr("__path__")?.get_item(0)?.extract()?;
    let _ = HOME.set(path + std::path::MAIN_SEPARATOR_STR);
    Ok(())
}

/// Where the user's program stands on this thread; nothing where the thread is detached.
pub fn here() -> Origin {
    if attach::is_detached() {
        return Origin::default();
    }
    // SAFETY: the thread is attached; the frame is borrowed from the running interpreter.
    unsafe {
        let frame = ffi::PyEval_GetFrame();
        if frame.is_null() {
            return Origin::default();
        }
        let py = Python::assume_attached();
        let code = code_of(frame);
        if code & INSIDE == 0 {
            return Origin { code, offset: offset_of(py, frame) };
        }
        caller(py, frame).unwrap_or_else(|| Origin { code: code & !INSIDE, offset: offset_of(py, frame) })
    }
}

/// The nearest caller outside of this package.
///
/// # Safety
/// A living frame, on a thread that is attached.
unsafe fn caller(py: Python<'_>, frame: *mut ffi::PyFrameObject) -> Option<Origin> {
    // SAFETY: by the caller's word; every frame but the first is owned here while it is looked at.
    unsafe {
        let mut owned: Option<Bound<'_, PyAny>> = None;
        for _ in 0..CALLERS {
            let frame = owned.as_ref().map_or(frame, |frame| frame.as_ptr().cast());
            let back = back_of(py, frame)?;
            let next = back.as_ptr().cast();
            let code = code_of(next);
            if code & INSIDE == 0 {
                return Some(Origin { code, offset: offset_of(py, next) });
            }
            owned = Some(back);
        }
        None
    }
}

/// The number of a frame's code object.
///
/// # Safety
/// A living frame.
unsafe fn code_of(frame: *mut ffi::PyFrameObject) -> u32 {
    // SAFETY: by the caller's word.
    unsafe {
        let code = ffi::PyFrame_GetCode(frame).cast::<ffi::PyObject>();
        let number = number_of(code);
        ffi::Py_DecRef(code);
        number
    }
}

/// The frame that called a frame.
///
/// # Safety
/// A living frame.
unsafe fn back_of(py: Python<'_>, frame: *mut ffi::PyFrameObject) -> Option<Bound<'_, PyAny>> {
    // SAFETY: by the caller's word; the symbol has had this type since it appeared.
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

/// The offset of the instruction that a frame is at.
///
/// # Safety
/// A living frame.
unsafe fn offset_of(py: Python<'_>, frame: *mut ffi::PyFrameObject) -> u32 {
    // SAFETY: by the caller's word; the symbol has had this type since it appeared.
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

/// The number of a code object, which enters the table when it is first seen.
///
/// # Safety
/// `code` is a living code object.
unsafe fn number_of(code: *mut ffi::PyObject) -> u32 {
    let key = code as usize;
    let slot = (key >> 4) % SEEN;
    let (last, number) = LATELY.with(|lately| lately[slot].get());
    if last == key {
        return number;
    }
    let mut codes = CODES.lock();
    let codes = codes.get_or_insert_default();
    let number = match codes.numbers.get(&key) {
        Some(number) => *number,
        None if codes.objects.len() < BOUND => {
            // SAFETY: a living code object; the table owns it from here on.
            unsafe { ffi::Py_IncRef(code) };
            codes.objects.push(key);
            // SAFETY: a living code object.
            let inside = if unsafe { is_inside(code) } { INSIDE } else { 0 };
            let number = codes.objects.len() as u32 | inside;
            codes.numbers.insert(key, number);
            number
        }
        None => return 0,
    };
    LATELY.with(|lately| lately[slot].set((key, number)));
    number
}

/// Whether a code object is this package's.
///
/// # Safety
/// `code` is a living code object, and the thread is attached.
unsafe fn is_inside(code: *mut ffi::PyObject) -> bool {
    // SAFETY: by the caller's word.
    let code = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), code) };
    let Ok(file) = code.getattr(pyo3::intern!(code.py(), "co_filename")) else { return false };
    let Ok(file) = file.extract::<String>() else { return false };
    HOME.get().is_some_and(|home| file.starts_with(home.as_str()))
}

/// File, line, function and the line's text.
pub fn describe(origin: Origin) -> Option<String> {
    let code = {
        let codes = CODES.lock();
        *codes.as_ref()?.objects.get((origin.code as usize).checked_sub(1)?)?
    };
    Python::attach(|py| {
        // SAFETY: the table owns the code object.
        let code = unsafe { Bound::from_borrowed_ptr(py, code as *mut ffi::PyObject) };
        read(&code, origin.offset).ok()
    })
}

/// The lines that run on this thread, as Python shows them below an exception.
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
