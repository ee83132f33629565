//! The backward pass: from the roots, through every node that is needed, to the leaves.
//!
//! First the engine lists the part of the graph that the roots reach and counts each node's dependencies. Then each
//! node runs as soon as all its gradients have arrived, the most recently recorded first. Everything happens on the
//! calling thread, in an order that depends on the graph alone, so sums of gradients have the same bits each time.
//! Several threads may run backward passes at once, because they share no state. There is no recursion, so depth does
//! not matter.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};
use smallvec::SmallVec;

use crate::accumulate::{add_gradients, is_sole_owner};
use crate::arithmetic::arithmetic;
use crate::graph::{BackwardCall, Edge, Gradients, Node, Tensor};
use crate::modes::{self, GradMode};
use crate::saved::HooksGuard;
use crate::source_location::{Inducer, InducerGuard, Origin};
use crate::{source_location, validate};

/// The options of a backward pass.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// Keep saved tensors, so that the graph can be used again.
    pub retain_graph: bool,
    /// Record the backward pass itself, for gradients of gradients.
    pub create_graph: bool,
}

/// Adds the gradients of `outputs` (weighted by `grads`) to the `.grad` of all leaves, or of `inputs` only.
pub fn backward(
    outputs: &[Tensor],
    grads: &[Option<Tensor>],
    inputs: Option<&[Tensor]>,
    options: Options,
) -> Result<()> {
    if inputs.is_some_and(<[Tensor]>::is_empty) {
        return Err(Error::runtime("`inputs` argument to `backward()` cannot be empty."));
    }
    let roots = roots(outputs, grads)?;
    let targets = match inputs {
        None => None,
        Some(inputs) => {
            let mut targets = Vec::with_capacity(inputs.len());
            for input in inputs {
                input.retain_grad()?;
                if let Some(edge) = input.gradient_edge()? {
                    targets.push(Target { edge, action: TargetAction::Run });
                }
            }
            Some(targets)
        }
    };
    run_graph(roots, targets, options).map(drop)
}

impl Tensor {
    /// Adds the gradient of this tensor to the `.grad` of all leaves. A tensor of more than one element needs the `gradient` of what follows.
    pub fn backward(&self, gradient: Option<&Tensor>) -> Result<()> {
        backward(std::slice::from_ref(self), &[gradient.cloned()], None, Options::default())
    }
}

/// The gradients of `outputs` (weighted by `grads`) with respect to `inputs`; `.grad` stays as it is.
pub fn grad(
    outputs: &[Tensor],
    inputs: &[Tensor],
    grads: &[Option<Tensor>],
    allow_unused: bool,
    options: Options,
) -> Result<Vec<Option<Tensor>>> {
    if inputs.is_empty() {
        return Err(Error::runtime("`inputs` argument to `grad()` cannot be empty."));
    }
    let roots = roots(outputs, grads)?;
    let mut targets = Vec::with_capacity(inputs.len());
    for input in inputs {
        let Some(edge) = input.gradient_edge()? else {
            return Err(Error::runtime("One of the differentiated Tensors does not require grad"));
        };
        targets.push(Target { edge, action: TargetAction::Capture });
    }
    let captured = run_graph(roots, Some(targets), options)?;
    if let (false, Some(index)) = (allow_unused, captured.iter().position(Option::is_none)) {
        return Err(Error::runtime(format!(
            "The differentiated Tensor at index {index} appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."
        )));
    }
    Ok(captured)
}

/// The gradients that arrive at `targets` from `roots`, inside a backward pass and in its mode. The graph behind a
/// target is not visited.
pub(crate) fn between(roots: Vec<(Edge, Tensor)>, targets: &[Option<Edge>]) -> Result<Gradients> {
    let (edges, weights): (Vec<Edge>, Vec<Tensor>) = roots.into_iter().unzip();
    let capture = |edge: &Edge| Target { edge: edge.clone(), action: TargetAction::Capture };
    let wanted: Vec<Target> = targets.iter().flatten().map(capture).collect();
    let mut graph_task = GraphTask::list(&edges, &wanted);
    graph_task.select(&wanted);
    graph_task.run(&edges, weights, Options { retain_graph: true, create_graph: modes::recording() })?;
    let mut captured = std::mem::take(&mut graph_task.captured).into_iter();
    Ok(targets.iter().map(|target| target.as_ref().and_then(|_| captured.next().flatten())).collect())
}

