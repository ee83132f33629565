//! The types of tensors and of the graph that records how they were made.
//!
//! They are in one file because they contain each other: a tensor refers to the node that made it, a node to other nodes
//! and to hooks, and hooks to tensors. Their methods are in `tensor`, `view`, `history`, `edge`, `node`, `hooks`,
//! `inplace`, `accumulate`, `sparse`, `quantized` and `batched`.

use std::any::Any;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32};
use std::sync::{Arc, Weak};

use once_cell::race::OnceBox;
use rushlight_core::counted::{Counted, WeakCounted};
use rushlight_core::{DType, Device, Dims, Layout, Result, Storage};
use smallvec::SmallVec;

use crate::hook_list::HookList;
use crate::lock::Slot;
use crate::source_location::{Origin, SourceLocation};
use crate::version::Counter;

/// The dtype of the elements and where they lie.
#[derive(Clone)]
pub struct TensorMeta {
    pub storage: Storage,
    pub layout: Layout,
    pub dtype: DType,
    pub device: Device,
    pub form: Form,
}

/// The relation between the elements and the stored bytes.
#[derive(Clone)]
pub enum Form {
    /// The elements are stored as they are.
    Plain,
    /// The elements are the conjugates of complex ones that are stored, or the negatives of real ones that are stored,
    /// which are imaginary parts of such a tensor. torch's conjugate and negative bits.
    LazyConj,
    /// The elements are stored elsewhere, with their indices.
    Sparse(Arc<Coo>),
    /// The elements are stored elsewhere, row by row or column by column, with their indices.
    Compressed(Arc<Compressed>),
    /// The elements are numbers, and integers that stand for them are stored.
    Quantized(Arc<Quantizer>),
    /// There are no elements: the tensor's Python object handles the operators that are called with it.
    Wrapper,
    /// The elements are those of one sample of a batch; the others lie in the same storage.
    Batched(Arc<[BatchDim]>),
}

/// What number an integer of a quantised tensor stands for: `(integer - zero_point) * scale`.
#[derive(Clone)]
pub enum Quantizer {
    PerTensor {
        scale: f64,
        zero_point: i64,
    },
    /// A scale and a zero point for each index of one dimension: float64 and int64, or both float32.
    PerChannel {
        scales: Tensor,
        zero_points: Tensor,
        axis: usize,
    },
}

/// One hidden dimension. Its level identifies one `vmap`, and no level is used twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchDim {
    pub level: i64,
    pub size: isize,
    /// In elements; zero if all samples are the same.
    pub stride: isize,
}

/// The parts of a sparse tensor.
#[derive(Clone)]
pub struct SparseParts {
    /// `sparse_dim x nnz` integers of 64 bits. A program may write to them, so every reader checks them.
    pub indices: Tensor,
    /// `nnz` elements, or blocks with the sizes of the dense dimensions.
    pub values: Tensor,
    /// Whether the indices are sorted and unique.
    pub coalesced: bool,
}

/// The parts of one sparse tensor, which in-place changes replace.
pub struct Coo(pub(crate) Slot<Arc<SparseParts>>);

/// What a compressed sparse tensor compresses, rows or columns, and whether its entries are blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompressedFormat {
    pub columns: bool,
    pub blocks: bool,
}

/// The parts of a compressed sparse tensor: rows (or columns) of entries, which are elements or blocks of them. Batch
/// dimensions are first in each part, and have the same number of entries in every batch.
#[derive(Clone)]
pub struct CompressedParts {
    pub format: CompressedFormat,
    /// For each row its first entry, and after them the number of entries. A program may write to the indices, so every
    /// reader checks them.
    pub compressed: Tensor,
    /// For each entry its column.
    pub plain: Tensor,
    /// The entries: with the two sizes of a block if the format has blocks, and those of the dense dimensions.
    pub values: Tensor,
}

/// The parts of one compressed sparse tensor, which in-place changes replace.
pub struct Compressed(pub(crate) Slot<Arc<CompressedParts>>);

