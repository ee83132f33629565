//! The graph node of a call: what it saves for its derivative, and how the derivative runs.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, Ordering};

use rushlight_autograd::{Backward, BackwardCall, Gradients, InPlace, Reachable, SavedTensor, Tensor, modes};
use rushlight_core::{Dims, Error, Result};
use smallvec::SmallVec;

use crate::derivative::fit;
use crate::naming::{names, node_name};
use crate::operator::{Args, BackwardContext, Derivative, Formula, Implementation, Operator, Saves, Tags};
use crate::primitives::primitives;
use crate::saved_meta::SavedMeta;
use crate::signature::{Kind, Param, Returns};
use crate::value::{Arg, Output, Value};
use crate::{create, handled, profile, vmap};

/// The derivative of one recorded call of an operator.
pub struct OperatorNode {
    op: &'static Operator,
    /// The arguments other than tensors, if they are not just the defaults.
    args: Option<Box<Args<'static>>>,
    /// Every tensor argument, in order.
    inputs: SmallVec<[SavedMeta; 2]>,
    /// For each edge of the node: the index in `inputs` to which it leads, or `NO_INPUT`.
    edges: SmallVec<[usize; 2]>,
    results: SmallVec<[SavedMeta; 1]>,
    /// For each output of the node: its index in `results` (integers have no gradient).
    outputs: SmallVec<[usize; 1]>,
    saved_inputs: SmallVec<[Option<SavedTensor>; 2]>,
    saved_results: SmallVec<[Option<SavedTensor>; 1]>,
    number: SavedScalar,
    in_place: bool,
}

/// The input of an edge that leads to no tensor: an optional argument was omitted, or was a number.
const NO_INPUT: usize = usize::MAX;

/// A number among the operands that the derivative reads: `2` in `x * 2`. It is stored with the other arguments. A
/// tensor in its position would be released by a first backward pass, so a second one raises an error for the number
/// too.
#[derive(Default)]
struct SavedScalar(AtomicU8);

impl SavedScalar {
    const HELD: u8 = 1;
    const RELEASED: u8 = 2;

    fn of(args: &Args, saves: Saves) -> SavedScalar {
        let params = &args.op.schema().params;
        // A third operand (the weight of `lerp`) has an overload for numbers, which stores them as such.
        let held = (0..2).filter(|&place| saves.has_input(place)).any(|place| {
            let open = args.values.get(place).is_some_and(|value| value.as_tensor().is_none());
            open && params[place].kind == Kind::Operand
        });
        SavedScalar(AtomicU8::new(if held { SavedScalar::HELD } else { 0 }))
    }

    fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) == SavedScalar::RELEASED {
            Err(rushlight_autograd::released())
        } else {
            Ok(())
        }
    }

    fn release(&self) {
        if self.0.load(Ordering::Relaxed) == SavedScalar::HELD {
            self.0.store(SavedScalar::RELEASED, Ordering::Relaxed);
        }
    }
}

impl Backward for OperatorNode {
    fn name(&self) -> &str {
        let cases = names(self.op);
        let number = || {
            let operands = self.op.schema().params.iter().zip(self.args.iter().flat_map(|args| &args.values));
            let is_number = |(_, (param, value)): &(usize, (&Param, &Value))| {
                let number = matches!(value, Value::Scalar(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_));
                param.kind == Kind::Operand && number
            };
            let place = operands.enumerate().find(is_number)?.0;
            cases.case(if place == 0 { "first" } else { "number" })
        };
        let own = if self.in_place { cases.case("in_place") } else { None };
        own.or_else(number).unwrap_or_else(|| node_name(self.op))
    }

    fn apply(&self, call: &BackwardCall<'_>, grads: Gradients) -> Result<Gradients> {
        profile::node(self.op, call, || handled::derive(|| self.gradients(call, grads)))
    }

    fn release(&self) {
        for saved in self.saved_inputs.iter().chain(&self.saved_results).flatten() {
            saved.release();
        }
        self.number.release();
    }

    fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        self.saved_inputs.iter().chain(&self.saved_results).flatten().for_each(|saved| saved.objects(visit));
    }

    fn reachable(&self, visit: &mut dyn FnMut(Reachable)) {
        self.saved_inputs
            .iter()
            .chain(&self.saved_results)
            .flatten()
            .filter_map(SavedTensor::reachable)
            .for_each(visit);
    }
}

impl OperatorNode {
    /// The edges in the order of their formulas. If the formulas are recorded, the sums of second gradients follow from it:
    /// torch computes the gradients in the order of the operands' names.
    fn order(&self) -> SmallVec<[usize; 4]> {
        let mut order: SmallVec<[usize; 4]> = (0..self.edges.len()).collect();
        if order.len() > 1 && modes::recording() {
            let params = &self.op.schema().params;
            let place = |edge: &usize| self.inputs.get(self.edges[*edge]).map(|meta| meta.place);
            order.sort_by_key(|edge| place(edge).and_then(|place| params.get(place)).map(|param| param.name));
        }
        order
    }

    fn gradients(&self, call: &BackwardCall<'_>, grads: Gradients) -> Result<Gradients> {
        self.number.check()?;
        let unpack = |saved: &Option<SavedTensor>| saved.as_ref().map(|saved| call.unpack(saved)).transpose();
        let wanted = self.wanted(call);
        let defaults;
        let args = match &self.args {
            Some(args) => &**args,
            None => {
                defaults = Args::new(self.op, []);
                &defaults
            }
        };
        let context = BackwardContext {
            args,
            inputs: &self.inputs,
            results: &self.results,
            saved_inputs: self.saved_inputs.iter().map(unpack).collect::<Result<_>>()?,
            saved_results: self.saved_results.iter().map(unpack).collect::<Result<_>>()?,
            grads: self.of_results(grads),
            wanted: &wanted,
            releases: call.releases,
        };
        if let Some(found) = handled::gradients(&context)? {
            return self.of_edges(&wanted, |input, meta| self.fitted(found.get(input).cloned().flatten(), meta));
        }
        match &self.op.derivative {
            Derivative::Formulas(list) => self.by_formulas(list, &context),
            Derivative::Joint(joint) => {
                let mut given = (joint.gradients)(&context)?.into_iter();
                let covered = |meta: &SavedMeta| joint.has_gradient(meta.place);
                let mut found: Gradients =
                    self.inputs.iter().map(|meta| if covered(meta) { given.next().flatten() } else { None }).collect();
                self.of_edges(&wanted, |input, meta| self.fitted(found[input].take(), meta))
            }
            Derivative::NotImplemented(operator) => Err(Derivative::not_implemented(operator)),
            _ if self.op.tags.has(Tags::ZERO_GRADIENT_IN_PLACE) => {
                self.of_edges(&wanted, |_, meta| create::zeros(&meta.sizes, meta.dtype, meta.device).map(Some))
            }
            _ => Ok(Gradients::from_elem(None, self.edges.len())),
        }
    }

    /// The gradients of all results, from those of the results that have one.
    fn of_results(&self, grads: Gradients) -> Gradients {
        if self.outputs.len() == self.results.len() {
            return grads;
        }
        let mut arriving = Gradients::from_elem(None, self.results.len());
        for (grad, &result) in grads.into_iter().zip(&self.outputs) {
            arriving[result] = grad;
        }
        arriving
    }

    /// Which inputs' gradients are needed.
    fn wanted(&self, call: &BackwardCall<'_>) -> SmallVec<[bool; 8]> {
        let mut wanted: SmallVec<[bool; 8]> = SmallVec::from_elem(false, self.inputs.len());
        for (edge, &input) in self.edges.iter().enumerate().filter(|(_, input)| **input != NO_INPUT) {
            wanted[input] = call.needs(edge);
        }
        wanted
    }