/// The action of a backward pass at a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetAction {
    /// Returns the gradient to the caller.
    Capture,
    /// Runs the node with its hooks: a leaf's accumulator, or a node with a hook that keeps the gradient.
    Run,
}

struct Target {
    edge: Edge,
    action: TargetAction,
}

/// The roots of the backward pass, with their gradients.
fn roots(outputs: &[Tensor], grads: &[Option<Tensor>]) -> Result<Vec<(Edge, Tensor)>> {
    let mut weights = Vec::with_capacity(outputs.len());
    for (index, output) in outputs.iter().enumerate() {
        weights.push(match grads.get(index) {
            Some(Some(grad)) => Some(check_weight(index, output, grad)?),
            _ if output.requires_grad() => Some(implicit_weight(output)?),
            _ => None,
        });
    }
    let mut roots = Vec::with_capacity(outputs.len());
    for (index, (output, weight)) in outputs.iter().zip(weights).enumerate() {
        let edge = output.gradient_edge()?.filter(|_| output.requires_grad());
        let (Some(edge), Some(weight)) = (edge, weight) else {
            return Err(Error::runtime(format!(
                "element {index} of tensors does not require grad and does not have a grad_fn"
            )));
        };
        let weight = validate::fit(|| "GraphRoot", index, &weight, &edge)?.unwrap_or(weight);
        roots.push((edge, weight));
    }
    Ok(roots)
}

fn check_weight(index: usize, output: &Tensor, grad: &Tensor) -> Result<Tensor> {
    if grad.sizes() != output.sizes() {
        return Err(Error::runtime(format!(
            "Mismatch in shape: grad_output[{index}] has a shape of torch.Size({}) and output[{index}] has a shape of torch.Size({}).",
            Shape(grad.sizes()),
            Shape(output.sizes())
        )));
    }
    if grad.dtype().is_complex() != output.dtype().is_complex() {
        return Err(Error::runtime(format!(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: grad_output[{index}] has a dtype of {} and output[{index}] has a dtype of {}.",
            grad.dtype(),
            output.dtype()
        )));
    }
    Ok(grad.clone())
}

fn implicit_weight(output: &Tensor) -> Result<Tensor> {
    if output.numel() != 1 {
        return Err(Error::runtime("grad can be implicitly created only for scalar outputs"));
    }
    if !output.dtype().is_floating() {
        return Err(Error::runtime(format!(
            "grad can be implicitly created only for real scalar outputs but got {}",
            output.dtype()
        )));
    }
    (arithmetic()?.full)(output.sizes(), 1.0, output.dtype(), output.device())
}

/// A node in the backward pass.
struct NodeTask<'g> {
    node: &'g Arc<Node>,
    /// The index of the first of its edges' tasks in `GraphTask::successors`.
    first_successor: usize,
    /// The number of edges from nodes that have not run yet.
    dependencies: u32,
    /// Whether its function runs.
    executes: bool,
    /// Whether its gradients are themselves requested.
    requested: bool,
    /// Which output's gradient goes to which captured slot.
    captures: SmallVec<[(u32, usize); 1]>,
    grads: Gradients,
}

const NO_TASK: u32 = u32::MAX;
/// Capacity for this many nodes is allocated at once.
const INITIAL_CAPACITY: usize = 56;

struct GraphTask<'g> {
    tasks: Vec<NodeTask<'g>>,
    /// For each edge of each task the task it leads to, or `NO_TASK`.
    successors: Vec<u32>,
    index: HashMap<usize, u32, BuildHasherDefault<AddressHasher>>,
    captured: Vec<Option<Tensor>>,
    /// Whether it computes tangents; then no user's hook is called.
    tangents_visible: bool,
}

/// Addresses differ in their middle bits, and one multiplication spreads them.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }
    fn write_usize(&mut self, value: usize) {
        let mixed = (self.0 ^ value as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }
}

