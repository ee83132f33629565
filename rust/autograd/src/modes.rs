//! Switches: whether operators record, for gradients or for tangents (per thread), inference mode (per thread), anomaly
//! detection (for the process).

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What holds on a thread. The switches stand in one place, because each look at a thread's own variables is a call.
#[derive(Clone, Copy)]
pub struct Modes {
    pub grad: bool,
    pub inference: bool,
    /// Whether a tangent may be asked for: then calls are recorded where gradients are not, for tangents alone.
    pub tangents: bool,
    /// Whether what was recorded for tangents alone is seen: by walks, and by who asks what requires a gradient.
    pub shown: bool,
}

impl Modes {
    #[inline]
    pub fn recording(self) -> bool {
        self.grad || self.tangents && !self.inference
    }
}

thread_local! {
    static MODES: Cell<Modes> =
        const { Cell::new(Modes { grad: true, inference: false, tangents: false, shown: false }) };
}

/// Whether any thread ever asked for tangents: until then nothing is recorded for them alone.
static TANGENTS_EVER: AtomicBool = AtomicBool::new(false);

#[inline]
pub fn current() -> Modes {
    MODES.get()
}

#[inline]
pub(crate) fn tangents_ever() -> bool {
    TANGENTS_EVER.load(Relaxed)
}

/// Whether calls leave nodes behind: for gradients, or where those are switched off for tangents.
#[inline]
pub fn recording() -> bool {
    current().recording()
}

/// Sets whether tangents may be asked for on this thread and returns the old state.
pub fn set_tangents_enabled(enabled: bool) -> bool {
    if enabled {
        TANGENTS_EVER.store(true, Relaxed);
    }
    MODES.replace(Modes { tangents: enabled, ..current() }).tangents
}

/// Sets whether this thread sees what was recorded for tangents alone and returns the old state.
pub fn set_tangents_shown(shown: bool) -> bool {
    MODES.replace(Modes { shown, ..current() }).shown
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

/// Recording on or off until the guard is dropped: for gradients, and off for tangents too.
pub struct GradMode {
    before: Modes,
    _this_thread: PhantomData<*const ()>,
}

impl GradMode {
    pub fn new(enabled: bool) -> Self {
        let now = current();
        GradMode::of(Modes { grad: enabled, tangents: enabled && now.tangents, ..now })
    }

    /// In a walk that is itself to be recorded or not. Tangents pass through it in either case.
    pub(crate) fn of_walk(create_graph: bool) -> Self {
        GradMode::of(Modes { grad: create_graph, ..current() })
    }

    /// What is recorded is for tangents alone.
    pub(crate) fn tangents_alone() -> Self {
        GradMode::of(Modes { grad: false, tangents: true, ..current() })
    }

    fn of(modes: Modes) -> Self {
        GradMode { before: MODES.replace(modes), _this_thread: PhantomData }
    }
}

impl Drop for GradMode {
    fn drop(&mut self) {
        let Modes { grad, tangents, .. } = self.before;
        MODES.set(Modes { grad, tangents, ..current() });
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
