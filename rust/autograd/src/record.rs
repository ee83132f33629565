//! Recording of a call after an operator has run.

use std::sync::Arc;

use rushlight_core::Result;
use smallvec::SmallVec;

use crate::graph::{Backward, Edges, Node, OutputMeta, Tensor};
use crate::modes;

/// Whether a call with these differentiable inputs must be recorded.
#[inline]
pub fn should_record(inputs: &[Option<&Tensor>]) -> bool {
    modes::recording() && inputs.iter().flatten().any(|input| input.is_tracked())
}

/// The edges for the gradients of these inputs.
#[inline]
pub fn collect_edges(inputs: &[Option<&Tensor>]) -> Result<Edges> {
    let mut edges = Edges::with_capacity(inputs.len());
    for input in inputs {
        edges.push(match input {
            Some(input) => input.gradient_edge()?,
            None => None,
        });
    }
    Ok(edges)
}

/// Records a call: `inputs` are its differentiable inputs in the order of the gradients that `function` returns, `None`
/// for an omitted one; `outputs` are its differentiable outputs, new from the kernel.
#[inline]
pub fn record<F: Backward>(function: F, inputs: &[Option<&Tensor>], outputs: &[&Tensor]) -> Result<()> {
    let edges = collect_edges(inputs)?;
    let mut metas = SmallVec::with_capacity(outputs.len());
    for &output in outputs {
        metas.push(OutputMeta::from(output));
    }
    let mut node: Option<Arc<Node>> = Some(Node::new(function, edges, metas));
    for (place, output) in outputs.iter().enumerate() {
        let last = place + 1 == outputs.len();
        if let Some(node) = if last { node.take() } else { node.clone() } {
            output.set_history(node, place as u32);
        }
    }
    Ok(())
}