    /// The gradient of each edge, which `of` computes for its input if it is wanted.
    fn of_edges(
        &self,
        wanted: &[bool],
        mut of: impl FnMut(usize, &SavedMeta) -> Result<Option<Tensor>>,
    ) -> Result<Gradients> {
        let each = |&input: &usize| match self.inputs.get(input) {
            Some(meta) if wanted[input] => of(input, meta),
            _ => Ok(None),
        };
        self.edges.iter().map(each).collect()
    }

    /// The gradients by a formula for each input, computed in the order of names.
    fn by_formulas(&self, list: &[Formula], context: &BackwardContext) -> Result<Gradients> {
        let mut gradients = Gradients::from_elem(None, self.edges.len());
        for edge in self.order() {
            let input = self.edges[edge];
            let Some(meta) = self.inputs.get(input) else { continue };
            let formula = list.iter().find(|formula| context.wanted[input] && formula.input.position() == meta.place);
            if let Some(name) = formula.and_then(|formula| formula.missing) {
                return Err(Derivative::not_implemented(name));
            }
            gradients[edge] = match formula.map(|formula| (formula.gradient)(context).gradient()) {
                Some(found) => self.fitted(found?, meta)?,
                None => None,
            };
        }
        Ok(gradients)
    }
}

/// A stored value of a call.
pub enum SavedValue {
    /// An argument or a result that the derivative reads; `OperatorNode::saved` returns it.
    Tensor(SavedIndex),
    Sizes(Dims),
    Value(Value<'static>),
}

/// The position of a tensor among a call's tensors.
#[derive(Clone, Copy)]
pub enum SavedIndex {
    Input(usize),
    Result(usize),
}

impl OperatorNode {
    /// The stored values of the call, under the names of parameters and results.
    pub fn saved_values(&self) -> Vec<(String, SavedValue)> {
        let schema = self.op.schema();
        let saves = self.op.derivative.saves(|_| true);
        let args = self.args.as_deref().cloned().unwrap_or_else(|| Args::new(self.op, []));
        let mut values = Vec::new();
        for (place, (param, value)) in schema.params.iter().zip(args.values).enumerate() {
            let mut own = self.inputs.iter().enumerate().filter(|(_, meta)| meta.place == place);
            match (own.next(), own.next()) {
                (Some((at, meta)), None) => {
                    if saves.has_input(place) {
                        values.push((param.name.to_owned(), SavedValue::Tensor(SavedIndex::Input(at))));
                    }
                    values.push((format!("{}_sym_sizes", param.name), SavedValue::Sizes(meta.sizes.clone())));
                }
                // The tensors of a list have no names.
                (Some(_), Some(_)) => {}
                (None, _) => values.push((param.name.to_owned(), SavedValue::Value(value))),
            }
        }
        for at in (0..self.results.len()).filter(|&at| saves.has_result(at)) {
            let named = match schema.returns {
                Returns::Named(names) => names.get(at).filter(|name| !name.is_empty()),
                _ if self.results.len() == 1 => Some(&"result"),
                _ => None,
            };
            let name = named.map_or_else(|| format!("result{at}"), |name| (*name).to_owned());
            values.push((name, SavedValue::Tensor(SavedIndex::Result(at))));
        }
        values
    }

    /// The tensor at a position from `saved_values`, if this call's derivative saved it.
    pub fn saved(&self, place: SavedIndex) -> Option<&SavedTensor> {
        match place {
            SavedIndex::Input(at) => self.saved_inputs.get(at),
            SavedIndex::Result(at) => self.saved_results.get(at),
        }
        .and_then(Option::as_ref)
    }

