//! Modes of `__torch_dispatch__` in a backward pass: they handle the operators that derivatives call.
//!
//! Calls from Python reach a mode before they reach the engine. A derivative calls operators in the engine, so that the engine
//! asks for a handler here. Composite operators are not asked for, but their parts.

use std::cell::Cell;
use std::sync::OnceLock;

use rushlight_autograd::accumulate::is_accumulating;
use rushlight_autograd::{Gradients, Tensor};
use rushlight_core::Result;

use crate::interceptors::{Modes, Rest};
use crate::operator::{Args, BackwardContext, Implementation};
use crate::value::{Arg, Output, Target};

/// What handles calls, for threads that have a mode.
pub trait Handler: Send + Sync {
    /// The results of a call.
    fn call(&self, args: &Args, in_place: bool) -> Result<Vec<Tensor>>;

    /// The gradients of the inputs of a call, if torch computes all of them by one operator.
    fn gradients(&self, derive: &BackwardContext) -> Result<Option<Gradients>>;
}

static HANDLER: OnceLock<Box<dyn Handler>> = OnceLock::new();

thread_local! {
    /// Whether this thread has a mode.
    static HAS_MODE: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread runs a derivative, and no Python code inside of it.
    static DERIVES: Cell<bool> = const { Cell::new(false) };
}

/// Sets the handler, once.
pub fn install(handler: Box<dyn Handler>) {
    let _ = HANDLER.set(handler);
}

/// Says whether this thread has a mode from now on.
pub fn set_mode(has_mode: bool) {
    match (HAS_MODE.replace(has_mode), has_mode) {
        (false, true) => Modes::PYTHON.enter(),
        (true, false) => Modes::PYTHON.leave(1),
        _ => {}
    }
}

/// Runs a derivative, or a sum of gradients.
#[inline]
pub fn derive<T>(work: impl FnOnce() -> T) -> T {
    if HAS_MODE.get() { while_deriving(true, work) } else { work() }
}

#[cold]
fn while_deriving<T>(derives: bool, work: impl FnOnce() -> T) -> T {
    struct Restored(bool);
    impl Drop for Restored {
        fn drop(&mut self) {
            DERIVES.set(self.0);
        }
    }
    let _restored = Restored(DERIVES.replace(derives));
    work()
}

/// The handler for what this thread does now. Its Python code must not run under the lock of an accumulation.
fn current() -> Option<&'static dyn Handler> {
    let wanted = HAS_MODE.get() && DERIVES.get() && !is_accumulating();
    if wanted { HANDLER.get().map(|handler| &**handler) } else { None }
}

/// The gradients of the inputs of a call from a handler, if torch computes them by one operator.
#[inline]
pub fn gradients(derive: &BackwardContext) -> Result<Option<Gradients>> {
    match current() {
        Some(handler) => while_deriving(false, || handler.gradients(derive)),
        None => Ok(None),
    }
}

/// Has a mode handle a call of a derivative.
#[cold]
pub fn intercept(args: Args, target: Target, rest: Rest) -> Result<Output> {
    let is_composite = matches!(args.op.implementation, Implementation::CompositeImplicit(_));
    let in_place = matches!(target, Target::InPlace);
    let handler = if is_composite || matches!(target, Target::Out(_)) { None } else { current() };
    let Some(handler) = handler else { return rest.call(args, target) };
    let results = while_deriving(false, || handler.call(&args, in_place))?;
    if in_place { Ok(Output::Tensor(args.tensor(Arg::FIRST)?.clone())) } else { Ok(args.op.gather(results.into())) }
}
