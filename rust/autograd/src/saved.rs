//! Tensors that a forward function saves for its derivative.
//!
//! A saved input is the tensor itself. A saved output cannot be, because the tensor owns the node that saves it. So its
//! elements are saved without history, and the history is attached again when the node needs it. Either way the version
//! at the time of saving is stored, and a later in-place change is an error that names both lines. Programs may install
//! hooks on their thread that pack saved tensors in another form (on another device, in a file).

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Error, Result};

use crate::arithmetic::arithmetic;
use crate::graph::{BackwardCall, Edge, Node, Reachable, Tensor};
use crate::lock::Slot;
use crate::modes;
use crate::node::forward_name;
use crate::version::Version;

/// A saved tensor in the form that hooks gave it.
pub type Packed = Box<dyn Any + Send + Sync>;

/// Stores saved tensors in another form.
pub trait SavedTensorHooks: Send + Sync {
    fn pack(&self, tensor: Tensor) -> Result<Packed>;
    fn unpack(&self, packed: &Packed) -> Result<Tensor>;

    /// Visits the Python objects that keep a packed tensor.
    fn objects(&self, packed: &Packed, visit: &mut dyn FnMut(*mut c_void)) {
        let _ = (packed, visit);
    }

    /// Visits the Python objects of the hooks themselves.
    fn own_objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        let _ = visit;
    }
}

thread_local! {
    /// What this thread saved for tangents, by the address of its version counter.
    static KEPT: RefCell<HashMap<usize, Vec<Weak<Kept>>>> = RefCell::new(HashMap::new());
    static HOOKS: RefCell<Vec<Arc<dyn SavedTensorHooks>>> = const { RefCell::new(Vec::new()) };
}

/// Packs what this thread saves from now on with `hooks`.
pub fn push_hooks(hooks: Arc<dyn SavedTensorHooks>) {
    HOOKS.with_borrow_mut(|stack| stack.push(hooks));
}

pub fn pop_hooks() {
    let last = HOOKS.with_borrow_mut(Vec::pop);
    drop(last);
}

/// This thread's hooks.
pub fn hooks() -> Vec<Arc<dyn SavedTensorHooks>> {
    HOOKS.with_borrow(Vec::clone)
}

/// Sets this thread's hooks to those of another one, for which it works.
pub fn adopt_hooks(hooks: Vec<Arc<dyn SavedTensorHooks>>) {
    let before = HOOKS.replace(hooks);
    drop(before);
}

/// Restores this thread's hooks when it is dropped: what a backward pass installs ends with it.
pub(crate) struct HooksGuard(Vec<Arc<dyn SavedTensorHooks>>);

impl HooksGuard {
    pub(crate) fn begin() -> HooksGuard {
        HooksGuard(hooks())
    }
}

impl Drop for HooksGuard {
    fn drop(&mut self) {
        let ended = HOOKS.replace(std::mem::take(&mut self.0));
        drop(ended);
    }
}

pub struct SavedTensor {
    /// Empty once released.
    content: Slot<Content>,
    version: u32,
    /// The index of the output of the saving node, if it is one.
    output: Option<u32>,
    /// Whether it is an input with a history, which it must still have when it is needed.
    has_history: bool,
}

#[derive(Clone)]
enum Content {
    Tensor(Tensor),
    Packed(Arc<PackedTensor>),
    Kept(Arc<Kept>),
}

/// The number of version counters in `KEPT` from which on those of released tensors are removed.
const FORGOTTEN: usize = 1 << 10;

/// A tensor that was saved while tangents were recorded. In forward mode a tensor may be changed in place after it was
/// used, because a tangent is that of the time of the call. So the first change copies the saved elements.
struct Kept {
    tensor: Slot<Tensor>,
    /// Whether `tensor` is a copy from before a change.
    copied: AtomicBool,
    is_output: bool,
}

impl Kept {
    fn new(tensor: Tensor, is_output: bool) -> Arc<Kept> {
        let key = Arc::as_ptr(&tensor.shared_version()) as usize;
        let kept = Arc::new(Kept { tensor: Slot::new(Some(tensor)), copied: AtomicBool::new(false), is_output });
        KEPT.with_borrow_mut(|all| {
            let list = all.entry(key).or_default();
            list.retain(|one| one.strong_count() > 0);
            list.push(Arc::downgrade(&kept));
        });
        kept
    }