    fn fitted(&self, grad: Option<Tensor>, meta: &SavedMeta) -> Result<Option<Tensor>> {
        let spread = !std::ptr::eq(self.op, primitives()?.add_batch_dim)
            && self.results.iter().any(|result| !result.batch_dims().is_empty());
        let fitted = grad.map(|grad| match spread {
            true => fit(vmap::gathered(grad, &self.results, meta)?, meta),
            false => fit(grad, meta),
        });
        let fitted = fitted.transpose();
        fitted.map_err(|error| error.operator(self.op.display_name(self.in_place)))
    }
}

/// A tensor among the arguments.
struct Argument<'a> {
    place: usize,
    tensor: &'a Tensor,
    /// Whether it has an edge: it has a derivative, or it is the target of an in-place change, which discards its old
    /// gradient.
    covered: bool,
    tracked: bool,
}

type Arguments<'a> = SmallVec<[Argument<'a>; 4]>;

/// Returns an error for a tangent that no derivative carries on.
fn check_tangents(args: &Args, arguments: &Arguments) -> Result<()> {
    if !rushlight_autograd::modes::current().tangents {
        return Ok(());
    }
    let has_tangent = |argument: &&Argument| argument.tracked && !argument.tensor.requires_grad();
    match arguments.iter().filter(has_tangent).find_map(|argument| args.op.derivative.missing(argument.place)) {
        Some(operator) => {
            let named = operator.split_once(": ").map_or(operator, |(name, _)| name);
            let reason = if named.starts_with("aten::") { "" } else { " because it has not been implemented yet" };
            Err(Error::not_implemented(format!(
                "Trying to use forward AD with {named} that does not support it{reason}."
            ))
            .hint("Use backward, or detach the argument."))
        }
        None => Ok(()),
    }
}

fn arguments<'a>(args: &'a Args, in_place: bool) -> Arguments<'a> {
    let derivative = &args.op.derivative;
    let has_zeros = in_place && args.op.tags.has(Tags::ZERO_GRADIENT_IN_PLACE);
    let mut arguments = Arguments::new();
    for (place, tensor) in args.each_tensor() {
        let own = in_place && arguments.is_empty();
        let has_gradient = has_zeros || derivative.has_gradient(place);
        let covered = own || (tensor.dtype().is_differentiable() && has_gradient);
        arguments.push(Argument { place, tensor, covered, tracked: tensor.is_tracked() });
    }
    arguments
}

/// The index of the argument for each edge.
fn edges(args: &Args, arguments: &Arguments) -> SmallVec<[usize; 2]> {
    let mut edges = SmallVec::new();
    let mut open = args.op.optional_edges();
    for (at, argument) in arguments.iter().enumerate() {
        let here = 1 << argument.place;
        for _ in 0..(open & (here - 1)).count_ones() {
            edges.push(NO_INPUT);
        }
        open &= !(here | (here - 1));
        if argument.covered {
            edges.push(at);
        }
    }
    for _ in 0..open.count_ones() {
        edges.push(NO_INPUT);
    }
    edges
}

/// The tensors at the ends of these edges.
fn ends<'a>(arguments: &Arguments<'a>, edges: &[usize]) -> SmallVec<[Option<&'a Tensor>; 3]> {
    let mut ends = SmallVec::new();
    for &at in edges {
        ends.push(arguments.get(at).map(|argument| argument.tensor));
    }
    ends
}

/// The tensors that the derivative reads, given which arguments need gradients.
fn needed_saves(args: &Args, arguments: &Arguments) -> Saves {
    args.op.derivative.saves(|place| arguments.iter().any(|argument| argument.place == place && argument.tracked))
}

impl OperatorNode {
    /// The node of a call, without its tensors yet.
    #[inline]
    fn new(args: &Args, arguments: &Arguments, in_place: bool) -> OperatorNode {
        OperatorNode {
            op: args.op,
            args: if args.are_defaults() { None } else { Some(Box::new(args.stored())) },
            inputs: SmallVec::new(),
            edges: edges(args, arguments),
            results: SmallVec::new(),
            outputs: SmallVec::new(),
            saved_inputs: SmallVec::new(),
            saved_results: SmallVec::new(),
            number: SavedScalar::default(),
            in_place,
        }
    }

