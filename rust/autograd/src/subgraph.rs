//! Several recorded calls as one node of the graph.
//!
//! The parts of a composite operator are recorded as usual, but on aliases of its inputs: the subgraph's inputs
//! (`Tensor::alias_in_subgraph`). The outer node leads from the results to the inputs. Its derivative is a backward pass
//! from the inner results to the subgraph's inputs.

use std::borrow::Cow;
use std::sync::Arc;

use rushlight_core::Result;

use crate::engine;
use crate::graph::{Backward, BackwardCall, Edge, Edges, Gradients};
use crate::lock::Slot;
use crate::saved::released;

/// The inner graph: where it begins for each result of the node, and where it ends for each input.
struct Boundary {
    results: Edges,
    inputs: Edges,
}

/// The derivative of a composite operator.
pub struct Subgraph {
    name: Cow<'static, str>,
    inside: Slot<Arc<Boundary>>,
}

impl Subgraph {
    /// `results` are the histories of the body's results, `inputs` those of the aliases that it was given.
    pub fn new(name: impl Into<Cow<'static, str>>, results: Edges, inputs: Edges) -> Subgraph {
        Subgraph { name: name.into(), inside: Slot::new(Some(Arc::new(Boundary { results, inputs }))) }
    }
}

impl Backward for Subgraph {
    fn name(&self) -> &str {
        &self.name
    }

    fn apply(&self, call: &BackwardCall<'_>, grads: Gradients) -> Result<Gradients> {
        let Some(part) = self.inside.get() else { return Err(released()) };
        let begins = part.results.iter().cloned().zip(grads);
        let roots: Vec<(Edge, _)> = begins.filter_map(|(edge, grad)| Some((edge?, grad?))).collect();
        let wanted = |(index, edge): (usize, &Option<Edge>)| edge.clone().filter(|_| call.needs(index));
        let targets: Edges = part.inputs.iter().enumerate().map(wanted).collect();
        engine::between(roots, &targets)
    }

    fn release(&self) {
        drop(self.inside.replace(None));
    }
}