    fn copy(&self) -> Result<()> {
        let Some(tensor) = self.tensor.get() else { return Ok(()) };
        let history = if self.is_output { None } else { tensor.gradient_edge()? };
        let copy = {
            let _off = modes::GradMode::new(false);
            (arithmetic()?.clone)(&tensor)?
        };
        if let Some(edge) = history {
            copy.set_history(edge.node().clone(), edge.output);
        }
        let before = self.tensor.replace(Some(copy));
        drop(before);
        self.copied.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Copies what was saved for tangents and shares memory with a tensor that is about to be changed.
#[inline]
pub(crate) fn copy_kept(tensor: &Tensor) -> Result<()> {
    if !modes::tangents_used() || KEPT.with_borrow(HashMap::is_empty) {
        return Ok(());
    }
    let key = Arc::as_ptr(&tensor.shared_version()) as usize;
    let list = KEPT.with_borrow_mut(|all| {
        let list = all.remove(&key);
        if all.len() > FORGOTTEN {
            all.retain(|_, list| list.iter().any(|one| one.strong_count() > 0));
        }
        list
    });
    list.iter().flatten().filter_map(Weak::upgrade).try_for_each(|kept| kept.copy())
}

struct PackedTensor {
    packed: Packed,
    hooks: Arc<dyn SavedTensorHooks>,
    version: Arc<Version>,
    /// An input's history; an output's history is its node.
    history: Option<Edge>,
}

impl Content {
    /// The present form of a tensor that was saved for tangents, and whether it is a copy.
    fn resolved(self) -> (Content, bool) {
        match self {
            Content::Kept(kept) => match kept.tensor.get() {
                Some(tensor) => (Content::Tensor(tensor), kept.copied.load(Ordering::Relaxed)),
                None => (Content::Kept(kept), false),
            },
            other => (other, false),
        }
    }

    fn pack(tensor: Tensor, output: Option<u32>, hooks: Arc<dyn SavedTensorHooks>) -> Result<Content> {
        let version = tensor.shared_version();
        let before = version.current();
        let history = if output.is_none() { tensor.gradient_edge()? } else { None };
        let packed = hooks.pack(tensor)?;
        if version.current() != before {
            return Err(Error::runtime(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you need to perform in-place operations on the input to a pack hook.",
            ));
        }
        Ok(Content::Packed(Arc::new(PackedTensor { packed, hooks, version, history })))
    }
}

impl SavedTensor {
    /// Saves an input of the call.
    #[inline]
    pub fn input(tensor: &Tensor) -> Result<SavedTensor> {
        SavedTensor::new(tensor, None)
    }

    /// Saves an input whose memory the call changed, after the change was counted, so that using it is an error.
    pub fn overwritten(tensor: &Tensor) -> Result<SavedTensor> {
        let saved = SavedTensor::new(tensor, None)?;
        Ok(SavedTensor { version: saved.version.wrapping_sub(1), ..saved })
    }

    /// Saves the `output`-th differentiable output of the call, after it was computed.
    #[inline]
    pub fn output(tensor: &Tensor, output: u32) -> Result<SavedTensor> {
        SavedTensor::new(tensor, Some(output))
    }

    fn new(tensor: &Tensor, output: Option<u32>) -> Result<SavedTensor> {
        if tensor.is_inference() && !modes::inference_enabled() {
            if modes::current().tangents {
                // Its changes are not counted, but a tangent needs the present values.
                return SavedTensor::new(&(arithmetic()?.clone)(tensor)?, output);
            }
            return Err(Error::runtime(
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.",
            ));
        }
        let version = tensor.version_or_zero();
        let hooks = HOOKS.with_borrow(|stack| stack.last().cloned());
        let kept = if output.is_none() { tensor.clone() } else { (arithmetic()?.detach)(tensor)? };
        let content = match hooks {
            None if modes::current().tangents => Content::Kept(Kept::new(kept, output.is_some())),
            None => Content::Tensor(kept),
            Some(hooks) => Content::pack(kept, output, hooks)?,
        };
        let has_history = output.is_none() && tensor.has_history();
        Ok(SavedTensor { content: Slot::new(Some(content)), version, output, has_history })
    }

    /// Packs this saved tensor with hooks of its own.
    pub fn set_hooks(&self, hooks: Arc<dyn SavedTensorHooks>) -> Result<()> {
        match self.content.get().map(Content::resolved) {
            Some((Content::Tensor(tensor), _)) => {
                let before = self.content.replace(Some(Content::pack(tensor, self.output, hooks)?));
                drop(before);
                Ok(())
            }
            Some(_) => Err(Error::runtime(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is allowed at a time.",
            )),
            None => Err(Error::runtime(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved variables after calling backward.",
            )),
        }
    }

    /// Releases the tensor; using it afterwards is an error.
    pub fn release(&self) {
        let content = self.content.replace(None);
        drop(content);
    }

    /// Visits the Python objects that are freed with this saved tensor.
    pub fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        let Some(Content::Packed(saved)) = self.content.get() else { return };
        // A backward pass that uses it, or a copy of the content, holds it too.
        if Arc::strong_count(&saved) == 2 {
            saved.hooks.objects(&saved.packed, visit);
            if Arc::strong_count(&saved.hooks) == 1 {
                saved.hooks.own_objects(visit);
            }
        }
    }

    /// What it leads to, for the garbage collector.
    pub fn reachable(&self) -> Option<Reachable> {
        match self.content.get() {
            Some(Content::Tensor(tensor)) => tensor.reachable(1),
            _ => None,
        }
    }

    /// The tensor as it was when the forward function saved it.
    pub(crate) fn unpack(&self, call: &BackwardCall<'_>) -> Result<Tensor> {
        let Some(content) = self.content.get() else { return Err(released()) };
        let (content, is_copy) = content.resolved();
        if let Content::Tensor(tensor) = &content
            && !is_copy
            && tensor.version_or_zero() != self.version
        {
            return Err(self.changed(call.node, &content));
        }
        let (tensor, history) = match content {
            Content::Tensor(tensor) if self.output.is_none() => {
                if self.has_history && !is_copy && !tensor.has_history() {
                    return Err(detached());
                }
                return Ok(tensor);
            }
            // A derivative that is not recorded does not need its output's history.
            Content::Tensor(tensor) if !modes::recording() && !call.needs.is_empty() => return Ok(tensor),
            Content::Tensor(tensor) => (tensor, None),
            Content::Kept(_) => return Err(released()),
            Content::Packed(ref packed) => {
                let tensor = packed.hooks.unpack(&packed.packed)?;
                // In-place changes matter for a tensor returned by hooks only if it is the saved tensor itself, not a
                // copy.
                if packed.version.current() != self.version && Arc::ptr_eq(&tensor.shared_version(), &packed.version) {
                    return Err(self.changed(call.node, &content));
                }
                (tensor, packed.history.clone())
            }
        };
        match (self.output, call.slice) {
            (Some(_), Some(slice)) => slice.output(&tensor, call.node),
            (Some(output), None) => {
                let tensor = (arithmetic()?.detach)(&tensor)?;
                tensor.set_history(call.node.clone(), output);
                Ok(tensor)
            }
            (None, _) if history.is_none() && !tensor.is_tracked() => Ok(tensor),
            (None, _) => {
                let tensor = (arithmetic()?.detach)(&tensor)?;
                if let Some(edge) = history {
                    tensor.set_history(edge.node().clone(), edge.output);
                }
                Ok(tensor)
            }
        }
    }

    #[cold]
    fn changed(&self, node: &Arc<Node>, content: &Content) -> Error {
        let version = match content {
            Content::Tensor(tensor) => tensor.shared_version(),
            Content::Packed(packed) => packed.version.clone(),
            Content::Kept(_) => return released(),
        };
        let (kind, history) = match content {
            Content::Tensor(tensor) => {
                let history = match self.output {
                    Some(output) => Some(Edge::new(node.clone(), output)),
                    None => tensor.stored_history(),
                };
                (format!("[{} {}]", legacy_type(tensor.dtype(), tensor.device()), Shape(tensor.sizes())), history)
            }
            Content::Packed(packed) => ("[packed tensor]".to_string(), packed.history.clone()),
            Content::Kept(_) => return released(),
        };
        let place = match history {
            Some(edge) => format!(", which is output {} of {},", edge.output, forward_name(edge.node().name())),
            None => String::new(),
        };
        let hint = if modes::anomaly_enabled() {
            "Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable in question was changed in there or anywhere later. Good luck!"
        } else {
            "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
        };
        let error = Error::runtime(format!(
            "one of the variables needed for gradient computation has been modified by an inplace operation: {kind}{place} is at version {}; expected version {} instead. {hint}",
            version.current(),
            self.version
        ));
        let way =
            "the derivative needs its old value: make a new tensor there (y = y + 1, not y += 1), or change a clone()";
        let named = match content {
            Content::Tensor(tensor) => parameter(tensor),
            _ => None,
        };
        let what = named.map_or_else(String::new, |name| format!("the parameter {name} was "));
        match version.source_location(self.version + 1).describe() {
            Some(line) => error.hint(format!("{what}changed in place at {line}\n  {way}")),
            None => error.hint(way),
        }
    }
}

impl BackwardCall<'_> {
    /// The tensor that the forward function saved; fails if it was changed or released since.
    #[inline]
    pub fn unpack(&self, saved: &SavedTensor) -> Result<Tensor> {
        saved.unpack(self)
    }
}