    /// Allocates once for more than fits inline.
    #[cold]
    fn reserve(&mut self, inputs: usize, results: usize) {
        self.inputs.reserve_exact(inputs);
        self.saved_inputs.reserve_exact(inputs);
        self.results.reserve_exact(results);
        self.saved_results.reserve_exact(results);
        self.outputs.reserve_exact(results);
    }

    /// Saves the arguments and results that the derivative needs; for an in-place call after the change was counted.
    /// `original` replaces an argument that the call overwrote.
    fn save(&mut self, args: &Args, arguments: &Arguments, results: &[Tensor], original: Option<Tensor>) -> Result<()> {
        if arguments.len() > 2 || results.len() > 1 {
            self.reserve(arguments.len(), results.len());
        }
        let saves = needed_saves(args, arguments);
        self.number = SavedScalar::of(args, saves);
        for (at, argument) in arguments.iter().enumerate() {
            let overwritten = at == 0 && self.in_place;
            let before = if at == 0 { original.as_ref() } else { None };
            self.inputs.push(SavedMeta::of(argument.place, before.unwrap_or(argument.tensor)));
            let tensor = if overwritten { before } else { Some(argument.tensor) };
            self.saved_inputs.push(match tensor {
                Some(tensor) if saves.has_input(argument.place) => {
                    let changed = self.in_place && at > 0 && shares_version(tensor, arguments[0].tensor);
                    Some(match original.as_ref().filter(|_| changed && tensor.ptr_eq(arguments[0].tensor)) {
                        // A tangent is that of the time of the call.
                        Some(before) if rushlight_autograd::modes::current().tangents => SavedTensor::input(before)?,
                        _ if changed => SavedTensor::overwritten(tensor)?,
                        _ => SavedTensor::input(tensor)?,
                    })
                }
                _ => None,
            });
        }
        for (at, result) in results.iter().enumerate() {
            let differentiable = result.dtype().is_differentiable();
            self.results.push(SavedMeta::of(0, result));
            self.saved_results.push(match (saves.has_result(at), differentiable) {
                (false, _) => None,
                (true, true) => Some(SavedTensor::output(result, self.outputs.len() as u32)?),
                // A result without a gradient is not an output of the node, and would not keep it alive.
                (true, false) => Some(SavedTensor::input(result)?),
            });
            if differentiable {
                self.outputs.push(at);
            }
        }
        Ok(())
    }
}

/// Whether both tensors share a version counter.
fn shares_version(a: &Tensor, b: &Tensor) -> bool {
    a.storage().shares_bytes(b.storage()) && std::sync::Arc::ptr_eq(&a.shared_version(), &b.shared_version())
}

/// Records a node if a gradient may be needed.
#[inline]
pub fn record(args: &Args, output: Output) -> Result<Output> {
    if is_tracked(args) {
        record_node(args, &output)?;
    }
    Ok(output)
}

/// Whether a gradient may be needed. The tensors are checked first: most calls have none that is tracked, and then the thread's
/// mode need not be read.
#[inline]
pub fn is_tracked(args: &Args) -> bool {
    !args.all_tensors(|tensor| !tensor.is_tracked()) && rushlight_autograd::modes::recording()
}

/// Records a node, if a gradient may be needed.
pub(crate) fn record_node(args: &Args, output: &Output) -> Result<()> {
    let arguments = arguments(args, false);
    let results = output.tensors();
    // Outside of inference mode a view of an inference tensor is one too, and has no history.
    let modes = rushlight_autograd::modes::current();
    if !modes.inference && !modes.tangents && results.iter().any(Tensor::is_inference) {
        return Ok(());
    }
    if !arguments.iter().any(|argument| argument.covered && argument.tracked)
        || !results.iter().any(|result| result.dtype().is_differentiable())
    {
        return Ok(());
    }
    check_tangents(args, &arguments)?;
    let mut node = OperatorNode::new(args, &arguments, false);
    node.save(args, &arguments, results, None)?;
    let mut outputs: SmallVec<[&Tensor; 1]> = SmallVec::with_capacity(node.outputs.len());
    for &at in &node.outputs {
        outputs.push(&results[at]);
    }
    let ends = ends(&arguments, &node.edges);
    rushlight_autograd::record(node, &ends, &outputs)
}

