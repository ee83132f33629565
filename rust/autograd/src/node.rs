//! A node of the graph: one recorded operator call, or a leaf's accumulator.

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;

use once_cell::race::OnceBox;
use rushlight_core::layout::{Dims, copied};
use rushlight_core::{DType, Device, Result};
use smallvec::SmallVec;

use crate::arithmetic::arithmetic;
use crate::edge::{Edge, Edges};
use crate::hooks::NodeHooks;
use crate::inplace::Slice;
use crate::modes;
use crate::origin::{self, Origin};
use crate::saved::SavedTensor;
use crate::tensor::Tensor;

/// Gradients in the order of a node's outputs (coming in) or of its inputs (going out).
pub type Gradients = SmallVec<[Option<Tensor>; 2]>;

/// The derivative of one recorded call.
pub trait Backward: Any + Send + Sync {
    /// torch's name of the node: `MulBackward0`.
    fn name(&self) -> &str;

    /// Turns the gradients of the outputs into those of the inputs, one for each edge; none for what `call` says is
    /// not needed, or for zero. It may run several times, and on several threads at once.
    fn apply(&self, call: &Call<'_>, grads: Gradients) -> Result<Gradients>;

    /// Lets go of what was saved.
    fn release(&self);

    /// Visits Python's objects that the function keeps alive.
    fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        let _ = visit;
    }

    /// Where in its output the function's own lies, if it changed a view in place: the node's output is the view's base.
    fn slice(&self) -> Option<&Slice> {
        None
    }

    /// Whether the function wants to run even if none of its outputs has a gradient.
    fn runs_without_gradients(&self) -> bool {
        false
    }
}

/// What a forward output looked like: its gradient must look the same.
#[derive(Clone)]
pub struct OutputMeta {
    pub sizes: Dims,
    pub dtype: DType,
    pub device: Device,
}

impl From<&Tensor> for OutputMeta {
    fn from(tensor: &Tensor) -> Self {
        OutputMeta { sizes: copied(tensor.sizes()), dtype: tensor.dtype(), device: tensor.device() }
    }
}

/// A function in its place in the graph.
pub struct Node<F: ?Sized = dyn Backward> {
    edges: Edges,
    outputs: SmallVec<[OutputMeta; 1]>,
    sequence: u64,
    origin: Origin,
    /// The lines that led to the forward call, if it was recorded under the search for anomalies.
    trace: Option<Box<str>>,
    for_tangents: bool,
    hooks: OnceBox<Arc<NodeHooks>>,
    function: F,
}

/// Whether what is recorded now serves tangents alone: gradients are switched off, or every input is of that kind.
#[inline]
fn serves_tangents(edges: &Edges) -> bool {
    modes::tangents_ever() && serve_tangents(edges)
}

#[cold]
fn serve_tangents(edges: &Edges) -> bool {
    let modes = modes::current();
    let mut inputs = edges.iter().flatten().peekable();
    !modes.grad || !modes.shown && inputs.peek().is_some() && inputs.all(|edge| edge.node().is_for_tangents())
}

thread_local! {
    static SEQUENCE: Cell<u64> = const { Cell::new(0) };
}

/// A place in this thread's order of nodes, kept for what another thread will record: backward then adds up in the same
/// order as if it had been recorded here, whoever records it and whenever.
pub struct Ticket(u64);

impl Ticket {
    /// More nodes than a call records; a longer one only loses its fixed order beside its neighbours.
    const LENGTH: u64 = 1 << 32;

    pub fn reserve() -> Ticket {
        let first = SEQUENCE.get();
        SEQUENCE.set(first.wrapping_add(Self::LENGTH));
        Ticket(first)
    }

    /// Records what `work` records in this place.
    pub fn take<R>(self, work: impl FnOnce() -> R) -> R {
        struct Restore(u64);
        impl Drop for Restore {
            fn drop(&mut self) {
                SEQUENCE.set(self.0);
            }
        }
        let _restore = Restore(SEQUENCE.replace(self.0));
        work()
    }
}

impl<F: Backward> Node<F> {
    /// Links a function into the graph: `edges` lead to its inputs, `outputs` describe what it returned.
    #[inline]
    pub fn new(function: F, edges: Edges, outputs: SmallVec<[OutputMeta; 1]>) -> Arc<Node<F>> {
        let sequence = SEQUENCE.get();
        SEQUENCE.set(sequence + 1);
        let for_tangents = serves_tangents(&edges);
        let trace = if modes::anomaly_enabled() { origin::trace() } else { None };
        let room = Arc::<Node<F>>::new_uninit();
        let place = Arc::as_ptr(&room).cast_mut().cast::<Node<F>>();
        // Half a kilobyte is written where it stays, field by field, instead of being moved there as a whole.
        // SAFETY: nobody else has the handle, and every field is written.
        unsafe {
            (&raw mut (*place).edges).write(edges);
            (&raw mut (*place).outputs).write(outputs);
            (&raw mut (*place).sequence).write(sequence);
            (&raw mut (*place).origin).write(Origin::here());
            (&raw mut (*place).trace).write(trace);
            (&raw mut (*place).for_tangents).write(for_tangents);
            (&raw mut (*place).hooks).write(OnceBox::new());
            (&raw mut (*place).function).write(function);
            room.assume_init()
        }
    }

