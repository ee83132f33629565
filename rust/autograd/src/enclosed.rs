//! Several recorded calls that are one node of the graph.
//!
//! What an operator is composed of is recorded as ever, but on aliases of its inputs: they are the doors (`Tensor::door`). The
//! node outside leads from the results to the inputs; its derivative is a walk from the inner results to the doors.

use std::borrow::Cow;
use std::sync::Arc;

use rushlight_core::Result;

use crate::edge::{Edge, Edges};
use crate::engine;
use crate::lock::Slot;
use crate::node::{Backward, Call, Gradients};
use crate::saved::released;

/// The inside: where it begins for each result of the node, and where it ends for each input.
struct Part {
    results: Edges,
    doors: Edges,
}

/// The derivative of an operator that consists of others.
pub struct Enclosed {
    name: Cow<'static, str>,
    inside: Slot<Arc<Part>>,
}

impl Enclosed {
    /// `results` are the histories of what the body gave, `doors` those of the aliases that it was given.
    pub fn new(name: impl Into<Cow<'static, str>>, results: Edges, doors: Edges) -> Enclosed {
        Enclosed { name: name.into(), inside: Slot::new(Some(Arc::new(Part { results, doors }))) }
    }
}

impl Backward for Enclosed {
    fn name(&self) -> &str {
        &self.name
    }

    fn apply(&self, call: &Call<'_>, grads: Gradients) -> Result<Gradients> {
        let Some(part) = self.inside.get() else { return Err(released()) };
        let begins = part.results.iter().cloned().zip(grads);
        let roots: Vec<(Edge, _)> = begins.filter_map(|(edge, grad)| Some((edge?, grad?))).collect();
        let wanted = |(place, door): (usize, &Option<Edge>)| door.clone().filter(|_| call.needs(place));
        let targets: Edges = part.doors.iter().enumerate().map(wanted).collect();
        engine::between(roots, &targets)
    }

    fn release(&self) {
        drop(self.inside.replace(None));
    }
}
