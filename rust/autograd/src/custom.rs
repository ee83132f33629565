//! Custom functions: the history of results that a user's own forward computed.
//!
//! `Notes` holds what the forward recorded in its context: inputs changed in place, results without a gradient, and
//! tensors to save for backward. `CustomCall` checks these notes and makes one node for all results.

use std::sync::Arc;

use rushlight_core::{DType, Device, Error, Result};

use crate::graph::{Backward, Edges, Node, OutputMeta, Tensor, ViewKind};
use crate::inplace::{check_history, record_change};
use crate::saved::SavedTensor;

/// What a forward recorded in its context.
#[derive(Default)]
pub struct Notes {
    pub to_save: Vec<Option<Tensor>>,
    pub dirty: Vec<Tensor>,
    pub non_differentiable: Vec<Tensor>,
}

/// A finished call of a custom forward.
pub struct CustomCall<'a> {
    /// The arguments; `None` for those that are not tensors.
    pub inputs: &'a [Option<Tensor>],
    /// The results of the forward; `None` for those that are not tensors.
    pub results: &'a [Option<Tensor>],
    pub notes: &'a Notes,
    /// Makes the view that is returned in place of an input, `plain_view` unless the tensor's class has one of its own.
    pub view: &'a dyn Fn(&Tensor) -> Result<Tensor>,
}

/// A view of a whole tensor.
pub fn plain_view(tensor: &Tensor) -> Result<Tensor> {
    Ok(Tensor::view_of(tensor, tensor.layout().clone()))
}

/// The node of a recorded call and the tensors saved for its backward.
pub struct Recorded {
    pub node: Arc<Node>,
    pub saved: Vec<Option<SavedTensor>>,
}

fn among(list: &[Tensor], tensor: &Tensor) -> bool {
    list.iter().any(|other| other.ptr_eq(tensor))
}

impl CustomCall<'_> {
    /// The tensors to return in place of the results. A `function` becomes their history; it computes a gradient for
    /// each input that is a tensor.
    pub fn finish<F: Backward>(&self, function: Option<F>) -> Result<(Vec<Option<Tensor>>, Option<Recorded>)> {
        let outputs = self.outputs()?;
        self.check_dirty(&outputs, function.is_some())?;
        let edges = function.as_ref().map(|_| self.edges()).transpose()?;
        self.notes.dirty.iter().for_each(Tensor::bump_version);
        let Some((function, edges)) = function.zip(edges) else { return Ok((outputs, None)) };
        let differentiable: Vec<usize> = (0..outputs.len()).filter(|&at| self.is_differentiable(at)).collect();
        let saved = self.notes.to_save.iter().map(|tensor| match tensor {
            None => Ok(None),
            Some(tensor) => self.save(tensor, &differentiable).map(Some),
        });
        let saved = saved.collect::<Result<_>>()?;
        let node = self.attach(function, edges, &outputs, &differentiable);
        Ok((outputs, Some(Recorded { node, saved })))
    }

    fn is_input(&self, tensor: &Tensor) -> bool {
        self.inputs.iter().flatten().any(|input| input.ptr_eq(tensor))
    }

    fn is_dirty(&self, tensor: &Tensor) -> bool {
        among(&self.notes.dirty, tensor)
    }

    /// The results. An input that is returned unchanged is replaced by a view of it, which gets a history of its own.
    fn outputs(&self) -> Result<Vec<Option<Tensor>>> {
        let output = |tensor: &Tensor| match self.is_input(tensor) && !self.is_dirty(tensor) {
            true => (self.view)(tensor),
            false => Ok(tensor.clone()),
        };
        self.results.iter().map(|result| result.as_ref().map(output).transpose()).collect()
    }

    fn check_dirty(&self, outputs: &[Option<Tensor>], recording: bool) -> Result<()> {
        for dirty in &self.notes.dirty {
            if !outputs.iter().flatten().any(|output| output.ptr_eq(dirty)) {
                return Err(Error::runtime(
                    "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace must all be outputs of the Function.",
                ));
            }
            if !recording {
                continue;
            }
            if dirty.is_view() && outputs.len() > 1 {
                return Err(Error::runtime(
                    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more than one Tensor. This is not supported by the current autograd engine. You should either make sure the input is not a view (using .clone() for example) or make your Function only return one Tensor (potentially splitting it into two Functions: one doing the inplace that returns a single Tensor and a second one that does the other operations).",
                ));
            }
            if dirty.requires_grad() && dirty.is_leaf() {
                return Err(Error::runtime(
                    "a leaf Variable that requires grad has been used in an in-place operation.",
                ));
            }
            if dirty.is_view() {
                check_history(dirty)?;
            }
        }
        Ok(())
    }

    fn is_differentiable(&self, at: usize) -> bool {
        let differentiable =
            |tensor: &Tensor| tensor.dtype().is_differentiable() && !among(&self.notes.non_differentiable, tensor);
        self.results[at].as_ref().is_some_and(differentiable)
    }

    fn edges(&self) -> Result<Edges> {
        let mut edges = Edges::new();
        for input in self.inputs.iter().flatten() {
            // A change of a view is a change of its base.
            let changed = if self.is_dirty(input) { input.base().unwrap_or(input) } else { input };
            edges.push(changed.gradient_edge()?);
        }
        Ok(edges)
    }

    /// Saves a tensor. An output of the node is saved as such, so that it does not keep itself alive.
    fn save(&self, tensor: &Tensor, differentiable: &[usize]) -> Result<SavedTensor> {
        let is_result = |at: &&usize| self.results[**at].as_ref().is_some_and(|result| result.ptr_eq(tensor));
        let unchanged_input = self.is_input(tensor) && !self.is_dirty(tensor);
        match differentiable.iter().find(is_result) {
            Some(&at) if !unchanged_input => SavedTensor::output(tensor, at as u32),
            _ => SavedTensor::input(tensor),
        }
    }

    /// Makes the node the history of the differentiable outputs.
    fn attach<F: Backward>(
        &self,
        function: F,
        edges: Edges,
        outputs: &[Option<Tensor>],
        differentiable: &[usize],
    ) -> Arc<Node> {
        let changed_view = |input: &&Tensor| input.is_view() && self.is_dirty(input);
        if let Some((place, view)) = self.inputs.iter().flatten().enumerate().find(|(_, input)| changed_view(input)) {
            // The history of the view is derived from that of its base.
            return record_change(view, function, edges, place);
        }
        // Results that are not tensors keep a slot, so that backward gets an argument for each result.
        let placeholder = || OutputMeta { sizes: Default::default(), dtype: DType::F32, device: Device::Cpu };
        let metas = outputs.iter().map(|output| output.as_ref().map_or_else(placeholder, OutputMeta::from)).collect();
        let node: Arc<Node> = Node::new(function, edges, metas);
        // In-place changes of a view would bypass the function's own backward.
        let kind = if differentiable.len() > 1 { ViewKind::MultiOutput } else { ViewKind::CustomFunction };
        for &at in differentiable {
            let Some(output) = &outputs[at] else { continue };
            if self.is_dirty(output) {
                output.rebase_history(node.clone(), at as u32);
            } else {
                output.set_history(node.clone(), at as u32);
                output.set_view_kind(kind);
            }
        }
        node
    }
}