/// A leaf for which gradients are accumulated.
pub(crate) const REQUIRES_GRAD: u8 = 1;
/// A result of a recorded operator.
pub(crate) const HISTORY: u8 = 2;
pub(crate) const VIEW: u8 = 4;
pub(crate) const RETAINS_GRAD: u8 = 8;
pub(crate) const INFERENCE: u8 = 16;
/// Its gradients are for tangents only; otherwise it does not appear to require any.
pub(crate) const FOR_TANGENTS: u8 = 32;
/// A handler's result of a view, whose base is not known.
pub(crate) const OPAQUE_VIEW: u8 = 64;

pub(crate) struct TensorImpl {
    pub(crate) meta: UnsafeCell<TensorMeta>,
    pub(crate) flags: AtomicU8,
    /// `Modes::transforms` when the tensor was made: a function of a transform must not change tensors from outside.
    pub(crate) transforms: AtomicU8,
    /// The node that made this tensor.
    pub(crate) history: Slot<Edge>,
    /// Unused in a view, which uses the base's counter.
    pub(crate) version: Counter,
    pub(crate) view: Option<View>,
    pub(crate) autograd_meta: OnceBox<AutogradMeta>,
    /// The tensor's Python object: borrowed, unless `keeps_python`.
    pub(crate) python: AtomicPtr<c_void>,
}

// SAFETY: `meta` is the only unsynchronised field. It is changed only through `set_meta`, whose callers guarantee that
// no other thread reads it.
unsafe impl Sync for TensorImpl {}

/// A handle; clones are the same tensor.
#[derive(Clone)]
pub struct Tensor(pub(crate) Counted<TensorImpl>);

/// A handle that does not keep the tensor alive.
#[derive(Clone)]
pub struct WeakTensor(pub(crate) WeakCounted<TensorImpl>);

/// How a view was made, which decides whether it may be changed in place while gradients are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ViewKind {
    Ordinary,
    /// One of several views that one function returned.
    MultiOutput,
    NoGrad,
    Inference,
    CustomFunction,
}

/// Makes this view of a base again, if sizes and strides alone do not describe it (another dtype).
pub type Replay = Arc<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;

pub(crate) struct View {
    pub(crate) base: Tensor,
    pub(crate) replay: Option<Replay>,
    /// The version to which the view's history belongs.
    pub(crate) history_version: AtomicU32,
    pub(crate) kind: AtomicU8,
}

/// State that only leaves that require gradients, and tensors with `retain_grad`, need.
#[derive(Default)]
pub(crate) struct AutogradMeta {
    pub(crate) grad: Slot<Tensor>,
    /// Weak, because the accumulator owns its tensor.
    pub(crate) accumulator: Slot<Weak<Node<AccumulateGrad>>>,
    /// The accumulator's hooks, stored here because the accumulator lives only as long as a graph that leads to it.
    pub(crate) hooks: OnceBox<Arc<NodeHooks>>,
    pub(crate) after_accumulate: HookList<AfterAccumulate>,
    /// The dtype that the program has chosen for the gradient, `Some(None)` for any.
    pub(crate) grad_dtype: Slot<Option<DType>>,
}

/// The `output`-th output of `node`'s forward function.
#[derive(Clone)]
pub struct Edge {
    pub(crate) node: ManuallyDrop<Arc<Node>>,
    pub output: u32,
}

/// One edge for each differentiable input; `None` if an input needs no gradient.
pub type Edges = SmallVec<[Option<Edge>; 2]>;

/// Gradients in the order of a node's outputs (incoming) or of its inputs (outgoing).
pub type Gradients = SmallVec<[Option<Tensor>; 2]>;

/// What a node leads to through one handle on a tensor, for the garbage collector.
pub enum Reachable {
    /// The Python object that the tensor keeps, and how many handles the tensor has; one of them is the object's.
    Object { python: *mut c_void, owners: usize },
    /// The history of a tensor that has no other handle.
    History(Edge),
}

