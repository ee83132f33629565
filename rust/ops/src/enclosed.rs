//! Composed rows that are one node of the graph, as they are in torch: those that have a name for it.

use rushlight_autograd::{Backward, Call, Edges, Enclosed, Gradients, InPlace, Tensor};
use rushlight_core::Result;
use smallvec::SmallVec;

use crate::convert::CLONE;
use crate::derive::Derivative;
use crate::mapped;
use crate::node::{in_place_name, is_watched, node_name};
use crate::op;
use crate::value::{Args, Output};

type Body = fn(&Args) -> Result<Output>;

/// Runs the body of a composed row.
#[inline]
pub fn compose(body: Body, args: &Args) -> Result<Output> {
    if args.row.node.is_empty() || !is_watched(args) { body(args) } else { compose_recorded(body, args) }
}

#[inline(never)]
fn compose_recorded(body: Body, args: &Args) -> Result<Output> {
    let inside = Inside::of(args, door)?;
    let found = body(&inside.args)?;
    let histories = histories(found.tensors())?;
    if histories.iter().all(Option::is_none) {
        return Ok(found);
    }
    // Memory of an operand would be changed without its knowing.
    let is_own = |tensor: &Tensor| !args.all_tensors(|own| !own.storage().same(tensor.storage()));
    let output = mapped::each_tensor(found, |tensor| match is_own(&tensor) {
        true => crate::copy::clone(&tensor.detach()),
        // Changes of the result are noticed by the parts that keep it.
        false => Ok(tensor.detach()),
    })?;
    let recorded = output.tensors().iter().zip(&histories).filter(|(_, history)| history.is_some());
    let outputs: SmallVec<[&Tensor; 1]> = recorded.map(|(tensor, _)| tensor).collect();
    rushlight_autograd::record(inside.node(node_name(args.row), &histories), &ends(args), &outputs)?;
    drop(outputs);
    Ok(output)
}

/// The same for a call in place.
pub fn compose_in_place(body: Body, args: &Args) -> Result<Output> {
    let own = args.tensor(0)?;
    let change = InPlace::begin(own, &ends(args))?;
    // What the parts keep for their derivatives must not be what is overwritten.
    let inside = Inside::of(args, |tensor| if tensor.ptr_eq(own) { op!(CLONE, tensor) } else { door(tensor) })?;
    let result = body(&inside.args)?.into_tensor()?;
    crate::variants::check_in_place(args.row, own, &result.layout().sizes, result.dtype())?;
    crate::copy::copy(own, &result.detach())?;
    let histories = histories(std::slice::from_ref(&result))?;
    change.finish(|| Ok(inside.node(in_place_name(args.row), &histories)))?;
    Ok(Output::Tensor(own.clone()))
}

fn is_differentiable(tensor: &&Tensor) -> bool {
    tensor.dtype().is_differentiable()
}

fn ends<'a>(args: &'a Args) -> SmallVec<[Option<&'a Tensor>; 3]> {
    args.each_tensor().map(|(_, tensor)| tensor).filter(is_differentiable).map(Some).collect()
}

/// What stands for a tensor inside.
fn door(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_watched() { tensor.door() } else { Ok(tensor.clone()) }
}

/// The arguments of a body whose record stands inside of a node.
struct Inside<'a> {
    args: Args<'a>,
    doors: Edges,
}

impl<'a> Inside<'a> {
    fn of(args: &Args<'a>, door: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Inside<'a>> {
        let args = mapped::each::replaced(args, door)?;
        let doors = ends(&args).into_iter().flatten().map(Tensor::gradient_edge).collect::<Result<_>>()?;
        Ok(Inside { args, doors })
    }

    fn node(self, name: &'static str, results: &Edges) -> Enclosed {
        let results = results.iter().flatten().cloned().map(Some).collect();
        Enclosed::new(name, results, self.doors)
    }
}

/// A function of one tensor under a name of its own in the graph, written where operators are called and not where they are.
pub struct Alone<'a> {
    own: &'a Tensor,
    door: Tensor,
}

impl<'a> Alone<'a> {
    /// Nothing where nobody will ask for a gradient.
    pub fn begin(own: &'a Tensor) -> Result<Option<Alone<'a>>> {
        let recorded = own.is_watched() && rushlight_autograd::modes::recording();
        Ok(if recorded { Some(Alone { own, door: door(own)? }) } else { None })
    }

    /// What the function computes with.
    pub fn inside(&self) -> &Tensor {
        &self.door
    }

    /// What it gave, as the result of one node.
    pub fn finish(self, name: &str, found: &Tensor) -> Result<Tensor> {
        let history = found.gradient_edge()?;
        let result = found.detach();
        if history.is_some() {
            let doors = std::iter::once(self.door.gradient_edge()?).collect();
            let node = Enclosed::new(name.to_owned(), std::iter::once(history).collect(), doors);
            rushlight_autograd::record(node, &[Some(self.own)], &[&result])?;
        }
        Ok(result)
    }
}

/// The places of results in the graph inside; none for a result that is not part of it.
fn histories(results: &[Tensor]) -> Result<Edges> {
    results.iter().map(Tensor::gradient_edge).collect()
}

/// A change that has no derivative, in torch either: of what a tensor is, and not of its elements.
struct Missing(&'static str);

impl Backward for Missing {
    fn name(&self) -> &str {
        "torch::autograd::NotImplemented"
    }

    fn apply(&self, _call: &Call<'_>, _grads: Gradients) -> Result<Gradients> {
        Err(Derivative::missing(self.0))
    }

    fn release(&self) {}
}

/// `change` gives a tensor other bytes, those of `source` if there is one. A graph that leads to it ends here.
pub fn set_memory(own: &Tensor, source: Option<&Tensor>, change: impl FnOnce()) -> Result<()> {
    let recorded = InPlace::begin(own, &[Some(own), source])?;
    change();
    match own.is_view() {
        true => own.bump_version(),
        false => recorded.finish(|| Ok(Missing("aten::set_")))?,
    }
    Ok(())
}
