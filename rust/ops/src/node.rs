//! A call's place in the graph: what it keeps for its derivative, and how the derivative runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};

use once_cell::race::OnceBox;
use rushlight_autograd::{Backward, Call, Gradients, InPlace, SavedTensor, Tensor};
use rushlight_core::{Dims, Result};
use smallvec::SmallVec;

use crate::derive::{Derivative, Derive, Facts, Saves, fit};
use crate::mapped;
use crate::profile;
use crate::row::{Row, Traits};
use crate::signature::{Kind, Param, Returns};
use crate::table;
use crate::value::{Args, Output, Value};

/// The derivative of one recorded call of a row.
pub struct RowNode {
    row: &'static Row,
    /// The arguments but for tensors, if they are not just the defaults.
    args: Option<Box<Args<'static>>>,
    /// Every tensor argument, in order.
    inputs: SmallVec<[Facts; 2]>,
    /// For each edge of the node: which of `inputs` it leads to, or `NOWHERE`.
    edges: SmallVec<[usize; 2]>,
    results: SmallVec<[Facts; 1]>,
    /// For each output of the node: which of `results` it is (integers have no gradient).
    outputs: SmallVec<[usize; 1]>,
    saved_inputs: SmallVec<[Option<SavedTensor>; 2]>,
    saved_results: SmallVec<[Option<SavedTensor>; 1]>,
    number: HeldNumber,
    in_place: bool,
}

/// The input of an edge that leads to no tensor: an optional argument was not given, or a number was.
const NOWHERE: usize = usize::MAX;

/// A number among the operands that the derivative reads: `2` in `x * 2`. It is kept with the other arguments; but as a tensor
/// in its place would be released by a first backward, a second one is refused for it too.
#[derive(Default)]
struct HeldNumber(AtomicU8);

impl HeldNumber {
    const HELD: u8 = 1;
    const RELEASED: u8 = 2;

    fn of(args: &Args, saves: Saves) -> HeldNumber {
        let params = &args.row.schema().params;
        // A third operand (the weight of `lerp`) has an overload for numbers, which keeps them as such.
        let held = (0..2).filter(|&place| saves.has_input(place)).any(|place| {
            let open = args.values.get(place).is_some_and(|value| value.as_tensor().is_none());
            open && params[place].kind == Kind::Operand
        });
        HeldNumber(AtomicU8::new(if held { HeldNumber::HELD } else { 0 }))
    }

    fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) == HeldNumber::RELEASED {
            Err(rushlight_autograd::released())
        } else {
            Ok(())
        }
    }

    fn release(&self) {
        if self.0.load(Ordering::Relaxed) == HeldNumber::HELD {
            self.0.store(HeldNumber::RELEASED, Ordering::Relaxed);
        }
    }
}

impl Backward for RowNode {
    fn name(&self) -> &str {
        let cases = names(self.row);
        let number = || {
            let operands = self.row.schema().params.iter().zip(self.args.iter().flat_map(|args| &args.values));
            let is_number = |(_, (param, value)): &(usize, (&Param, &Value))| {
                let number = matches!(value, Value::Scalar(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_));
                param.kind == Kind::Operand && number
            };
            let place = operands.enumerate().find(is_number)?.0;
            cases.case(if place == 0 { "first" } else { "number" })
        };
        let own = if self.in_place { cases.case("in_place") } else { None };
        own.or_else(number).unwrap_or_else(|| node_name(self.row))
    }

    fn apply(&self, call: &Call<'_>, grads: Gradients) -> Result<Gradients> {
        let span = profile::begin();
        let gradients = self.gradients(call, grads);
        profile::end(span, || profile::Name::Node(self.row), None);
        gradients
    }

    fn release(&self) {
        for saved in self.saved_inputs.iter().chain(&self.saved_results).flatten() {
            saved.release();
        }
        self.number.release();
    }
}

