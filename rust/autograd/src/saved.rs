//! Tensors that a forward function keeps for its derivative.
//!
//! A saved input is the tensor itself. A saved output must not be: the tensor owns the node that saves it. So its elements
//! are kept without history, and the history is put back when the node asks for them. Either way the version at the time of
//! saving is remembered, and a later change in place is an error that names both lines. Programs may ask for saved
//! tensors to be packed otherwise (moved to another device, to a file) by hooks of their thread.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Error, Result};

use crate::edge::Edge;
use crate::lock::Slot;
use crate::modes;
use crate::node::{Call, Node, forward_name};
use crate::tensor::Tensor;
use crate::version::Version;

/// A saved tensor in the form that hooks gave it.
pub type Packed = Box<dyn Any + Send + Sync>;

/// Stores saved tensors in another form.
pub trait SavedTensorHooks: Send + Sync {
    fn pack(&self, tensor: Tensor) -> Result<Packed>;
    fn unpack(&self, packed: &Packed) -> Result<Tensor>;
}

thread_local! {
    static HOOKS: RefCell<Vec<Arc<dyn SavedTensorHooks>>> = const { RefCell::new(Vec::new()) };
}

/// From here on this thread packs what it saves with `hooks`.
pub fn push_hooks(hooks: Arc<dyn SavedTensorHooks>) {
    HOOKS.with_borrow_mut(|stack| stack.push(hooks));
}

pub fn pop_hooks() {
    let last = HOOKS.with_borrow_mut(Vec::pop);
    drop(last);
}

pub struct SavedTensor {
    /// Empty once released.
    content: Slot<Content>,
    version: u32,
    /// Which output of the saving node this is, if it is one.
    output: Option<u32>,
}

#[derive(Clone)]
enum Content {
    Tensor(Tensor),
    Packed(Arc<PackedTensor>),
}

struct PackedTensor {
    packed: Packed,
    hooks: Arc<dyn SavedTensorHooks>,
    version: Arc<Version>,
    /// An input's history; an output's is its node.
    history: Option<Edge>,
}

impl SavedTensor {
    /// Saves an input of the call.
    #[inline]
    pub fn input(tensor: &Tensor) -> Result<SavedTensor> {
        SavedTensor::new(tensor, None)
    }

    /// Saves the `output`-th differentiable output of the call, after it was computed.
    #[inline]
    pub fn output(tensor: &Tensor, output: u32) -> Result<SavedTensor> {
        SavedTensor::new(tensor, Some(output))
    }

    fn new(tensor: &Tensor, output: Option<u32>) -> Result<SavedTensor> {
        if tensor.is_inference() && !modes::inference_enabled() {
            return Err(Error::runtime(
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.",
            ));
        }
        let version = tensor.version_or_zero();
        let hooks = HOOKS.with_borrow(|stack| stack.last().cloned());
        let content = match hooks {
            None if output.is_none() => Content::Tensor(tensor.clone()),
            None => Content::Tensor(tensor.detach()),
            Some(hooks) => Content::Packed(Arc::new(PackedTensor {
                packed: hooks.pack(if output.is_none() { tensor.clone() } else { tensor.detach() })?,
                hooks,
                version: tensor.shared_version(),
                history: if output.is_none() { tensor.gradient_edge()? } else { None },
            })),
        };
        Ok(SavedTensor { content: Slot::new(Some(content)), version, output })
    }

    /// Lets the tensor go; asking for it again is an error.
    pub fn release(&self) {
        let content = self.content.replace(None);
        drop(content);
    }

    /// The tensor as it was when the forward function saved it.
    pub(crate) fn unpack(&self, call: &Call<'_>) -> Result<Tensor> {
        let Some(content) = self.content.get() else { return Err(released()) };
        let version = match &content {
            Content::Tensor(tensor) => tensor.version_or_zero(),
            Content::Packed(packed) => packed.version.current(),
        };
        if version != self.version {
            return Err(self.changed(call.node, &content));
        }
        let (tensor, history) = match content {
            Content::Tensor(tensor) if self.output.is_none() => return Ok(tensor),
            // A derivative that nobody records does not ask for its output's history.
            Content::Tensor(tensor) if !modes::grad_enabled() && !call.needs.is_empty() => return Ok(tensor),
            Content::Tensor(tensor) => (tensor, None),
            Content::Packed(packed) => (packed.hooks.unpack(&packed.packed)?, packed.history.clone()),
        };
        match (self.output, call.slice) {
            (Some(_), Some(slice)) => slice.output(&tensor, call.node),
            (Some(output), None) => {
                let tensor = tensor.detach();
                tensor.set_history(call.node.clone(), output);
                Ok(tensor)
            }
            (None, _) => {
                let tensor = tensor.detach();
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
        match version.origin(self.version + 1).describe() {
            Some(line) => error.hint(format!("changed in place at {line}")),
            None => error,
        }
    }
}

#[cold]
fn released() -> Error {
    Error::runtime(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.",
    )
}

/// torch's old name of a tensor's type, which its messages still use.
fn legacy_type(dtype: DType, device: Device) -> String {
    let module = match device {
        Device::Cpu => "torch",
        Device::Cuda(_) => "torch.cuda",
        Device::Meta => "torch.meta",
    };
    format!("{module}.{}Tensor", dtype.title())
}
