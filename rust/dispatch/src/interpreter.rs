//! Services of the Python interpreter for the engine, as functions that are set once.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use rushlight_autograd::accumulate::is_accumulating;
use rushlight_autograd::{Tensor, TensorMeta};
use rushlight_core::Result;

/// Runs a closure with the GIL released, if this thread holds it.
pub type Detach = fn(&mut dyn FnMut());

static DETACH: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Kernels with at least this much work (elements touched) run without the GIL.
const LONG: usize = 1 << 15;

pub fn set_detach(detach: Detach) {
    DETACH.store(detach as *mut (), Ordering::Release);
}

/// Runs `work`, without the GIL if it is long and no accumulation into a gradient calls it.
#[inline]
pub fn while_detached(elements: usize, work: impl FnOnce() -> Result<()>) -> Result<()> {
    if elements < LONG || is_accumulating() {
        return work();
    }
    let detach = DETACH.load(Ordering::Acquire);
    if detach.is_null() {
        return work();
    }
    // SAFETY: only `set_detach` stores here, and it stores a `Detach`.
    let detach: Detach = unsafe { std::mem::transmute(detach) };
    let mut work = Some(work);
    let mut result = Ok(());
    detach(&mut || {
        if let Some(work) = work.take() {
            result = work();
        }
    });
    result
}

/// As [`while_detached`], for work that waits for a device: that may take long, however few elements it is for.
#[inline]
pub fn while_waiting(work: impl FnOnce() -> Result<()>) -> Result<()> {
    while_detached(LONG, work)
}

/// Waits until no other thread runs a closure with the GIL released.
pub type Wait = fn();

static WAIT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

pub fn set_wait(wait: Wait) {
    WAIT.store(wait as *mut (), Ordering::Release);
}

/// Gives a tensor another storage or geometry, once no kernel of another thread can be reading the old one.
pub fn replace_meta(tensor: &Tensor, meta: TensorMeta) {
    let wait = WAIT.load(Ordering::Acquire);
    if !wait.is_null() {
        // SAFETY: only `set_wait` stores here, and it stores a `Wait`.
        let wait: Wait = unsafe { std::mem::transmute(wait) };
        wait();
    }
    // SAFETY: every other reader of the geometry holds the GIL, which this thread has, or was just waited for; code
    // that runs without the GIL replaces no geometry.
    unsafe { tensor.set_meta(meta) };
}

/// The kind of a warning, which decides its class in Python.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// A general warning.
    General,
    /// A reduction over all dimensions because the call named none. Calls from the engine's own Python files are not
    /// reported.
    AmbiguousReduction,
}

/// Issues a warning in Python; an error if warnings are errors there.
pub type Warn = fn(&str, Warning) -> Result<()>;

static WARN: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

pub fn set_warn(warn: Warn) {
    WARN.store(warn as *mut (), Ordering::Release);
}

/// Warns at the user's line.
pub fn warn(message: &str) -> Result<()> {
    warn_of(message, Warning::General)
}

/// Whether warnings that appear once per process appear each time, as set by `torch.set_warn_always`.
static ALWAYS: AtomicBool = AtomicBool::new(false);

pub fn set_warn_always(always: bool) {
    ALWAYS.store(always, Ordering::Relaxed);
}

pub fn warns_always() -> bool {
    ALWAYS.load(Ordering::Relaxed)
}

/// Warns at the user's line unless `warned` is already set; see `warn_once!`.
#[cold]
pub fn warn_first_time(warned: &AtomicBool, message: &str) -> Result<()> {
    if warned.swap(true, Ordering::Relaxed) && !warns_always() {
        return Ok(());
    }
    warn(message)
}

/// Warns at the user's line, once per process for each position in the source.
#[macro_export]
macro_rules! warn_once {
    ($message:expr $(,)?) => {{
        static WARNED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        $crate::interpreter::warn_first_time(&WARNED, $message)
    }};
}

/// Warns at the user's line with a given kind.
#[cold]
pub fn warn_of(message: &str, about: Warning) -> Result<()> {
    let warn = WARN.load(Ordering::Acquire);
    if warn.is_null() {
        return Ok(());
    }
    // SAFETY: only `set_warn` stores here, and it stores a `Warn`.
    let warn: Warn = unsafe { std::mem::transmute(warn) };
    warn(message, about)
}
