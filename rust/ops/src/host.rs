//! What the engine asks of the interpreter that it is embedded in, through functions set once.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use rushlight_autograd::{Meta, Tensor};
use rushlight_core::Result;

/// Runs a closure while the interpreter's lock is released, if this thread holds it.
pub type Detach = fn(&mut dyn FnMut());

static DETACH: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// From this much work (elements touched) on, a kernel runs without the interpreter's lock.
const LONG: usize = 1 << 15;

pub fn set_detach(detach: Detach) {
    DETACH.store(detach as *mut (), Ordering::Release);
}

/// Runs `work`, without the interpreter's lock where it is long.
#[inline]
pub fn while_detached(elements: usize, work: impl FnOnce() -> Result<()>) -> Result<()> {
    if elements < LONG {
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

/// Waits until no other thread runs a closure with the interpreter's lock released.
pub type Wait = fn();

static WAIT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

pub fn set_wait(wait: Wait) {
    WAIT.store(wait as *mut (), Ordering::Release);
}

/// Gives a tensor another storage or geometry, once no kernel of another thread can be reading the old one.
pub fn replace_meta(tensor: &Tensor, meta: Meta) {
    let wait = WAIT.load(Ordering::Acquire);
    if !wait.is_null() {
        // SAFETY: only `set_wait` stores here, and it stores a `Wait`.
        let wait: Wait = unsafe { std::mem::transmute(wait) };
        wait();
    }
    // SAFETY: whoever else reads geometry holds the interpreter's lock, which is ours, or has just been waited for; what
    // runs without the lock itself replaces no geometry.
    unsafe { tensor.set_meta(meta) };
}

/// What a warning is about, and so its class in Python.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// Anything that a user should know.
    General,
    /// A call that took all dimensions because it named none. What the Python files of the engine leave out is not said.
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

/// Whether what is told once in a process is told each time, as `torch.set_warn_always` asks.
static ALWAYS: AtomicBool = AtomicBool::new(false);

pub fn set_warn_always(always: bool) {
    ALWAYS.store(always, Ordering::Relaxed);
}

pub fn warns_always() -> bool {
    ALWAYS.load(Ordering::Relaxed)
}

/// Warns at the user's line of what `told` remembers, unless it has been told before; see `warn_once!`.
#[cold]
pub fn warn_unless_told(told: &AtomicBool, message: &str) -> Result<()> {
    if told.swap(true, Ordering::Relaxed) && !warns_always() {
        return Ok(());
    }
    warn(message)
}

/// Warns at the user's line, from each place in the source once in a process.
#[macro_export]
macro_rules! warn_once {
    ($message:expr $(,)?) => {{
        static TOLD: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        $crate::host::warn_unless_told(&TOLD, $message)
    }};
}

/// Warns at the user's line of something that has a class of its own.
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
