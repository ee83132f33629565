//! Handlers of `__torch_dispatch__`, which are called below autograd: a call is recorded as the operator that it is, and its
//! results are those of the handler, whose own calls are not recorded.
//!
//! A call from Python reaches its handler first. Python then calls the engine with a supplier of the handler's results
//! (`with_supplier`), and the engine asks for them in place of the operator's kernel. The parts of a composite operator that is
//! recorded are handled one by one, as in torch.
//!
//! A derivative calls operators in the engine, so that the engine asks for a handler too (`call/handled.rs`): that of a mode, or
//! of the class of an operand (`Form::Wrapper`).

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

use rushlight_autograd::accumulate::is_accumulating;
use rushlight_autograd::modes::{BelowAutograd, GradMode};
use rushlight_autograd::{Gradients, Tensor};
use rushlight_core::{Result, Scalar};

use crate::interceptors::Triggers;
use crate::operator::{Args, BackwardContext};
use crate::primitives::primitives;

/// What handles calls, for threads that have a mode and for operands that handle operators.
pub trait Handler: Send + Sync {
    /// Whether a tensor has a Python object of another class than `Tensor`, which may handle operators.
    fn has_class(&self, tensor: &Tensor) -> bool;

    /// The results of a call.
    fn call(&self, args: &Args, in_place: bool) -> Result<Vec<Tensor>>;

    /// The gradients of the inputs of a call, if torch computes all of them by one operator.
    fn gradients(&self, context: &BackwardContext) -> Result<Option<Gradients>>;

    /// The same elements without history, by the class of the tensor.
    fn detach(&self, tensor: &Tensor) -> Result<Tensor>;

    /// The only element, by the class of the tensor.
    fn item(&self, tensor: &Tensor) -> Result<Scalar>;

    /// The elements in row-major order, by the class of the tensor.
    fn elements(&self, tensor: &Tensor) -> Result<Vec<Scalar>>;
}

/// The results of a handler for the next call.
pub type Supplier = Box<dyn FnOnce() -> Result<Vec<Tensor>>>;

static HANDLER: OnceLock<Box<dyn Handler>> = OnceLock::new();

thread_local! {
    /// Whether this thread has a mode with `__torch_dispatch__`.
    static HAS_DISPATCH_MODE: Cell<bool> = const { Cell::new(false) };
    /// Whether calls of the engine are handled: this thread runs a derivative or the parts of an operator, and no handler inside
    /// of it.
    static HANDLES_INNER_CALLS: Cell<bool> = const { Cell::new(false) };
    /// Whether wrappers are treated as the tensors without elements that they are.
    static WITHOUT_CLASS_HANDLERS: Cell<bool> = const { Cell::new(false) };
    /// The handler's results for a call with this operand.
    static SUPPLIED: RefCell<Option<(Supplier, Tensor)>> = const { RefCell::new(None) };
}

/// Sets the handler, once.
pub fn install(handler: Box<dyn Handler>) {
    let _ = HANDLER.set(handler);
}

/// Says whether this thread has a mode from now on.
pub fn set_mode(has_mode: bool) {
    match (HAS_DISPATCH_MODE.replace(has_mode), has_mode) {
        (false, true) => Triggers::PYTHON.enter(),
        (true, false) => Triggers::PYTHON.leave(1),
        _ => {}
    }
}

/// Runs a derivative, or a sum of gradients.
#[inline]
pub fn derive<T>(work: impl FnOnce() -> T) -> T {
    if HAS_DISPATCH_MODE.get() { while_set(&HANDLES_INNER_CALLS, true, work) } else { work() }
}

/// Runs `work`, whose calls of operators that the engine has are handled one by one.
pub fn handling_parts<T>(work: impl FnOnce() -> T) -> T {
    while_set(&HANDLES_INNER_CALLS, true, work)
}

/// Runs `work` without the handlers of operands' classes.
pub fn without_class_handlers<T>(work: impl FnOnce() -> T) -> T {
    while_set(&WITHOUT_CLASS_HANDLERS, true, work)
}

