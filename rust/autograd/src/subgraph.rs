//! Several recorded calls as one node of the graph.
//!
//! The parts of a composite operator are recorded as usual, but on aliases of its inputs: the subgraph's inputs
//! (`Tensor::alias_in_subgraph`). The outer node leads from the results to the inputs. Its derivative is a backward pass
//! from the inner results to the subgraph's inputs.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use rushlight_core::Result;

use crate::engine;
use crate::graph::{Backward, BackwardCall, Edge, Edges, Gradients, Node};

/// The inner graph: where it begins for each result of the node, and where it ends for each input.
struct Boundary {
    results: Edges,
    inputs: Edges,
}

/// The derivative of a composite operator.
pub struct Subgraph {
    name: Cow<'static, str>,
    inside: Boundary,
    /// Whether the parts are linear: what they saved are constants, which a backward pass does not release.
    linear: bool,
}

impl Subgraph {
    /// `results` are the histories of the body's results, `inputs` those of the aliases that it was given.
    pub fn new(name: impl Into<Cow<'static, str>>, results: Edges, inputs: Edges) -> Subgraph {
        Subgraph { name: name.into(), inside: Boundary { results, inputs }, linear: false }
    }

    /// The same function, which is linear or not: one that is can run backward any number of times.
    pub fn linear(self, linear: bool) -> Subgraph {
        Subgraph { linear, ..self }
    }

    fn each_part(&self, mut visit: impl FnMut(&Node)) {
        // The parts were recorded after the aliases of the inputs, and nothing else that they lead to was.
        let Boundary { results, inputs } = &self.inside;
        let begin = inputs.iter().flatten().map(|edge| edge.node().sequence()).min();
        let ends = |node: &Arc<Node>| inputs.iter().flatten().any(|edge| Arc::ptr_eq(edge.node(), node));
        let is_part = |node: &&Arc<Node>| begin.is_some_and(|begin| node.sequence() >= begin) && !ends(node);
        let mut found: Vec<&Arc<Node>> = results.iter().flatten().map(Edge::node).filter(is_part).collect();
        let mut seen: HashSet<usize> = found.iter().map(|node| Arc::as_ptr(node).addr()).collect();
        while let Some(node) = found.pop() {
            visit(node);
            let next = node.edges().iter().flatten().map(Edge::node).filter(is_part);
            found.extend(next.filter(|node| seen.insert(Arc::as_ptr(node).addr())));
        }
    }
}

impl Backward for Subgraph {
    fn name(&self) -> &str {
        &self.name
    }

    fn apply(&self, call: &BackwardCall<'_>, grads: Gradients) -> Result<Gradients> {
        let part = &self.inside;
        let begins = part.results.iter().cloned().zip(grads);
        let roots: Vec<(Edge, _)> = begins.filter_map(|(edge, grad)| Some((edge?, grad?))).collect();
        let wanted = |(index, edge): (usize, &Option<Edge>)| edge.clone().filter(|_| call.needs(index));
        let targets: Edges = part.inputs.iter().enumerate().map(wanted).collect();
        engine::between(roots, &targets)
    }

    /// Releases what the parts saved. Parts that saved nothing can run again.
    fn release(&self) {
        if !self.linear {
            self.each_part(|node| node.function().release());
        }
    }
}