fn run_graph(
    roots: Vec<(Edge, Tensor)>,
    targets: Option<Vec<Target>>,
    options: Options,
) -> Result<Vec<Option<Tensor>>> {
    let (edges, weights): (Vec<Edge>, Vec<Tensor>) = roots.into_iter().unzip();
    let callbacks = Callbacks::open();
    let _mode = GradMode::for_backward(options.create_graph);
    let _hooks = HooksGuard::begin();
    let mut graph_task = GraphTask::list(&edges, &[]);
    match &targets {
        None => graph_task.tasks.iter_mut().for_each(|task| task.executes = true),
        Some(targets) => graph_task.select(targets),
    }
    graph_task.run(&edges, weights, options)?;
    let captured = std::mem::take(&mut graph_task.captured);
    callbacks.run()?;
    Ok(captured)
}

impl<'g> GraphTask<'g> {
    /// Lists all nodes that the roots reach, up to `bounds`, and counts dependencies.
    fn list(roots: &'g [Edge], bounds: &[Target]) -> GraphTask<'g> {
        let mut graph_task = GraphTask {
            tasks: Vec::with_capacity(INITIAL_CAPACITY),
            successors: Vec::with_capacity(INITIAL_CAPACITY),
            index: HashMap::with_capacity_and_hasher(INITIAL_CAPACITY, BuildHasherDefault::default()),
            captured: Vec::new(),
            tangents_visible: modes::current().tangents_visible,
        };
        for root in roots {
            graph_task.find_or_add(root.node());
        }
        let mut next = 0;
        while next < graph_task.tasks.len() {
            let node = graph_task.tasks[next].node;
            graph_task.tasks[next].first_successor = graph_task.successors.len();
            let ends = bounds.iter().any(|bound| Arc::ptr_eq(bound.edge.node(), node));
            for edge in node.edges() {
                let followed = edge.as_ref().filter(|edge| !ends && edge.is_followed(graph_task.tangents_visible));
                let successor = followed.map_or(NO_TASK, |edge| graph_task.find_or_add(edge.node()));
                graph_task.successors.push(successor);
                if successor != NO_TASK {
                    graph_task.tasks[successor as usize].dependencies += 1;
                }
            }
            next += 1;
        }
        graph_task
    }

    fn find_or_add(&mut self, node: &'g Arc<Node>) -> u32 {
        let fresh = self.tasks.len() as u32;
        let task = *self.index.entry(Arc::as_ptr(node).addr()).or_insert(fresh);
        if task == fresh {
            self.tasks.push(NodeTask {
                node,
                first_successor: 0,
                dependencies: 0,
                executes: false,
                requested: false,
                captures: SmallVec::new(),
                grads: Gradients::new(),
            });
        }
        task
    }

    fn successors_of(&self, task: usize) -> &[u32] {
        let NodeTask { node, first_successor, .. } = &self.tasks[task];
        &self.successors[*first_successor..first_successor + node.edges().len()]
    }

    fn is_wanted(&self, task: u32) -> bool {
        task != NO_TASK && (self.tasks[task as usize].executes || self.tasks[task as usize].requested)
    }

    /// Marks the nodes between the roots and the targets.
    fn select(&mut self, targets: &[Target]) {
        self.captured = vec![None; targets.len()];
        for (place, target) in targets.iter().enumerate() {
            let Some(&task) = self.index.get(&Arc::as_ptr(target.edge.node()).addr()) else { continue };
            let task = &mut self.tasks[task as usize];
            task.requested = true;
            match target.action {
                TargetAction::Run => task.executes = true,
                TargetAction::Capture => task.captures.push((target.edge.output, place)),
            }
        }
        for task in self.topological_order().into_iter().rev() {
            if self.successors_of(task).iter().any(|&successor| self.is_wanted(successor)) {
                self.tasks[task].executes = true;
            }
        }
    }

    fn topological_order(&self) -> Vec<usize> {
        let mut waiting: Vec<u32> = self.tasks.iter().map(|task| task.dependencies).collect();
        let mut order: Vec<usize> = (0..waiting.len()).filter(|&task| waiting[task] == 0).collect();
        let mut next = 0;
        while next < order.len() {
            for &successor in self.successors_of(order[next]) {
                if successor != NO_TASK {
                    waiting[successor as usize] -= 1;
                    if waiting[successor as usize] == 0 {
                        order.push(successor as usize);
                    }
                }
            }
            next += 1;
        }
        order
    }

    fn run(&mut self, edges: &[Edge], weights: Vec<Tensor>, options: Options) -> Result<()> {
        let mut ready = BinaryHeap::new();
        for (edge, weight) in edges.iter().zip(weights) {
            let task = self.find(edge);
            self.add_gradient(task, edge.output, weight)?;
        }
        for (place, task) in self.tasks.iter().enumerate() {
            if task.dependencies == 0 && (task.executes || task.requested) {
                ready.push((task.node.sequence(), Reverse(place)));
            }
        }
        while let Some((_, Reverse(place))) = ready.pop() {
            let node = self.tasks[place].node;
            let mut results = self.visit(place, options).map_err(|error| explain(error, node))?;
            if !self.tasks[place].executes {
                continue;
            }
            let first = self.tasks[place].first_successor;
            for (number, edge) in node.edges().iter().enumerate() {
                let successor = self.successors[first + number];
                let (Some(edge), true) = (edge, self.is_wanted(successor)) else { continue };
                if let Some(grad) = results.get_mut(number).and_then(Option::take) {
                    self.add_gradient(successor as usize, edge.output, grad)?;
                }
                let task = &mut self.tasks[successor as usize];
                task.dependencies -= 1;
                if task.dependencies == 0 {
                    ready.push((task.node.sequence(), Reverse(successor as usize)));
                }
            }
        }
        Ok(())
    }

    fn find(&self, edge: &Edge) -> usize {
        self.index[&Arc::as_ptr(edge.node()).addr()] as usize
    }

    /// Adds a gradient to those that have arrived at a task.
    fn add_gradient(&mut self, task: usize, output: u32, grad: Tensor) -> Result<()> {
        let task = &mut self.tasks[task];
        if task.grads.is_empty() {
            task.grads.resize(task.node.outputs().len(), None);
        }
        let place = &mut task.grads[output as usize];
        *place = Some(match place.take() {
            None => grad,
            Some(sum)
                if !modes::recording()
                    && is_sole_owner(&sum)
                    && sum.is_plain()
                    && !grad.is_batched()
                    && sum.layout().is_contiguous() =>
            {
                (arithmetic()?.add_)(&sum, &grad)?;
                sum
            }
            Some(sum) => add_gradients(&sum, &grad)?,
        });
        Ok(())
    }

    /// Runs a node: the hooks of its tensors, the captures, its function.
    fn visit(&mut self, place: usize, options: Options) -> Result<Gradients> {
        let node = self.tasks[place].node;
        let mut grads = std::mem::take(&mut self.tasks[place].grads);
        grads.resize(node.outputs().len(), None);
        let hooks = node.existing_hooks().filter(|_| !self.tangents_visible);
        if let Some(hooks) = hooks {
            hooks.run_tensor_hooks(&mut grads)?;
        }
        for &(output, slot) in &self.tasks[place].captures {
            self.captured[slot] = grads[output as usize].clone();
        }
        if !self.tasks[place].executes {
            return Ok(Gradients::new());
        }
        if let Some(hooks) = hooks {
            hooks.run_pre_hooks(&mut grads)?;
        }
        // The results of such a node are for tangents only, too.
        let _mode = (node.is_for_tangents() && options.create_graph).then(GradMode::tangents_only);
        let function = node.function();
        let needs: SmallVec<[bool; 8]> = self.successors_of(place).iter().map(|&task| self.is_wanted(task)).collect();
        let given = hooks.map(|hooks| (hooks, grads.clone()));
        let is_checked = !self.tangents_visible && modes::anomaly_enabled() && modes::anomaly_checks_nan();
        let was_finite = is_checked && first_infinite(&grads)?.is_none();
        // For tangents, a missing gradient says that there is none, so it must not become one of zeros.
        let runs_anyway = function.runs_without_gradients() && !self.tangents_visible;
        // A tangent of this pass's results needs the saved tensors once more.
        let releases = !options.retain_graph && !modes::current().tangents;
        let mut results = match grads.iter().all(Option::is_none) && !runs_anyway {
            true => SmallVec::from_elem(None, needs.len()),
            false => {
                let _inducer =
                    modes::anomaly_enabled().then(|| InducerGuard::begin(node.name(), node.origin().cloned()));
                function.apply(&BackwardCall { node, needs: &needs, slice: None, releases }, grads)?
            }
        };
        if releases {
            function.release();
        }
        validate::check_results(node, &mut results)?;
        if is_checked {
            check_nan(node, &results)?;
        }
        if was_finite && let Some(index) = first_infinite(&results)? {
            source_location::announce(&format!(
                "Function '{}' returned inf values in its {index}th output.{}",
                node.name(),
                lines(node.origin()).map_or(String::new(), |lines| format!(" Traceback of its forward call:\n{lines}"))
            ));
        }
        if let Some((hooks, given)) = given {
            hooks.run_post_hooks(&mut results, &given)?;
        }
        Ok(results)
    }
}

/// The index of the first gradient that has an infinite element.
fn first_infinite(grads: &Gradients) -> Result<Option<usize>> {
    for (index, grad) in grads.iter().enumerate() {
        if let Some(grad) = grad
            && (arithmetic()?.has_inf)(grad)?
        {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

fn check_nan(node: &Node, results: &Gradients) -> Result<()> {
    for (index, result) in results.iter().enumerate() {
        if let Some(grad) = result
            && (arithmetic()?.has_nan)(grad)?
        {
            return Err(Error::runtime(format!(
                "Function '{}' returned nan values in its {index}th output.",
                node.name()
            )));
        }
    }
    Ok(())
}

/// The error of a node. A Python exception shows no note, but a warning of anomaly detection has the same information.
#[cold]
fn explain(error: Error, node: &Node) -> Error {
    if modes::anomaly_enabled() {
        source_location::announce(&anomaly_message(node));
        let mut next = node.origin().and_then(|origin| origin.induced_by.as_ref());
        while let Some(inducer) = next {
            source_location::announce(&inducer_message(inducer));
            next = inducer.origin.as_ref().and_then(|origin| origin.induced_by.as_ref());
        }
    }
    note(error, node)
}

/// Adds the node and the user's line that recorded it.
#[cold]
pub fn note(error: Error, node: &Node) -> Error {
    match node.source_location().describe() {
        Some(line) => error.note(format!("in {}, the derivative of the call at {line}", node.name())),
        None => error.note(format!("in {}", node.name())),
    }
}

fn lines(origin: Option<&Arc<Origin>>) -> Option<&str> {
    origin.and_then(|origin| origin.lines.as_deref())
}

fn inducer_message(inducer: &Inducer) -> String {
    let name = &inducer.name;
    match lines(inducer.origin.as_ref()) {
        Some(lines) => format!(
            "\n\nPrevious calculation was induced by {name}. Traceback of forward call that induced the previous calculation:\n{lines}"
        ),
        None => format!(
            "\n\nPrevious calculation was induced by {name}. No forward pass information available. Enable detect anomaly during forward pass for more information."
        ),
    }
}

fn anomaly_message(node: &Node) -> String {
    match lines(node.origin()) {
        Some(lines) => {
            format!("Error detected in {}. Traceback of forward call that caused the error:\n{lines}", node.name())
        }
        None => format!(
            "Error detected in {}. No forward pass information available. Enable detect anomaly during forward pass for more information.",
            node.name()
        ),
    }
}

/// A function to be called when the current backward pass has ended.
pub type Callback = Box<dyn FnOnce() -> Result<()>>;

thread_local! {
    /// One list for each active backward pass of this thread, because a node may begin another one.
    static CALLBACKS: RefCell<Vec<Vec<Callback>>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread is inside a backward pass.
pub fn in_backward() -> bool {
    CALLBACKS.with_borrow(|passes| !passes.is_empty())
}

/// Runs `callback` when the current backward pass has ended.
pub fn queue_callback(callback: Callback) -> Result<()> {
    CALLBACKS.with_borrow_mut(|passes| match passes.last_mut() {
        Some(list) => {
            list.push(callback);
            Ok(())
        }
        None => Err(Error::runtime("Final callbacks can only be installed during backward pass.")),
    })
}

/// The list of one backward pass.
struct Callbacks;

impl Callbacks {
    fn open() -> Callbacks {
        CALLBACKS.with_borrow_mut(|passes| passes.push(Vec::new()));
        Callbacks
    }

    /// Runs all callbacks, including those that they queue themselves.
    fn run(self) -> Result<()> {
        loop {
            let list = CALLBACKS.with_borrow_mut(|passes| passes.last_mut().map(std::mem::take)).unwrap_or_default();
            if list.is_empty() {
                return Ok(());
            }
            list.into_iter().try_for_each(|callback| callback())?;
        }
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        let list = CALLBACKS.with_borrow_mut(Vec::pop);
        drop(list);
    }
}
