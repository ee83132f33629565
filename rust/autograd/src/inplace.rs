//! Changing a tensor in place: what is forbidden, and how the history of tensors and views is rewritten.
//!
//! After a change the tensor's history is the operator that changed it. If the tensor is a view, it is the base that
//! changed: the base's new history is `CopySlices`, whose gradient is the old one outside the slice and passes through
//! the operator's derivative inside. The views of the base, the changed one included, find their version outdated and make
//! their history anew from the base's.

use std::ffi::c_void;
use std::sync::Arc;

use rushlight_core::{Error, Layout, Result};
use smallvec::SmallVec;

use crate::arithmetic::{arithmetic, clone_as};
use crate::edge::Edges;
use crate::modes::{self, GradMode};
use crate::node::{Backward, Call, Gradients, Node, OutputMeta};
use crate::record::{collect_edges, should_record};
use crate::saved::about_to_change;
use crate::tensor::{Form, Meta, Tensor};
use crate::view::{Replay, shown};

/// One change in place, from before the kernel runs until after.
pub struct InPlace<'a> {
    target: &'a Tensor,
    /// Present if the change is recorded.
    edges: Option<Edges>,
}

impl<'a> InPlace<'a> {
    /// Refuses what may not be changed. `inputs` are the differentiable inputs, the target first.
    pub fn begin(target: &'a Tensor, inputs: &[Option<&Tensor>]) -> Result<InPlace<'a>> {
        if target.is_inference() && !modes::inference_enabled() {
            return Err(Error::runtime(
                "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.",
            ));
        }
        about_to_change(target)?;
        if !target.dtype().is_differentiable() || !should_record(inputs) {
            return Ok(InPlace { target, edges: None });
        }
        if modes::grad_enabled() {
            check_history(target)?;
        } else if is_wanted_leaf(target.base().unwrap_or(target)) {
            // Where gradients are off a leaf may be changed, and stays one.
            return Ok(InPlace { target, edges: None });
        }
        let mut edges = Edges::with_capacity(inputs.len());
        edges.push(target.base().unwrap_or(target).gradient_edge()?);
        edges.extend(collect_edges(&inputs[1..])?);
        Ok(InPlace { target, edges: Some(edges) })
    }

    pub fn is_recorded(&self) -> bool {
        self.edges.is_some()
    }

    /// Counts the change, once the kernel has run, and records it. `function` is asked for only then, so that it can save the
    /// target as an output; the first of its gradients belongs to the target as it was before.
    pub fn finish<F: Backward>(self, function: impl FnOnce() -> Result<F>) -> Result<()> {
        self.target.bump_version();
        let Some(edges) = self.edges else { return Ok(()) };
        record_change(self.target, function()?, edges, 0);
        Ok(())
    }
}

/// Makes `function`, which changed `target` in place, the history of the target, or of its base if it is a view. The target
/// is the function's input number `place`, whose edge is that of what gets the history, and its only output.
pub fn record_change<F: Backward>(target: &Tensor, function: F, edges: Edges, place: usize) -> Arc<Node> {
    let Some(view) = target.view_info() else {
        let node: Arc<Node> = Node::new(function, edges, SmallVec::from_buf([OutputMeta::from(target)]));
        target.rebase_history(node.clone(), 0);
        return node;
    };
    let Meta { layout, form, .. } = view.base.meta().clone();
    let slice = Slice { base: layout, form, view: target.layout().clone(), replay: view.replay.clone() };
    let outputs = SmallVec::from_buf([OutputMeta::from(&view.base)]);
    let node: Arc<Node> = Node::new(CopySlices { slice, function, place }, edges, outputs);
    view.base.rebase_history(node.clone(), 0);
    node
}

fn is_wanted_leaf(tensor: &Tensor) -> bool {
    tensor.requires_grad() && tensor.is_leaf()
}

/// Refuses changes that would falsify gradients.
pub fn check_history(target: &Tensor) -> Result<()> {
    if let Some(view) = target.view_info() {
        view.check_change(target, false)?;
        if target.requires_grad() && view.base.is_leaf() {
            return Err(Error::runtime(
                "a view of a leaf Variable that requires grad is being used in an in-place operation.",
            ));
        }
    }
    if is_wanted_leaf(target) {
        return Err(Error::runtime("a leaf Variable that requires grad is being used in an in-place operation."));
    }
    Ok(())
}

/// How a view lies in its base.
pub struct Slice {
    base: Layout,
    form: Form,
    view: Layout,
    replay: Option<Replay>,
}

impl Slice {
    /// A saved output of a function that changed the view: the view of the base that the node has as its output.
    pub(crate) fn output(&self, saved: &Tensor, node: &Arc<Node>) -> Result<Tensor> {
        let meta = &node.outputs()[0];
        let plain = Meta::new(saved.storage().clone(), self.base.clone(), meta.dtype, meta.device);
        let base = Tensor::with_meta(Meta { form: self.form.clone(), ..plain });
        base.set_history(node.clone(), 0);
        let _grad = GradMode::new(true);
        shown(&base, self.replay.as_ref(), &self.view)
    }
}

fn moved(layout: &Layout, start: isize) -> Layout {
    Layout { offset: layout.offset - start, ..layout.clone() }
}

/// The history of a base one of whose views was changed by `function`.
struct CopySlices<F> {
    slice: Slice,
    function: F,
    /// Which of the function's inputs was changed.
    place: usize,
}

impl<F: Backward> Backward for CopySlices<F> {
    fn name(&self) -> &str {
        "torch::autograd::CopySlices"
    }

    fn apply(&self, call: &Call<'_>, mut grads: Gradients) -> Result<Gradients> {
        let Some(grad) = grads.pop().flatten() else { return Ok(Gradients::from_elem(None, call.needs.len())) };
        let table = arithmetic()?;
        let Slice { base, view, replay, .. } = &self.slice;
        // The gradient with the base's own geometry, in fresh memory. A replay counts from the start of the storage.
        let (low, high) = base.span().unwrap_or((base.offset, base.offset - 1));
        let start = if replay.is_some() { 0 } else { low };
        let buffer = (table.empty)(&Layout::contiguous(&[high + 1 - start]), &grad)?;
        let whole = (table.as_strided)(&buffer, &moved(base, start))?;
        (table.copy_)(&whole, &grad)?;

        let slice = shown(&whole, replay.as_ref(), &moved(view, start))?;
        let inside = clone_as(&slice, &Layout::contiguous(slice.sizes()))?;
        let call = Call { slice: Some(&self.slice), ..*call };
        let mut results = self.function.apply(&call, Gradients::from_elem(Some(inside), 1))?;
        if call.needs(self.place) {
            let inside = match results.get_mut(self.place).and_then(Option::take) {
                Some(grad) => grad,
                None => (table.full)(&[], 0.0, slice.dtype(), slice.device())?,
            };
            (table.copy_)(&slice, &inside)?;
            results[self.place] = Some(whole);
        }
        Ok(results)
    }

    fn release(&self) {
        self.function.release();
    }

    fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        self.function.objects(visit);
    }

    fn slice(&self) -> Option<&Slice> {
        Some(&self.slice)
    }
}