/// How Python names a parameter: `'weight' of Linear`.
static PARAMETER_NAMES: OnceLock<fn(&Tensor) -> Option<String>> = OnceLock::new();

/// Installs the names of parameters for messages; the first ones stay.
pub fn set_parameter_names(names: fn(&Tensor) -> Option<String>) {
    let _ = PARAMETER_NAMES.set(names);
}

/// The name of the parameter that a tensor is, or is a view of.
fn parameter(tensor: &Tensor) -> Option<String> {
    let leaf = tensor.base().unwrap_or(tensor);
    let names = PARAMETER_NAMES.get().filter(|_| leaf.is_leaf() && leaf.requires_grad())?;
    names(leaf)
}

/// The error for a second backward pass through a node whose saved tensors were released.
#[cold]
pub fn released() -> Error {
    Error::runtime(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.",
    )
}

/// The error for an input that lost its history after it was saved.
#[cold]
fn detached() -> Error {
    Error::runtime(
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, please use out-of-place `.detach()` instead",
    )
    .hint("y = y.detach() makes a new tensor and leaves the saved one as it is.")
}

/// torch's old name of a tensor's type, which its messages still use.
fn legacy_type(dtype: DType, device: Device) -> String {
    let module = match device {
        Device::Cpu => String::new(),
        other => format!(".{}", other.kind()),
    };
    format!("torch{module}.{}Tensor", dtype.display_name())
}
