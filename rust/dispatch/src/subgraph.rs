//! Composite operators that are one node of the graph, as in torch: those with a `node`.

use std::borrow::Cow;

use crate::value::{Arg, Output, Value};
use rushlight_autograd::{Backward, BackwardCall, Edges, Gradients, InPlace, Subgraph, Tensor};
use rushlight_core::memory_format::{channels_last_format, is_contiguous};
use rushlight_core::{Error, Result};
use smallvec::SmallVec;

use crate::naming::{in_place_name, node_name};
use crate::node::{check_captured, is_tracked};
use crate::operator::{Args, Derivative, GradientFormat, Tags};
use crate::primitives::primitives;

type Body = fn(&Args) -> Result<Output>;

/// Runs the body of a composite operator.
#[inline]
pub fn compose(body: Body, args: &Args) -> Result<Output> {
    // The parts of tensors that handle operators are nodes of their own.
    let is_decomposed = args.op.node.is_empty() || !is_tracked(args) || !args.all_tensors(|one| !one.is_wrapper());
    if is_decomposed { body(args) } else { compose_recorded(body, args) }
}

#[inline(never)]
fn compose_recorded(body: Body, args: &Args) -> Result<Output> {
    let input = SubgraphCall::of(args, alias_in_subgraph)?;
    let found = body(&input.args)?;
    let histories = histories(found.tensors())?;
    if histories.iter().all(Option::is_none) {
        return Ok(found);
    }
    // Otherwise an operand's memory would be changed without its version counter.
    let is_own = |tensor: &Tensor| !args.all_tensors(|own| !own.storage().same(tensor.storage()));
    let output = found.map(|tensor| match is_own(&tensor) {
        true => crate::copy::clone(&tensor.detach()),
        // Changes of the result are detected by the parts that save it.
        false => Ok(tensor.detach()),
    })?;
    let recorded = output.tensors().iter().zip(&histories).filter(|(_, history)| history.is_some());
    let outputs: SmallVec<[&Tensor; 1]> = recorded.map(|(tensor, _)| tensor).collect();
    let node = input.node(node_name(args.op), &histories).linear(args.op.tags.has(Tags::LINEAR));
    match args.op.gradient_format {
        GradientFormat::OfParts => rushlight_autograd::record(node, &ends(args), &outputs)?,
        format => rushlight_autograd::record(InFormat { node, format }, &ends(args), &outputs)?,
    }
    drop(outputs);
    Ok(output)
}

/// The same for a call in place.
pub fn compose_in_place(body: Body, args: &Args) -> Result<Output> {
    let own = args.tensor(Arg::FIRST)?;
    check_captured(own, args.op)?;
    let change = InPlace::begin(own, &ends(args))?;
    // Tensors that the parts save must not be overwritten.
    let input = SubgraphCall::of(args, |tensor| {
        if tensor.ptr_eq(own) { primitives()?.clone.tensor([tensor.into()]) } else { alias_in_subgraph(tensor) }
    })?;
    let result = body(&input.args)?.into_tensor()?;
    crate::variants::fit_in_place(args.op, own, result.sizes())?;
    crate::variants::check_in_place(args.op, own, &result.layout().sizes, result.dtype())?;
    crate::copy::copy(own, &result.detach())?;
    let histories = histories(std::slice::from_ref(&result))?;
    change.finish(|| Ok(input.node(in_place_name(args.op), &histories)))?;
    Ok(Output::Tensor(own.clone()))
}

fn is_differentiable(tensor: &&Tensor) -> bool {
    tensor.dtype().is_differentiable()
}

fn ends<'a>(args: &'a Args) -> SmallVec<[Option<&'a Tensor>; 3]> {
    args.each_tensor().map(|(_, tensor)| tensor).filter(is_differentiable).map(Some).collect()
}

/// The alias of a tensor inside the node.
fn alias_in_subgraph(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_tracked() { tensor.alias_in_subgraph() } else { Ok(tensor.clone()) }
}

/// The arguments of a body that is recorded inside a node.
struct SubgraphCall<'a> {
    args: Args<'a>,
    inputs: Edges,
}

impl<'a> SubgraphCall<'a> {
    fn of(args: &Args<'a>, alias: impl Fn(&Tensor) -> Result<Tensor>) -> Result<SubgraphCall<'a>> {
        let args = args.replaced(alias)?;
        let inputs = ends(&args).into_iter().flatten().map(Tensor::gradient_edge).collect::<Result<_>>()?;
        Ok(SubgraphCall { args, inputs })
    }

    fn node(self, name: &'static str, results: &Edges) -> Subgraph {
        let results = results.iter().flatten().cloned().map(Some).collect();
        Subgraph::new(name, results, self.inputs)
    }
}

/// A function of one tensor with a node of its own, for use where operators are called.
pub struct UnarySubgraph<'a> {
    own: &'a Tensor,
    alias: Tensor,
}