#[cold]
fn while_set<T>(flag: &'static std::thread::LocalKey<Cell<bool>>, value: bool, work: impl FnOnce() -> T) -> T {
    struct Restored(&'static std::thread::LocalKey<Cell<bool>>, bool);
    impl Drop for Restored {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _restored = Restored(flag, flag.replace(value));
    work()
}

/// Runs a handler: no call of its own is recorded or is part of a derivative.
pub fn below_autograd<T>(work: impl FnOnce() -> T) -> T {
    let _below = BelowAutograd::begin();
    while_set(&HANDLES_INNER_CALLS, false, || while_set(&WITHOUT_CLASS_HANDLERS, false, work))
}

/// Runs `work`, in which the first call with `operand` has the supplier's results. Returns the supplier too if there was no
/// such call.
pub fn with_supplier<T>(supplier: Supplier, operand: Tensor, work: impl FnOnce() -> T) -> (T, Option<Supplier>) {
    struct Restored(Option<(Supplier, Tensor)>);
    impl Drop for Restored {
        fn drop(&mut self) {
            let ended = SUPPLIED.replace(self.0.take());
            Triggers::PYTHON.leave(1);
            drop(ended);
        }
    }
    Triggers::PYTHON.enter();
    let _restored = Restored(SUPPLIED.replace(Some((supplier, operand))));
    let result = work();
    (result, SUPPLIED.take().map(|(supplier, _)| supplier))
}

/// The supplier for a call.
pub(crate) fn supplier_of(args: &Args) -> Option<Supplier> {
    if is_accumulating() {
        return None;
    }
    SUPPLIED.with_borrow_mut(|supplied| {
        let (_, operand) = supplied.as_ref()?;
        let shares = |input: &Tensor| operand.ptr_eq(input) || operand.storage().same(input.storage());
        args.each_tensor().any(|(_, input)| shares(input)).then_some(())?;
        supplied.take().map(|(supplier, _)| supplier)
    })
}

/// The handler for what this thread does now. Its Python code must not run under the lock of an accumulation.
fn current() -> Option<&'static dyn Handler> {
    let wanted = HAS_DISPATCH_MODE.get() && HANDLES_INNER_CALLS.get() && !is_accumulating();
    if wanted { handler() } else { None }
}

/// The handler of a call inside the engine: that of a mode, or of the class of an operand.
pub(crate) fn handler_of(args: &Args) -> Option<&'static dyn Handler> {
    current().or_else(|| by_class(args.each_tensor().map(|(_, tensor)| tensor)))
}

/// The handler of the class of an operand.
fn by_class<'a>(mut operands: impl Iterator<Item = &'a Tensor>) -> Option<&'static dyn Handler> {
    if WITHOUT_CLASS_HANDLERS.get() || is_accumulating() {
        return None;
    }
    handler().filter(|handler| operands.any(|tensor| tensor.is_wrapper() && handler.has_class(tensor)))
}

fn handler() -> Option<&'static dyn Handler> {
    HANDLER.get().map(|handler| &**handler)
}

/// The same elements without history: another handle on them, or what the class of a tensor that handles operators makes.
pub fn detach(tensor: &Tensor) -> Result<Tensor> {
    match by_class(std::iter::once(tensor)) {
        Some(handler) => {
            let detached = below_autograd(|| handler.detach(tensor))?;
            // So that a change of the one is one of the other.
            detached.follow_version(tensor);
            Ok(detached)
        }
        None => Ok(tensor.detach()),
    }
}

/// The only element of a tensor that handles operators; `None` for any other tensor.
pub fn item(tensor: &Tensor) -> Result<Option<Scalar>> {
    match by_class(std::iter::once(tensor)) {
        Some(handler) => below_autograd(|| handler.item(tensor)).map(Some),
        None => Ok(None),
    }
}

/// The elements of a tensor that handles operators, which is asked for one after another; `None` for any other tensor.
pub fn elements(tensor: &Tensor) -> Result<Option<Vec<Scalar>>> {
    match by_class(std::iter::once(tensor)) {
        Some(handler) => below_autograd(|| handler.elements(tensor)).map(Some),
        None => Ok(None),
    }
}

/// A result of a handler as a view of an operand, if it shares the operand's memory and is not the operand itself.
pub fn view_of(operand: &Tensor, result: &Tensor) -> Option<Tensor> {
    let shares = operand.storage().same(result.storage()) && operand.dtype() == result.dtype();
    let is_view = shares && !result.ptr_eq(operand) && !result.is_view() && operand.is_plain() && result.is_plain();
    is_view.then(|| Tensor::view_of(operand, result.layout().clone()))
}

/// A copy by the class of a tensor that handles operators.
pub(crate) fn clone(tensor: &Tensor) -> Result<Tensor> {
    let _off = GradMode::new(false);
    primitives()?.clone.tensor([tensor.into()])
}

/// The gradients of the inputs of a call from a handler, if torch computes them by one operator.
#[inline]
pub fn gradients(context: &BackwardContext) -> Result<Option<Gradients>> {
    let tensors = context.grads.iter().chain(&context.saved_inputs).flatten();
    match current().or_else(|| by_class(tensors)) {
        Some(handler) => while_set(&HANDLES_INNER_CALLS, false, || handler.gradients(context)),
        None => Ok(None),
    }
}