impl RowNode {
    fn gradients(&self, call: &Call<'_>, grads: Gradients) -> Result<Gradients> {
        self.number.check()?;
        let unpack = |saved: &Option<SavedTensor>| saved.as_ref().map(|saved| call.unpack(saved)).transpose();
        let arriving = if self.outputs.len() == self.results.len() {
            grads
        } else {
            let mut arriving = Gradients::from_elem(None, self.results.len());
            for (grad, &result) in grads.into_iter().zip(&self.outputs) {
                arriving[result] = grad;
            }
            arriving
        };
        let mut wanted: SmallVec<[bool; 8]> = SmallVec::from_elem(false, self.inputs.len());
        for (edge, &input) in self.edges.iter().enumerate().filter(|(_, input)| **input != NOWHERE) {
            wanted[input] = call.needs(edge);
        }
        let defaults;
        let args = match &self.args {
            Some(args) => &**args,
            None => {
                defaults = Args::new(self.row, []);
                &defaults
            }
        };
        let derive = Derive {
            args,
            inputs: &self.inputs,
            results: &self.results,
            kept_inputs: self.saved_inputs.iter().map(unpack).collect::<Result<_>>()?,
            kept_results: self.saved_results.iter().map(unpack).collect::<Result<_>>()?,
            grads: arriving,
            wanted: &wanted,
        };
        let mut gradients = Gradients::new();
        match &self.row.derivative {
            Derivative::Formulas(list) => {
                for &input in &self.edges {
                    let Some(facts) = self.inputs.get(input) else {
                        gradients.push(None);
                        continue;
                    };
                    let formula = list.iter().find(|formula| wanted[input] && formula.input == facts.place);
                    gradients.push(match formula.map(|formula| (formula.gradient)(&derive).gradient()) {
                        Some(found) => self.fitted(found?, facts)?,
                        None => None,
                    });
                }
            }
            Derivative::Joint(joint) => {
                let mut given = (joint.gradients)(&derive)?.into_iter();
                let covered = |facts: &Facts| joint.inputs.contains(&facts.place);
                let mut found: Gradients = self
                    .inputs
                    .iter()
                    .map(|facts| if covered(facts) { given.next().flatten() } else { None })
                    .collect();
                for &input in &self.edges {
                    let grad = found.get_mut(input).and_then(Option::take).filter(|_| wanted[input]);
                    gradients.push(match self.inputs.get(input) {
                        Some(facts) => self.fitted(grad, facts)?,
                        None => None,
                    });
                }
            }
            Derivative::Missing(operator) => return Err(Derivative::missing(operator)),
            _ => gradients.resize(self.edges.len(), None),
        }
        Ok(gradients)
    }
}

/// What a node knows of its call.
pub enum Kept {
    /// An argument or a result that the derivative reads; `RowNode::saved` has it.
    Tensor(Place),
    Sizes(Dims),
    Value(Value<'static>),
}

/// Where among a call's tensors one stands.
#[derive(Clone, Copy)]
pub enum Place {
    Input(usize),
    Result(usize),
}

impl RowNode {
    /// What the node knows of its call, under the names of parameters and results.
    pub fn kept(&self) -> Vec<(String, Kept)> {
        let schema = self.row.schema();
        let saves = self.row.derivative.saves(|_| true);
        let args = self.args.as_deref().cloned().unwrap_or_else(|| Args::new(self.row, []));
        let mut kept = Vec::new();
        for (place, (param, value)) in schema.params.iter().zip(args.values).enumerate() {
            let mut own = self.inputs.iter().enumerate().filter(|(_, facts)| facts.place == place);
            match (own.next(), own.next()) {
                (Some((at, facts)), None) => {
                    if saves.has_input(place) {
                        kept.push((param.name.to_owned(), Kept::Tensor(Place::Input(at))));
                    }
                    kept.push((format!("{}_sym_sizes", param.name), Kept::Sizes(facts.sizes.clone())));
                }
                // A list of tensors has no name for each.
                (Some(_), Some(_)) => {}
                (None, _) => kept.push((param.name.to_owned(), Kept::Value(value))),
            }
        }
        for at in (0..self.results.len()).filter(|&at| saves.has_result(at)) {
            let named = match schema.returns {
                Returns::Named(names) => names.get(at).filter(|name| !name.is_empty()),
                _ if self.results.len() == 1 => Some(&"result"),
                _ => None,
            };
            let name = named.map_or_else(|| format!("result{at}"), |name| (*name).to_owned());
            kept.push((name, Kept::Tensor(Place::Result(at))));
        }
        kept
    }