    /// A node that runs before all others that are ready; it has no inputs, or one that only tangents know.
    pub(crate) fn leaf(
        function: F,
        edges: Edges,
        output: OutputMeta,
        for_tangents: bool,
        hooks: Option<Arc<NodeHooks>>,
    ) -> Arc<Node<F>> {
        Arc::new(Node {
            edges,
            outputs: SmallVec::from_buf([output]),
            sequence: u64::MAX,
            origin: Origin::default(),
            trace: None,
            for_tangents,
            hooks: hooks.map(|hooks| OnceBox::with_value(Box::new(hooks))).unwrap_or_default(),
            function,
        })
    }
}

impl<F: Backward + ?Sized> Node<F> {
    pub fn name(&self) -> &str {
        self.function.name()
    }

    /// The name without the path of C++ that torch gives to what its operators do not name.
    pub fn short_name(&self) -> &str {
        let name = self.name();
        name.rsplit_once("::").map_or(name, |(_, last)| last)
    }

    /// One for each input; torch's `next_functions`.
    pub fn edges(&self) -> &[Option<Edge>] {
        &self.edges
    }

    /// Whether only tangents pass.
    #[inline]
    pub fn is_for_tangents(&self) -> bool {
        self.for_tangents
    }

    pub fn outputs(&self) -> &[OutputMeta] {
        &self.outputs
    }

    /// Grows with every node that this thread records; those recorded last run first.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The user's line that ran the forward function.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// All lines that led to the forward call; nothing unless the search for anomalies was on.
    pub(crate) fn trace(&self) -> Option<&str> {
        self.trace.as_deref()
    }

    pub fn function(&self) -> &F {
        &self.function
    }

    pub fn hooks(&self) -> &Arc<NodeHooks> {
        self.hooks.get_or_init(Box::default)
    }

    pub(crate) fn existing_hooks(&self) -> Option<&NodeHooks> {
        self.hooks.get().map(|hooks| &**hooks)
    }

    pub(crate) fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        self.function.objects(visit);
        if let Some(hooks) = self.existing_hooks() {
            hooks.objects(visit);
        }
    }
}

impl Node {
    /// The function as its own type, if it is one.
    pub fn function_as<T: Backward>(&self) -> Option<&T> {
        (&self.function as &dyn Any).downcast_ref()
    }
}

impl Node {
    /// Runs the function alone, for gradients of every input: neither hooks nor what comes behind.
    pub fn run(self: &Arc<Node>, mut grads: Gradients) -> Result<Gradients> {
        grads.resize(self.outputs.len(), None);
        let needs: SmallVec<[bool; 8]> = self.edges.iter().map(Option::is_some).collect();
        self.function.apply(&Call { node: self, needs: &needs, slice: None }, grads)
    }
}

/// One run of a node's function.
pub struct Call<'a> {
    pub node: &'a Arc<Node>,
    pub(crate) needs: &'a [bool],
    /// Set where the function was called in place on a view, whose base is the node's output.
    pub(crate) slice: Option<&'a Slice>,
}

impl<'a> Call<'a> {
    /// For a look at what a node saved while it does not run.
    pub fn outside(node: &'a Arc<Node>) -> Call<'a> {
        Call { node, needs: &[], slice: node.function().slice() }
    }

    /// Whether anybody wants the gradient of input `index`.
    #[inline]
    pub fn needs(&self, index: usize) -> bool {
        self.needs.get(index).copied().unwrap_or(false)
    }

    /// The tensor that the forward function saved; fails if it was changed or released since.
    #[inline]
    pub fn unpack(&self, saved: &SavedTensor) -> Result<Tensor> {
        saved.unpack(self)
    }

    /// A gradient of zeros for an output that nobody used.
    pub fn zeros(&self, output: usize) -> Result<Tensor> {
        let meta = &self.node.outputs()[output];
        (arithmetic()?.full)(&meta.sizes, 0.0, meta.dtype, meta.device)
    }
}

/// The forward function's name in messages: `MulBackward0` becomes `Mul`.
pub(crate) fn forward_name(name: &str) -> &str {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    stem.strip_suffix("Backward").unwrap_or(name)
}
