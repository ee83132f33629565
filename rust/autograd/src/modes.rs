//! Switches: whether operators record (per thread), inference mode (per thread), anomaly detection (for the process).

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What holds on a thread. Both switches stand in one place, because each look at a thread's own variables is a call.
#[derive(Clone, Copy)]
pub struct Modes {
    pub grad: bool,
    pub inference: bool,
}

thread_local! {
    static MODES: Cell<Modes> = const { Cell::new(Modes { grad: true, inference: false }) };
}

#[inline]
pub fn current() -> Modes {
    MODES.get()
}

static ANOMALY: AtomicBool = AtomicBool::new(false);
static CHECK_NAN: AtomicBool = AtomicBool::new(true);

#[inline]
pub fn grad_enabled() -> bool {
    current().grad
}

/// Sets the mode of this thread and returns the old one.
#[inline]
pub fn set_grad_enabled(enabled: bool) -> bool {
    MODES.replace(Modes { grad: enabled, ..current() }).grad
}

#[inline]
pub fn inference_enabled() -> bool {
    current().inference
}

pub fn set_inference_enabled(enabled: bool) -> bool {
    MODES.replace(Modes { inference: enabled, ..current() }).inference
}

/// Recording on or off until the guard is dropped.
pub struct GradMode {
    before: bool,
    _this_thread: PhantomData<*const ()>,
}

impl GradMode {
    pub fn new(enabled: bool) -> Self {
        GradMode { before: set_grad_enabled(enabled), _this_thread: PhantomData }
    }
}

impl Drop for GradMode {
    fn drop(&mut self) {
        set_grad_enabled(self.before);
    }
}

/// Inference mode, which records nothing and counts no versions, until the guard is dropped.
pub struct InferenceMode {
    before: bool,
    _grad: GradMode,
}

impl InferenceMode {
    /// Entering records nothing; leaving (`false`) within an outer inference mode records again.
    pub fn new(enabled: bool) -> Self {
        InferenceMode { before: set_inference_enabled(enabled), _grad: GradMode::new(!enabled) }
    }
}

impl Drop for InferenceMode {
    fn drop(&mut self) {
        set_inference_enabled(self.before);
    }
}

pub fn anomaly_enabled() -> bool {
    ANOMALY.load(Relaxed)
}

/// Whether anomaly detection also looks for NaN in every gradient.
pub fn anomaly_checks_nan() -> bool {
    CHECK_NAN.load(Relaxed)
}

pub fn set_anomaly(enabled: bool, check_nan: bool) {
    ANOMALY.store(enabled, Relaxed);
    CHECK_NAN.store(check_nan, Relaxed);
}