    /// The tensor at a place that `kept` named, if this call's derivative needed it.
    pub fn saved(&self, place: Place) -> Option<&SavedTensor> {
        match place {
            Place::Input(at) => self.saved_inputs.get(at),
            Place::Result(at) => self.saved_results.get(at),
        }
        .and_then(Option::as_ref)
    }

    fn fitted(&self, grad: Option<Tensor>, facts: &Facts) -> Result<Option<Tensor>> {
        let spread =
            !std::ptr::eq(self.row, &mapped::HIDE) && self.results.iter().any(|result| !result.axes().is_empty());
        let fitted = grad.map(|grad| match spread {
            true => fit(mapped::gathered(grad, &self.results, facts)?, facts),
            false => fit(grad, facts),
        });
        let fitted = fitted.transpose();
        fitted.map_err(|error| error.operator(self.row.title(self.in_place)))
    }
}

/// What `Row::node` says.
#[derive(Clone, Copy)]
struct Names(&'static str);

fn names(row: &Row) -> Names {
    Names(row.node)
}

impl Names {
    /// The name that holds of all calls but the cases.
    fn usual(self) -> Option<&'static str> {
        self.0.split(' ').next().filter(|word| !word.is_empty() && !word.contains('='))
    }

    fn case(self, case: &str) -> Option<&'static str> {
        self.0.split(' ').find_map(|word| word.strip_prefix(case)?.strip_prefix('='))
    }
}

/// torch's name of a row's node: `SumBackward1` is the second overload of `sum`.
pub fn node_name(row: &'static Row) -> &'static str {
    if let Some(name) = names(row).usual() {
        return name;
    }
    if let Derivative::Missing(operator) = row.derivative
        && operator.starts_with("aten::")
    {
        return "torch::autograd::NotImplemented";
    }
    static NAMES: OnceBox<HashMap<(&'static str, &'static str), &'static str>> = OnceBox::new();
    let names = NAMES.get_or_init(|| {
        let mut overloads: HashMap<(&str, &str), usize> = HashMap::new();
        let named = table::ROWS.iter().map(|row| {
            // torch's engine knows `nn.functional` and `torch` as one.
            let family = if row.namespace == "nn.functional" { "" } else { row.namespace };
            let count = overloads.entry((family, row.python_name())).or_default();
            let name = format!("{}{}Backward{count}", camel(family), camel(row.python_name()));
            *count += 1;
            ((row.namespace, row.name), &*name.leak())
        });
        Box::new(named.collect())
    });
    names.get(&(row.namespace, row.name)).copied().unwrap_or("Backward0")
}

/// The name of the node of a call in place.
pub fn in_place_name(row: &'static Row) -> &'static str {
    names(row).case("in_place").unwrap_or_else(|| node_name(row))
}

/// Words begin with capitals, and so does what follows a digit: `log1p` is `Log1P`.
fn camel(name: &str) -> String {
    let mut begins = true;
    let shown = |letter: char| {
        let capital = std::mem::replace(&mut begins, letter == '_' || letter.is_ascii_digit());
        (letter != '_').then(|| if capital { letter.to_ascii_uppercase() } else { letter })
    };
    name.chars().filter_map(shown).collect()
}

/// A tensor among the arguments.
struct Argument<'a> {
    place: usize,
    tensor: &'a Tensor,
    /// Whether it has an edge: it has a derivative, or it is the target of a change in place, whose old gradient the
    /// change at least cuts off.
    covered: bool,
    requires_grad: bool,
}

type Arguments<'a> = SmallVec<[Argument<'a>; 4]>;

fn arguments<'a>(args: &'a Args, in_place: bool) -> Arguments<'a> {
    let derivative = &args.row.derivative;
    let mut arguments = Arguments::new();
    for (place, tensor) in args.each_tensor() {
        let own = in_place && arguments.is_empty();
        let covered = own || (tensor.dtype().is_differentiable() && derivative.covers(place));
        arguments.push(Argument { place, tensor, covered, requires_grad: tensor.is_watched() });
    }
    arguments
}

