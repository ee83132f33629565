//! Switches: whether operators are recorded, for gradients or for tangents (per thread), inference mode (per thread),
//! anomaly detection (for the process).

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The modes of a thread. They share one variable, because each access to a thread-local variable is a call.
#[derive(Clone, Copy)]
pub struct Modes {
    pub grad: bool,
    pub inference: bool,
    /// Whether a tangent may be requested: then calls without gradients are recorded too, for tangents only.
    pub tangents: bool,
    /// Whether records for tangents only are visible, to backward passes and to `requires_grad`.
    pub tangents_visible: bool,
    /// Whether this thread runs a handler: its own calls are not recorded, only the call that it handles.
    pub below: bool,
    /// How many functions that transforms (`func.grad`) differentiate are running, one inside the other.
    pub transforms: u8,
}

impl Modes {
    #[inline]
    pub fn recording(self) -> bool {
        !self.below && (self.grad || self.tangents && !self.inference)
    }
}

thread_local! {
    static MODES: Cell<Modes> =
        const {
            Cell::new(Modes {
                grad: true,
                inference: false,
                tangents: false,
                tangents_visible: false,
                below: false,
                transforms: 0,
            })
        };
}

/// Whether any thread ever enabled tangents: until then nothing is recorded for them.
static TANGENTS_USED: AtomicBool = AtomicBool::new(false);

#[inline]
pub fn current() -> Modes {
    MODES.get()
}

#[inline]
pub(crate) fn tangents_used() -> bool {
    TANGENTS_USED.load(Relaxed)
}

/// Sets the modes of this thread to those of another one, for which it works.
pub fn adopt(modes: Modes) {
    MODES.set(modes);
}

/// Whether calls are recorded: for gradients, or for tangents if gradients are disabled.
#[inline]
pub fn recording() -> bool {
    current().recording()
}

/// Sets whether tangents may be requested on this thread and returns the old state.
pub fn set_tangents_enabled(enabled: bool) -> bool {
    if enabled {
        TANGENTS_USED.store(true, Relaxed);
    }
    MODES.replace(Modes { tangents: enabled, ..current() }).tangents
}

/// Sets whether records for tangents only are visible to this thread and returns the old state.
pub fn set_tangents_visible(tangents_visible: bool) -> bool {
    MODES.replace(Modes { tangents_visible, ..current() }).tangents_visible
}

/// Begins the function of a transform on this thread, or ends it; returns how many were running.
pub fn set_transforms(running: u8) -> u8 {
    MODES.replace(Modes { transforms: running, ..current() }).transforms
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

/// Enables or disables recording for gradients until the guard is dropped. Disabling it also disables recording for
/// tangents.
pub struct GradMode {
    before: Modes,
    _this_thread: PhantomData<*const ()>,
}

impl GradMode {
    pub fn new(enabled: bool) -> Self {
        let now = current();
        GradMode::of(Modes { grad: enabled, tangents: enabled && now.tangents, ..now })
    }

    /// The mode of a backward pass, which is itself recorded if `create_graph`. Tangents are recorded in either case.
    pub(crate) fn for_backward(create_graph: bool) -> Self {
        GradMode::of(Modes { grad: create_graph, ..current() })
    }

    /// Records for tangents only.
    pub(crate) fn tangents_only() -> Self {
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

/// Records nothing until the guard is dropped.
pub struct NoGradGuard(#[expect(dead_code, reason = "it acts when it is dropped")] GradMode);

impl NoGradGuard {
    #[expect(clippy::new_without_default, reason = "a default that ends at once would do nothing")]
    pub fn new() -> Self {
        NoGradGuard(GradMode::new(false))
    }
}

/// Records nothing until the guard is dropped, although gradients remain enabled for code that asks.
pub struct BelowAutograd {
    before: bool,
    _this_thread: PhantomData<*const ()>,
}

impl BelowAutograd {
    pub fn begin() -> Self {
        let before = MODES.replace(Modes { below: true, ..current() }).below;
        BelowAutograd { before, _this_thread: PhantomData }
    }
}

impl Drop for BelowAutograd {
    fn drop(&mut self) {
        MODES.set(Modes { below: self.before, ..current() });
    }
}

/// Records calls until the guard is dropped, wherever it begins: for a call that differentiates others itself.
pub struct Recording {
    before: Modes,
    _this_thread: PhantomData<*const ()>,
}

impl Recording {
    pub fn begin() -> Self {
        let modes = Modes { grad: true, below: false, inference: false, ..current() };
        Recording { before: MODES.replace(modes), _this_thread: PhantomData }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        MODES.set(self.before);
    }
}

/// Inference mode, which records nothing and counts no versions, until the guard is dropped.
pub struct InferenceMode {
    before: bool,
    _grad: GradMode,
}

impl InferenceMode {
    /// `true` disables recording; `false` within an outer inference mode enables it again.
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

/// Whether anomaly detection also checks every gradient for NaN.
pub fn anomaly_checks_nan() -> bool {
    CHECK_NAN.load(Relaxed)
}

pub fn set_anomaly(enabled: bool, check_nan: bool) {
    ANOMALY.store(enabled, Relaxed);
    CHECK_NAN.store(check_nan, Relaxed);
}
