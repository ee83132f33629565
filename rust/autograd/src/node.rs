//! A node of the graph: one recorded operator call, or a leaf's accumulator.

use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use once_cell::race::OnceBox;
use rushlight_core::Result;
use rushlight_core::layout::copied;
use smallvec::SmallVec;

use crate::arithmetic::arithmetic;
use crate::graph::{
    AccumulateGrad, Backward, BackwardCall, Edge, Edges, Gradients, Node, NodeHooks, OutputMeta, Reachable, Tensor,
};
use crate::modes;
use crate::source_location::{self, Origin, SourceLocation};

impl From<&Tensor> for OutputMeta {
    fn from(tensor: &Tensor) -> Self {
        OutputMeta { sizes: copied(tensor.sizes()), dtype: tensor.dtype(), device: tensor.device() }
    }
}

/// Whether records are for tangents only at present: gradients are disabled, or every input is for tangents only.
#[inline]
fn serves_tangents(edges: &Edges) -> bool {
    modes::tangents_used() && serve_tangents(edges)
}

#[cold]
fn serve_tangents(edges: &Edges) -> bool {
    let modes = modes::current();
    let mut inputs = edges.iter().flatten().peekable();
    !modes.grad
        || !modes.tangents_visible && inputs.peek().is_some() && inputs.all(|edge| edge.node().is_for_tangents())
}

thread_local! {
    static SEQUENCE: Cell<u64> = const { Cell::new(0) };
}

/// A reserved position in this thread's order of nodes, for calls that another thread will record. Gradients are then
/// summed in the same order as if the calls had been recorded here, regardless of when and where they are recorded.
pub struct SequenceRange(u64);

impl SequenceRange {
    /// More nodes than a call records; beyond that the order relative to later nodes is not fixed.
    const LENGTH: u64 = 1 << 32;

    pub fn reserve() -> SequenceRange {
        let first = SEQUENCE.get();
        SEQUENCE.set(first.wrapping_add(Self::LENGTH));
        SequenceRange(first)
    }

    /// Runs `work`, whose nodes are recorded at this position.
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

/// The number of the next node that this thread records, if it records.
pub fn next_sequence() -> Option<u64> {
    modes::recording().then(|| SEQUENCE.get())
}

impl<F: Backward> Node<F> {
    /// Links a function into the graph: `edges` lead to its inputs, `outputs` describe what it returned.
    #[inline]
    pub fn new(function: F, edges: Edges, outputs: SmallVec<[OutputMeta; 1]>) -> Arc<Node<F>> {
        let sequence = SEQUENCE.get();
        SEQUENCE.set(sequence + 1);
        let for_tangents = serves_tangents(&edges);
        let origin = if modes::anomaly_enabled() { Some(source_location::origin()) } else { None };
        let room = Arc::<Node<F>>::new_uninit();
        let place = Arc::as_ptr(&room).cast_mut().cast::<Node<F>>();
        // Half a kilobyte is written in place, field by field, instead of being moved as a whole. SAFETY: there is no
        // other handle, and every field is written.
        unsafe {
            (&raw mut (*place).edges).write(edges);
            (&raw mut (*place).outputs).write(outputs);
            (&raw mut (*place).sequence).write(sequence);
            (&raw mut (*place).source_location).write(SourceLocation::here());
            (&raw mut (*place).origin).write(origin);
            (&raw mut (*place).for_tangents).write(for_tangents);
            (&raw mut (*place).hooks).write(OnceBox::new());
            (&raw mut (*place).function).write(function);
            room.assume_init()
        }
    }

    /// A node that runs before all others that are ready; it has no inputs, or one for tangents only.
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
            source_location: SourceLocation::default(),
            origin: None,
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

    /// The name without the C++ namespace that torch gives to nodes that are not operators'.
    pub fn short_name(&self) -> &str {
        let name = self.name();
        name.rsplit_once("::").map_or(name, |(_, last)| last)
    }

    /// One for each input; torch's `next_functions`.
    pub fn edges(&self) -> &[Option<Edge>] {
        &self.edges
    }

    /// Whether the node is for tangents only.
    #[inline]
    pub fn is_for_tangents(&self) -> bool {
        self.for_tangents
    }