/// Returns an error inside the function of a transform (`func.grad`) that would change a tensor from outside.
#[inline]
pub(crate) fn check_captured(input: &Tensor, op: &Operator) -> Result<()> {
    if input.is_captured() && !rushlight_autograd::engine::in_backward() { Err(captured_error(op)) } else { Ok(()) }
}

#[cold]
fn captured_error(op: &Operator) -> Error {
    let overload = match (&op.implementation, op.schema().params.get(1)) {
        (Implementation::Pointwise(_), Some(second)) if second.kind == Kind::Operand => ".Tensor",
        _ => "",
    };
    let name = op.python_name();
    // The operators of `clamp` have torch's name behind a line.
    let name = if name.starts_with("_clamp") { &name[1..] } else { name };
    Error::runtime(format!(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation (aten::{}_{overload}) that would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to explicitly accept the mutated Tensor(s) as inputs.",
        name.trim_end_matches('_')
    ))
}

#[cold]
fn change_of_opaque_view() -> Error {
    Error::not_implemented(
        "a view that a __torch_dispatch__ made of a tensor with gradients cannot be changed in place",
    )
    .hint("Its base is not known here. Make a new tensor, or change the base.")
}

/// An in-place call, from before its kernel runs until after.
pub struct InPlaceCall<'a, 'v> {
    args: &'a Args<'v>,
    input: &'a Tensor,
    inner: InPlace<'a>,
    /// The first argument before the change, if the derivative reads it.
    original: Option<Tensor>,
}

impl<'a, 'v> InPlaceCall<'a, 'v> {
    /// Returns an error for a tensor that may not be changed, and saves the values that the change will overwrite.
    pub fn begin(args: &'a Args<'v>) -> Result<InPlaceCall<'a, 'v>> {
        let input = args.tensor(Arg::FIRST)?;
        check_captured(input, args.op)?;
        if !is_tracked(args) || args.op.tags.has(Tags::NO_GRAD_IN_PLACE) {
            return Ok(InPlaceCall { args, input, inner: InPlace::begin(input, &[])?, original: None });
        }
        if input.is_opaque_view() {
            return Err(change_of_opaque_view());
        }
        let arguments = arguments(args, true);
        check_tangents(args, &arguments)?;
        let inner = InPlace::begin(input, &ends(&arguments, &edges(args, &arguments)))?;
        let original = if inner.is_recorded() && needed_saves(args, &arguments).has_input(0) {
            let copy = crate::copy::clone(input)?;
            // The copy replaces the tensor in derivatives of derivatives too.
            if let Some(edge) = input.gradient_edge()? {
                copy.set_history(edge.node().clone(), edge.output);
            }
            Some(copy)
        } else {
            None
        };
        Ok(InPlaceCall { args, input, inner, original })
    }

    /// For a change of geometry only; `None` for a view, whose history follows from its base's.
    pub fn begin_geometry(args: &'a Args<'v>) -> Result<Option<InPlaceCall<'a, 'v>>> {
        let mut change = InPlaceCall::begin(args)?;
        if change.input.is_view() {
            return Ok(None);
        }
        if change.inner.is_recorded() {
            change.original = Some(change.input.detach());
        }
        Ok(Some(change))
    }

    /// Counts the change and rewrites the tensor's history.
    pub fn finish(self) -> Result<Output> {
        let InPlaceCall { args, input, inner, original } = self;
        inner.finish(|| {
            let arguments = arguments(args, true);
            let mut node = OperatorNode::new(args, &arguments, true);
            node.save(args, &arguments, std::slice::from_ref(input), original)?;
            Ok(node)
        })?;
        Ok(Output::Tensor(input.clone()))
    }
}