/// The derivative of one recorded call.
pub trait Backward: Any + Send + Sync {
    /// torch's name of the node: `MulBackward0`.
    fn name(&self) -> &str;

    /// Computes the gradients of the inputs from those of the outputs, one for each edge; `None` for one that `call`
    /// does not need, or for zero. It may run several times, and on several threads at once.
    fn apply(&self, call: &BackwardCall<'_>, grads: Gradients) -> Result<Gradients>;

    /// Releases saved tensors.
    fn release(&self);

    /// Visits the Python objects that the function keeps alive.
    fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        let _ = visit;
    }

    /// Visits what the function leads to through its tensors.
    fn reachable(&self, visit: &mut dyn FnMut(Reachable)) {
        let _ = visit;
    }

    /// The slice of the output that the function changed, if it changed a view in place: the node's output is then the
    /// view's base.
    fn slice(&self) -> Option<&Slice> {
        None
    }

    /// Drops what `objects` visits, as far as that is needed to break every cycle.
    fn forget_objects(&self) {
        self.release();
    }

    /// Whether the function runs even if none of its outputs has a gradient.
    fn runs_without_gradients(&self) -> bool {
        false
    }
}

/// The metadata of a forward output, which its gradient must match.
#[derive(Clone)]
pub struct OutputMeta {
    pub sizes: Dims,
    pub dtype: DType,
    pub device: Device,
}

/// A function with its edges in the graph.
pub struct Node<F: ?Sized = dyn Backward> {
    pub(crate) edges: Edges,
    pub(crate) outputs: SmallVec<[OutputMeta; 1]>,
    pub(crate) sequence: u64,
    pub(crate) source_location: SourceLocation,
    /// Where it was made, if it was recorded under anomaly detection.
    pub(crate) origin: Option<Arc<Origin>>,
    pub(crate) for_tangents: bool,
    pub(crate) hooks: OnceBox<Arc<NodeHooks>>,
    pub(crate) function: F,
}

/// One run of a node's function.
pub struct BackwardCall<'a> {
    pub node: &'a Arc<Node>,
    pub(crate) needs: &'a [bool],
    /// Set if the function was called in place on a view, whose base is the node's output.
    pub(crate) slice: Option<&'a Slice>,
    /// Whether the node releases its saved tensors afterwards, so that the function may write into those that no one else has.
    pub releases: bool,
}

/// The geometry of a view within its base.
pub struct Slice {
    pub(crate) base: Layout,
    pub(crate) form: Form,
    pub(crate) view: Layout,
    pub(crate) replay: Option<Replay>,
}

/// The last node of every path: it adds incoming gradients to the gradient of its leaf.
pub struct AccumulateGrad {
    pub(crate) variable: Tensor,
}

/// Receives a gradient, or `None` if none arrived at the tensor, and may replace it.
pub type TensorHook = Arc<dyn Fn(Option<&Tensor>) -> Result<Option<Tensor>> + Send + Sync>;
/// A value that a node keeps for the user.
pub type Attachment = Arc<dyn Any + Send + Sync>;
/// Receives a node's incoming gradients before its function runs, and may replace them.
pub type PreHook = Arc<dyn Fn(&Gradients) -> Result<Option<Gradients>> + Send + Sync>;
/// Receives a node's results and its incoming gradients, and may replace the results.
pub type PostHook = Arc<dyn Fn(&Gradients, &Gradients) -> Result<Option<Gradients>> + Send + Sync>;
/// Receives a leaf after a gradient was added to its `.grad`.
pub type AfterAccumulate = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

/// The hooks of a node and of the tensors that are its outputs.
#[derive(Default)]
pub struct NodeHooks {
    pub(crate) tensor: HookList<(u32, TensorHook)>,
    pub(crate) retained: HookList<(u32, WeakTensor)>,
    pub pre: HookList<PreHook>,
    pub post: HookList<PostHook>,
    /// The node's `metadata`: one dictionary, once it was asked for.
    pub metadata: HookList<Attachment>,
}