/// The places, as bits, that have an edge even where no tensor stands there. A tensor that may be left out has one, and so
/// has a number that torch makes a tensor of: where numbers have an overload of their own, `Row::node` names its node.
pub fn open_edges(row: &Row, params: &[Param]) -> u64 {
    let is_open = |place: usize, kind: Kind| match kind {
        Kind::Tensor => names(row).case("left_out").is_none(),
        Kind::Operand if matches!(row.derivative, Derivative::Missing(_)) => false,
        Kind::Operand => names(row).case(if place == 0 { "first" } else { "number" }).is_none(),
        _ => false,
    };
    let open = params.iter().enumerate().filter(|&(place, param)| is_open(place, param.kind));
    open.filter(|&(place, _)| row.derivative.covers(place)).fold(0, |places, (place, _)| places | 1 << place)
}

/// For each edge which of the arguments it leads to.
fn edges(args: &Args, arguments: &Arguments) -> SmallVec<[usize; 2]> {
    let mut edges = SmallVec::new();
    let mut open = args.row.open_edges();
    for (at, argument) in arguments.iter().enumerate() {
        let here = 1 << argument.place;
        for _ in 0..(open & (here - 1)).count_ones() {
            edges.push(NOWHERE);
        }
        open &= !(here | (here - 1));
        if argument.covered {
            edges.push(at);
        }
    }
    for _ in 0..open.count_ones() {
        edges.push(NOWHERE);
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

/// What the derivative reads, given who wants a gradient.
fn needed_saves(args: &Args, arguments: &Arguments) -> Saves {
    args.row
        .derivative
        .saves(|place| arguments.iter().any(|argument| argument.place == place && argument.requires_grad))
}

impl RowNode {
    /// The node of a call, which knows nothing of its tensors yet.
    #[inline]
    fn new(args: &Args, arguments: &Arguments, in_place: bool) -> RowNode {
        RowNode {
            row: args.row,
            args: if args.are_defaults() { None } else { Some(Box::new(args.keep())) },
            inputs: SmallVec::new(),
            edges: edges(args, arguments),
            results: SmallVec::new(),
            outputs: SmallVec::new(),
            saved_inputs: SmallVec::new(),
            saved_results: SmallVec::new(),
            number: HeldNumber::default(),
            in_place,
        }
    }

    /// Room at once for more than stands inline.
    #[cold]
    fn make_room(&mut self, inputs: usize, results: usize) {
        self.inputs.reserve_exact(inputs);
        self.saved_inputs.reserve_exact(inputs);
        self.results.reserve_exact(results);
        self.saved_results.reserve_exact(results);
        self.outputs.reserve_exact(results);
    }

    /// Keeps what the derivative needs, of arguments and results; in an in-place call after the change was counted.
    /// `original` stands for an argument that the call overwrote.
    fn keep(&mut self, args: &Args, arguments: &Arguments, results: &[Tensor], original: Option<Tensor>) -> Result<()> {
        if arguments.len() > 2 || results.len() > 1 {
            self.make_room(arguments.len(), results.len());
        }
        let saves = needed_saves(args, arguments);
        self.number = HeldNumber::of(args, saves);
        for (at, argument) in arguments.iter().enumerate() {
            let overwritten = at == 0 && self.in_place;
            let before = if at == 0 { original.as_ref() } else { None };
            self.inputs.push(Facts::of(argument.place, before.unwrap_or(argument.tensor)));
            let kept = if overwritten { before } else { Some(argument.tensor) };
            self.saved_inputs.push(match kept {
                Some(kept) if saves.has_input(argument.place) => {
                    let changed = self.in_place && at > 0 && shares_version(kept, arguments[0].tensor);
                    Some(if changed { SavedTensor::overwritten(kept)? } else { SavedTensor::input(kept)? })
                }
                _ => None,
            });
        }
        for (at, result) in results.iter().enumerate() {
            let differentiable = result.dtype().is_differentiable();
            self.results.push(Facts::of(0, result));
            self.saved_results.push(match (saves.has_result(at), differentiable) {
                (false, _) => None,
                (true, true) => Some(SavedTensor::output(result, self.outputs.len() as u32)?),
                (true, false) => Some(SavedTensor::input(result)?),
            });
            if differentiable {
                self.outputs.push(at);
            }
        }
        Ok(())
    }
}

/// Whether a change of one tensor is counted as one of the other.
fn shares_version(a: &Tensor, b: &Tensor) -> bool {
    a.storage().shares_bytes(b.storage()) && std::sync::Arc::ptr_eq(&a.shared_version(), &b.shared_version())
}

/// Step 7: leaves a node behind if a gradient may be asked for.
#[inline]
pub fn record(args: &Args, output: Output) -> Result<Output> {
    if is_watched(args) {
        leave_node(args, &output)?;
    }
    Ok(output)
}

/// Whether a gradient may be asked for. The tensors come first: most have none, and then the thread's mode does not matter.
#[inline]
pub(crate) fn is_watched(args: &Args) -> bool {
    !args.all_tensors(|tensor| !tensor.is_watched()) && rushlight_autograd::modes::recording()
}

/// The same where a gradient may be asked for.
pub(crate) fn leave_node(args: &Args, output: &Output) -> Result<()> {
    let arguments = arguments(args, false);
    let results = output.tensors();
    if !arguments.iter().any(|argument| argument.covered && argument.requires_grad)
        || !results.iter().any(|result| result.dtype().is_differentiable())
    {
        return Ok(());
    }
    let mut node = RowNode::new(args, &arguments, false);
    node.keep(args, &arguments, results, None)?;
    let mut outputs: SmallVec<[&Tensor; 1]> = SmallVec::with_capacity(node.outputs.len());
    for &at in &node.outputs {
        outputs.push(&results[at]);
    }
    let ends = ends(&arguments, &node.edges);
    rushlight_autograd::record(node, &ends, &outputs)
}

/// An in-place call, from before its kernel runs until after.
pub struct Change<'a, 'v> {
    args: &'a Args<'v>,
    own: &'a Tensor,
    inner: InPlace<'a>,
    /// The first argument as it was, if the derivative reads it.
    original: Option<Tensor>,
}

impl<'a, 'v> Change<'a, 'v> {
    /// Refuses what may not be changed, and keeps what the change will overwrite.
    pub fn begin(args: &'a Args<'v>) -> Result<Change<'a, 'v>> {
        let own = args.tensor(0)?;
        if !is_watched(args) || args.row.traits.has(Traits::UNRECORDED_IN_PLACE) {
            return Ok(Change { args, own, inner: InPlace::begin(own, &[])?, original: None });
        }
        let arguments = arguments(args, true);
        let inner = InPlace::begin(own, &ends(&arguments, &edges(args, &arguments)))?;
        let original = if inner.is_recorded() && needed_saves(args, &arguments).has_input(0) {
            let copy = crate::copy::clone(own)?;
            // It stands for the tensor as it was in derivatives of derivatives too.
            if let Some(edge) = own.gradient_edge()? {
                copy.set_history(edge.node().clone(), edge.output);
            }
            Some(copy)
        } else {
            None
        };
        Ok(Change { args, own, inner, original })
    }

    /// For a change of geometry alone; nothing for a view, whose history follows from its base's.
    pub fn begin_geometry(args: &'a Args<'v>) -> Result<Option<Change<'a, 'v>>> {
        let mut change = Change::begin(args)?;
        if change.own.is_view() {
            return Ok(None);
        }
        if change.inner.is_recorded() {
            change.original = Some(change.own.detach());
        }
        Ok(Some(change))
    }

    /// Counts the change and rewrites the tensor's history.
    pub fn finish(self) -> Result<Output> {
        let Change { args, own, inner, original } = self;
        inner.finish(|| {
            let arguments = arguments(args, true);
            let mut node = RowNode::new(args, &arguments, true);
            node.keep(args, &arguments, std::slice::from_ref(own), original)?;
            Ok(node)
        })?;
        Ok(Output::Tensor(own.clone()))
    }
}