impl<'a> UnarySubgraph<'a> {
    /// `None` if no gradient is needed.
    pub fn begin(own: &'a Tensor) -> Result<Option<UnarySubgraph<'a>>> {
        let recorded = own.is_tracked() && rushlight_autograd::modes::recording();
        Ok(if recorded { Some(UnarySubgraph { own, alias: alias_in_subgraph(own)? }) } else { None })
    }

    /// The tensor with which the function computes.
    pub fn input(&self) -> &Tensor {
        &self.alias
    }

    /// The function's result, as the result of one node. `linear` says that the function is linear.
    pub fn finish(self, name: &str, found: &Tensor, linear: bool, format: GradientFormat) -> Result<Tensor> {
        let history = found.gradient_edge()?;
        let result = found.detach();
        if history.is_some() {
            let inputs = std::iter::once(self.alias.gradient_edge()?).collect();
            let node = Subgraph::new(name.to_owned(), std::iter::once(history).collect(), inputs).linear(linear);
            rushlight_autograd::record(InFormat { node, format }, &[Some(self.own)], &[&result])?;
        }
        Ok(result)
    }
}

/// A node whose gradients have a memory format.
struct InFormat {
    node: Subgraph,
    format: GradientFormat,
}

impl Backward for InFormat {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn apply(&self, call: &BackwardCall<'_>, grads: Gradients) -> Result<Gradients> {
        let of_result = grads.iter().flatten().find_map(|grad| channels_last_format(grad.layout()));
        let mut found = self.node.apply(call, grads)?;
        let format = match self.format {
            GradientFormat::OfParts => return Ok(found),
            GradientFormat::Contiguous => None,
            GradientFormat::OfResult => of_result,
        };
        for gradient in found.iter_mut().flatten() {
            if !is_contiguous(gradient.layout(), format)? {
                let format = Value::Str(format.unwrap_or("contiguous_format"));
                *gradient = primitives()?.clone.tensor([(&*gradient).into(), format])?;
            }
        }
        Ok(found)
    }

    fn release(&self) {
        self.node.release();
    }
}

/// The histories of results in the inner graph; `None` for a result that is not part of it.
fn histories(results: &[Tensor]) -> Result<Edges> {
    results.iter().map(Tensor::gradient_edge).collect()
}

/// A change without a derivative, as in torch: it replaces the tensor's memory, or does not depend on its elements.
struct Missing(Cow<'static, str>);

impl Backward for Missing {
    fn name(&self) -> &str {
        "torch::autograd::NotImplemented"
    }

    fn apply(&self, _call: &BackwardCall<'_>, _grads: Gradients) -> Result<Gradients> {
        Err(Derivative::not_implemented(&self.0))
    }

    fn release(&self) {}
}

/// A result through which backward is an error.
struct Undifferentiable(Cow<'static, str>);

impl Backward for Undifferentiable {
    fn name(&self) -> &str {
        "torch::autograd::Error"
    }

    fn apply(&self, _call: &BackwardCall<'_>, _grads: Gradients) -> Result<Gradients> {
        Err(Error::runtime(self.0.clone()))
    }

    fn release(&self) {}
}

/// The same elements; backward through them is this error.
pub fn undifferentiable(tensor: Tensor, message: impl Into<Cow<'static, str>>) -> Result<Tensor> {
    if !tensor.is_tracked() || !rushlight_autograd::modes::recording() {
        return Ok(tensor);
    }
    let result = tensor.detach();
    rushlight_autograd::record(Undifferentiable(message.into()), &[Some(&tensor)], &[&result])?;
    Ok(result)
}

/// `change` gives a tensor other memory, that of `source` if given. A graph that leads to it ends here.
pub fn set_memory(input: &Tensor, source: Option<&Tensor>, change: impl FnOnce()) -> Result<()> {
    let recorded = InPlace::begin(input, &[Some(input), source])?;
    change();
    match input.is_view() {
        true => input.bump_version(),
        false => {
            recorded.finish(|| Ok(Missing("aten::set_".into())))?;
            // Graphs that used a leaf before do not lead to what it is now.
            input.reset_accumulator();
        }
    }
    Ok(())
}

/// Records that `operator` has overwritten a tensor that is no leaf.
pub fn overwritten(input: &Tensor, operator: String) -> Result<()> {
    if input.is_tracked() && rushlight_autograd::modes::recording() {
        let edges = rushlight_autograd::collect_edges(&[Some(input)])?;
        rushlight_autograd::record_change(input, Missing(operator.into()), edges, 0);
    }
    Ok(())
}
