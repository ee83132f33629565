//! The walk backwards: from the roots, through every node that is needed, to the leaves.
//!
//! First the part of the graph that the roots reach is listed and each node's dependencies are counted. Then nodes
//! run as soon as all gradients that they wait for have arrived, those recorded last first. Everything happens on the
//! calling thread, in an order that depends on the graph alone, so sums of gradients have the same bits each time; several
//! threads may walk at once, since all state of a walk is its own. Nothing recurses, so depth does not matter.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};
use smallvec::SmallVec;

use crate::accumulate::{is_sole_owner, together};
use crate::arithmetic::arithmetic;
use crate::edge::Edge;
use crate::modes::{self, GradMode};
use crate::node::{Call, Gradients, Node};
use crate::origin;
use crate::tensor::Tensor;
use crate::validate;

/// How a walk is done.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// Keep what was saved, so that the graph can be walked again.
    pub retain_graph: bool,
    /// Record the walk itself, for gradients of gradients.
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
                    targets.push(Target { edge, use_: if input.is_leaf() { Use::Accumulate } else { Use::Reach } });
                }
            }
            Some(targets)
        }
    };
    walk(roots, targets, options).map(drop)
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
        targets.push(Target { edge, use_: Use::Capture });
    }
    let captured = walk(roots, Some(targets), options)?;
    if let (false, Some(index)) = (allow_unused, captured.iter().position(Option::is_none)) {
        return Err(Error::runtime(format!(
            "The differentiated Tensor at index {index} appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."
        )));
    }
    Ok(captured)
}

/// The gradients that arrive at `targets` from `roots`, inside of a walk and in its mode. What lies behind a target is not
/// looked at.
pub(crate) fn between(roots: Vec<(Edge, Tensor)>, targets: &[Option<Edge>]) -> Result<Gradients> {
    let (edges, weights): (Vec<Edge>, Vec<Tensor>) = roots.into_iter().unzip();
    let capture = |edge: &Edge| Target { edge: edge.clone(), use_: Use::Capture };
    let wanted: Vec<Target> = targets.iter().flatten().map(capture).collect();
    let mut walk = Walk::list(&edges, &wanted);
    walk.select(&wanted);
    walk.run(&edges, weights, Options { retain_graph: true, create_graph: modes::recording() })?;
    let mut captured = std::mem::take(&mut walk.captured).into_iter();
    Ok(targets.iter().map(|target| target.as_ref().and_then(|_| captured.next().flatten())).collect())
}

/// What the walk does where it reaches a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Hands the gradient to the caller.
    Capture,
    /// Runs the leaf's accumulator.
    Accumulate,
    /// Nothing but the hooks, one of which keeps the gradient.
    Reach,
}

struct Target {
    edge: Edge,
    use_: Use,
}

/// Where the walk begins, with which gradients.
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
        let meta = &edge.node().outputs()[edge.output as usize];
        let weight = validate::fit(|| "GraphRoot", index, &weight, meta)?.unwrap_or(weight);
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

/// A node in the walk.
struct Task<'g> {
    node: &'g Arc<Node>,
    /// Where the tasks of its edges stand in `Walk::successors`.
    first_successor: usize,
    /// How many edges still lead here from nodes that have not run.
    dependencies: u32,
    /// Whether its function runs.
    executes: bool,
    /// Whether its gradients are wanted for themselves.
    reached: bool,
    /// Which output's gradient goes to which place of the captured ones.
    captures: SmallVec<[(u32, usize); 1]>,
    grads: Gradients,
}

const NOWHERE: u32 = u32::MAX;
/// Room for this many nodes is taken at once.
const FEW: usize = 56;

struct Walk<'g> {
    tasks: Vec<Task<'g>>,
    /// For each edge of each task the task it leads to, or `NOWHERE`.
    successors: Vec<u32>,
    index: HashMap<usize, u32, BuildHasherDefault<AddressHasher>>,
    captured: Vec<Option<Tensor>>,
    /// Whether it is after tangents: then it is none of the user's, and no hook hears of it.
    shown: bool,
}

