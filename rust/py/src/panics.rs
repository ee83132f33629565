//! What becomes of a panic, which is a mistake in the engine: a `RuntimeError` at the line of the Python program. A backtrace of the
//! thread that panicked goes to standard error. The exception and the backtrace have the same id, because the thread may be
//! another one than the caller's, and its output far from the exception in a log.

use std::backtrace::Backtrace;
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyTuple};

/// How many panics this process has seen, which is the number of the last one. Two threads that panic at the same time may both
/// report the later number; both backtraces are there.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// What precedes the id in the text of the exception.
const MARK: &str = "backtrace id";

fn id(number: u64) -> String {
    format!("{}-{number}", std::process::id())
}

/// Writes the backtrace. An error of writing is ignored: a panic within this function would end the process.
fn report(info: &PanicHookInfo<'_>) {
    let id = id(COUNT.fetch_add(1, Ordering::Relaxed) + 1);
    let text = format!("rushlight: internal error, {MARK} {id}: {info}\n{}\n", Backtrace::force_capture());
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Initialises an exception of a panic: adds the id to its text, except if the exception has passed through the engine and has an
/// id already.
#[pyfunction]
fn _note_panic(exception: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let text = args.iter().next().map(|text| text.to_string()).unwrap_or_default();
    if text.contains(MARK) {
        return Ok(());
    }
    let id = id(COUNT.load(Ordering::Relaxed));
    let text = format!(
        "{text}\n  This is a mistake in rushlight's engine. Standard error has where it happened, with {MARK} {id}; please report both."
    );
    exception.setattr("args", (text,))
}

/// Installs the hook, and makes PyO3's exception of a panic a `RuntimeError`: by itself it derives from `BaseException`, so that
/// `except Exception` in a training loop would not catch it.
pub fn install(py: Python<'_>) -> PyResult<()> {
    std::panic::set_hook(Box::new(report));
    let class = py.get_type::<pyo3::panic::PanicException>();
    class.setattr("__bases__", PyTuple::new(py, [py.get_type::<PyRuntimeError>()])?)?;
    // A function of Python, because one of the engine would not get the exception when it is called as a method.
    let names = [("note", wrap_pyfunction!(_note_panic, py)?)].into_py_dict(py)?;
    class.setattr("__init__", py.eval(c"lambda self, *args: note(self, args)", Some(&names), None)?)
}