    pub fn outputs(&self) -> &[OutputMeta] {
        &self.outputs
    }

    /// Increases with every node that this thread records; the most recently recorded nodes run first.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The user's line that called the forward function.
    pub fn source_location(&self) -> SourceLocation {
        self.source_location
    }

    /// Where it was made; `None` unless anomaly detection was on.
    pub(crate) fn origin(&self) -> Option<&Arc<Origin>> {
        self.origin.as_ref()
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
}

/// How many edges behind a node the garbage collector follows.
const REACH: usize = 1000;

impl Node {
    /// The function as its concrete type, if it is of type `T`.
    pub fn function_as<T: Backward>(&self) -> Option<&T> {
        (&self.function as &dyn Any).downcast_ref()
    }

    /// The hooks, unless they outlive the node because its leaf has them too.
    fn own_hooks(&self) -> Option<&NodeHooks> {
        let hooks = self.hooks.get()?;
        let leaf = self.function_as::<AccumulateGrad>();
        let dies = leaf.is_none_or(|leaf| leaf.variable().owners() == 1);
        (Arc::strong_count(hooks) == 1 || dies).then_some(&**hooks)
    }

    /// Visits the Python objects that are freed with the node, as far as they are found soon. It serves Python's garbage
    /// collector, which may rely on the result only if the caller has the only handle on the node.
    ///
    /// The nodes behind this one are freed with it if all edges that lead to them come from nodes that are, and so are
    /// the tensors of which such nodes hold all handles.
    pub fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        let mut kept: SmallVec<[(*mut c_void, usize, usize); 4]> = SmallVec::new();
        let mut found: HashMap<usize, usize> = HashMap::new();
        let (mut open, mut reach): (Vec<Edge>, usize) = (Vec::new(), REACH);
        let mut current: Option<Edge> = None;
        loop {
            let node: &Node = current.as_ref().map_or(self, |edge| edge.node());
            node.function.objects(visit);
            if let Some(hooks) = node.own_hooks() {
                hooks.objects(visit);
            }
            // `own` is how many handles on the node this walk has itself.
            let mut meet = |edge: &Edge, own: usize| {
                if reach > 0 {
                    reach -= 1;
                    let handles = found.entry(Arc::as_ptr(edge.node()).addr()).or_default();
                    *handles += 1;
                    if *handles == Arc::strong_count(edge.node()) - own {
                        open.push(edge.clone());
                    }
                }
            };
            node.edges.iter().flatten().for_each(|edge| meet(edge, 0));
            node.function.reachable(&mut |found| match found {
                Reachable::History(edge) => meet(&edge, 1),
                Reachable::Object { python, owners } => match kept.iter_mut().find(|(other, _, _)| *other == python) {
                    Some((_, _, handles)) => *handles += 1,
                    None => kept.push((python, owners, 1)),
                },
            });
            current = open.pop();
            if current.is_none() {
                break;
            }
        }
        for (python, owners, handles) in kept {
            if handles + 1 == owners {
                visit(python);
            }
        }
    }

    /// Drops hooks and saved tensors, which Python's garbage collector found to be unreachable.
    pub fn forget_objects(&self) {
        if let Some(hooks) = self.own_hooks() {
            hooks.clear();
        }
        self.function.forget_objects();
    }
}

impl Node {
    /// Runs the function alone, for gradients of every input, without hooks or further nodes.
    pub fn run(self: &Arc<Node>, mut grads: Gradients) -> Result<Gradients> {
        grads.resize(self.outputs.len(), None);
        let needs: SmallVec<[bool; 8]> = self.edges.iter().map(Option::is_some).collect();
        self.function.apply(&BackwardCall { node: self, needs: &needs, slice: None, releases: false }, grads)
    }
}

impl<'a> BackwardCall<'a> {
    /// A call for inspecting a node's saved tensors while it does not run.
    pub fn outside(node: &'a Arc<Node>) -> BackwardCall<'a> {
        BackwardCall { node, needs: &[], slice: node.function().slice(), releases: false }
    }

    /// Whether the gradient of input `index` is needed.
    #[inline]
    pub fn needs(&self, index: usize) -> bool {
        self.needs.get(index).copied().unwrap_or(false)
    }

    /// A gradient of zeros for an output without a gradient.
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