/// Addresses differ in their middle bits already: one multiplication spreads them.
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

fn walk(roots: Vec<(Edge, Tensor)>, targets: Option<Vec<Target>>, options: Options) -> Result<Vec<Option<Tensor>>> {
    let (edges, weights): (Vec<Edge>, Vec<Tensor>) = roots.into_iter().unzip();
    let callbacks = Callbacks::open();
    let _mode = GradMode::of_walk(options.create_graph);
    let mut walk = Walk::list(&edges, &[]);
    match &targets {
        None => walk.tasks.iter_mut().for_each(|task| task.executes = true),
        Some(targets) => walk.select(targets),
    }
    walk.run(&edges, weights, options)?;
    let captured = std::mem::take(&mut walk.captured);
    callbacks.run()?;
    Ok(captured)
}

impl<'g> Walk<'g> {
    /// Lists all nodes that the roots reach, not beyond `bounds`, and counts dependencies.
    fn list(roots: &'g [Edge], bounds: &[Target]) -> Walk<'g> {
        let mut walk = Walk {
            tasks: Vec::with_capacity(FEW),
            successors: Vec::with_capacity(FEW),
            index: HashMap::with_capacity_and_hasher(FEW, BuildHasherDefault::default()),
            captured: Vec::new(),
            shown: modes::current().shown,
        };
        for root in roots {
            walk.find_or_add(root.node());
        }
        let mut next = 0;
        while next < walk.tasks.len() {
            let node = walk.tasks[next].node;
            walk.tasks[next].first_successor = walk.successors.len();
            let ends = bounds.iter().any(|bound| Arc::ptr_eq(bound.edge.node(), node));
            for edge in node.edges() {
                let followed = edge.as_ref().filter(|edge| !ends && edge.is_followed(walk.shown));
                let successor = followed.map_or(NOWHERE, |edge| walk.find_or_add(edge.node()));
                walk.successors.push(successor);
                if successor != NOWHERE {
                    walk.tasks[successor as usize].dependencies += 1;
                }
            }
            next += 1;
        }
        walk
    }

    fn find_or_add(&mut self, node: &'g Arc<Node>) -> u32 {
        let fresh = self.tasks.len() as u32;
        let task = *self.index.entry(Arc::as_ptr(node).addr()).or_insert(fresh);
        if task == fresh {
            self.tasks.push(Task {
                node,
                first_successor: 0,
                dependencies: 0,
                executes: false,
                reached: false,
                captures: SmallVec::new(),
                grads: Gradients::new(),
            });
        }
        task
    }

    fn successors_of(&self, task: usize) -> &[u32] {
        let Task { node, first_successor, .. } = &self.tasks[task];
        &self.successors[*first_successor..first_successor + node.edges().len()]
    }

    fn is_wanted(&self, task: u32) -> bool {
        task != NOWHERE && (self.tasks[task as usize].executes || self.tasks[task as usize].reached)
    }

    /// Marks the nodes that lie between the roots and the targets.
    fn select(&mut self, targets: &[Target]) {
        self.captured = vec![None; targets.len()];
        for (place, target) in targets.iter().enumerate() {
            let Some(&task) = self.index.get(&Arc::as_ptr(target.edge.node()).addr()) else { continue };
            let task = &mut self.tasks[task as usize];
            task.reached = true;
            match target.use_ {
                Use::Accumulate => task.executes = true,
                Use::Capture => task.captures.push((target.edge.output, place)),
                Use::Reach => {}
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
                if successor != NOWHERE {
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
            self.deliver(task, edge.output, weight)?;
        }
        for (place, task) in self.tasks.iter().enumerate() {
            if task.dependencies == 0 && (task.executes || task.reached) {
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
                    self.deliver(successor as usize, edge.output, grad)?;
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

    /// Adds a gradient to those that wait at a task.
    fn deliver(&mut self, task: usize, output: u32, grad: Tensor) -> Result<()> {
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
                    && !grad.is_mapped()
                    && sum.layout().is_contiguous() =>
            {
                (arithmetic()?.add_)(&sum, &grad)?;
                sum
            }
            Some(sum) => together(&sum, &grad)?,
        });
        Ok(())
    }

    /// Runs a node: the hooks of its tensors, what the caller wants to have, its function.
    fn visit(&mut self, place: usize, options: Options) -> Result<Gradients> {
        let node = self.tasks[place].node;
        let mut grads = std::mem::take(&mut self.tasks[place].grads);
        grads.resize(node.outputs().len(), None);
        let hooks = node.existing_hooks().filter(|_| !self.shown);
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
        // What comes of such a node is for tangents too.
        let _mode = (node.is_for_tangents() && options.create_graph).then(GradMode::tangents_alone);
        let function = node.function();
        let needs: SmallVec<[bool; 8]> = self.successors_of(place).iter().map(|&task| self.is_wanted(task)).collect();
        let given = hooks.map(|hooks| (hooks, grads.clone()));
        let mut results = match grads.iter().all(Option::is_none) && !function.runs_without_gradients() {
            true => SmallVec::from_elem(None, needs.len()),
            false => function.apply(&Call { node, needs: &needs, slice: None }, grads)?,
        };
        // A tangent of what this walk finds passes here once more.
        if !options.retain_graph && !modes::current().tangents {
            function.release();
        }
        validate::check_results(node, &mut results)?;
        if !self.shown && modes::anomaly_enabled() && modes::anomaly_checks_nan() {
            check_nan(node, &results)?;
        }
        if let Some((hooks, given)) = given {
            hooks.run_post_hooks(&mut results, &given)?;
        }
        Ok(results)
    }
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

/// Adds the node and the user's line that recorded it. An exception of Python's shows no note; what the search for
/// anomalies says of it stands in a warning.
#[cold]
fn explain(error: Error, node: &Node) -> Error {
    if modes::anomaly_enabled()
        && let Err(raised) = origin::warn(&accusation(node))
    {
        return raised;
    }
    match node.origin().describe() {
        Some(line) => error.note(format!("in {}, the derivative of the call at {line}", node.name())),
        None => error.note(format!("in {}", node.name())),
    }
}

fn accusation(node: &Node) -> String {
    match node.trace() {
        Some(lines) => {
            format!("Error detected in {}. Traceback of forward call that caused the error:\n{lines}", node.name())
        }
        None => format!(
            "Error detected in {}. No forward pass information available. Enable detect anomaly during forward pass for more information.",
            node.name()
        ),
    }
}

/// What is to be done once the walk that runs now has ended.
pub type Callback = Box<dyn FnOnce() -> Result<()>>;

thread_local! {
    /// One list for each walk that this thread is in; a node may begin another walk.
    static CALLBACKS: RefCell<Vec<Vec<Callback>>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread is inside a walk.
pub fn walking() -> bool {
    CALLBACKS.with_borrow(|walks| !walks.is_empty())
}

/// Runs `callback` when the current walk has ended.
pub fn queue_callback(callback: Callback) -> Result<()> {
    CALLBACKS.with_borrow_mut(|walks| match walks.last_mut() {
        Some(list) => {
            list.push(callback);
            Ok(())
        }
        None => Err(Error::runtime("Final callbacks can only be installed during backward pass.")),
    })
}

/// The list of one walk.
struct Callbacks;

impl Callbacks {
    fn open() -> Callbacks {
        CALLBACKS.with_borrow_mut(|walks| walks.push(Vec::new()));
        Callbacks
    }

    /// Runs them all; those that they queue themselves too.
    fn run(self) -> Result<()> {
        loop {
            let list = CALLBACKS.with_borrow_mut(|walks| walks.last_mut().map(std::mem::take)).unwrap_or_default();
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
