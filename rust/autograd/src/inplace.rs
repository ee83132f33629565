//! In-place changes: which are errors, and how the history of tensors and views is rewritten.
//!
//! After a change the tensor's history is the operator that changed it. If the tensor is a view, the change is one of
//! its base: the base's new history is `CopySlices`, which passes the gradient outside the slice unchanged and the
//! gradient inside through the operator's derivative. The views of the base, the changed one included, find that their
//! version is outdated and derive their history again from the base's.

use std::ffi::c_void;
use std::sync::Arc;

use rushlight_core::{Error, Layout, Result};
use smallvec::SmallVec;

use crate::arithmetic::{arithmetic, clone_as};
use crate::graph::{Backward, BackwardCall, Edges, Gradients, Node, OutputMeta, Reachable, Slice, Tensor, TensorMeta};
use crate::modes::{self, GradMode};
use crate::mutation_hook::run_mutation_hook;
use crate::record::{collect_edges, should_record};
use crate::saved::copy_kept;
use crate::view::replay_view;

/// The error for a change of a tensor that was created in inference mode.
#[cold]
pub fn inference_update() -> Error {
    Error::runtime(
        "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.",
    )
}

/// One in-place change, from before the kernel runs until after.
pub struct InPlace<'a> {
    target: &'a Tensor,
    /// Present if the change is recorded.
    edges: Option<Edges>,
}

impl<'a> InPlace<'a> {
    /// Returns an error if the target may not be changed. `inputs` are the differentiable inputs, the target first.
    pub fn begin(target: &'a Tensor, inputs: &[Option<&Tensor>]) -> Result<InPlace<'a>> {
        if target.is_inference() && !modes::inference_enabled() {
            return Err(inference_update());
        }
        run_mutation_hook(target)?;
        copy_kept(target)?;
        if !target.dtype().is_differentiable() || !should_record(inputs) {
            return Ok(InPlace { target, edges: None });
        }
        if modes::grad_enabled() {
            check_history(target)?;
        } else if is_wanted_leaf(target.base().unwrap_or(target)) {
            // With gradients disabled a leaf may be changed, and remains one.
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

    /// Counts the change, once the kernel has run, and records it. `function` is called only then, so that it can save
    /// the target as an output; the first of its gradients is that of the target before the change.
    pub fn finish<F: Backward>(self, function: impl FnOnce() -> Result<F>) -> Result<()> {
        self.target.bump_version();
        let Some(edges) = self.edges else { return Ok(()) };
        record_change(self.target, function()?, edges, 0);
        Ok(())
    }
}

/// Makes `function`, which changed `target` in place, the history of the target, or of its base if it is a view. The
/// target is input number `place` of the function, whose edge is that of the tensor whose history changes, and its only
/// output.
pub fn record_change<F: Backward>(target: &Tensor, function: F, edges: Edges, place: usize) -> Arc<Node> {
    let Some(view) = target.view_info() else {
        let node: Arc<Node> = Node::new(function, edges, SmallVec::from_buf([OutputMeta::from(target)]));
        target.rebase_history(node.clone(), 0);
        return node;
    };
    let TensorMeta { layout, form, .. } = view.base.meta().clone();
    let slice = Slice { base: layout, form, view: target.layout().clone(), replay: view.replay.clone() };
    let outputs = SmallVec::from_buf([OutputMeta::from(&view.base)]);
    let node: Arc<Node> = Node::new(CopySlices { slice, function, place }, edges, outputs);
    view.base.rebase_history(node.clone(), 0);
    node
}

fn is_wanted_leaf(tensor: &Tensor) -> bool {
    tensor.requires_grad() && tensor.is_leaf()
}

/// Returns an error for changes that would make gradients wrong.
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

impl Slice {
    /// A saved output of a function that changed the view: the view of the base that is the node's output.
    pub(crate) fn output(&self, saved: &Tensor, node: &Arc<Node>) -> Result<Tensor> {
        let meta = &node.outputs()[0];
        let plain = TensorMeta::new(saved.storage().clone(), self.base.clone(), meta.dtype, meta.device);
        let base = Tensor::with_meta(TensorMeta { form: self.form.clone(), ..plain });
        base.set_history(node.clone(), 0);
        let _grad = GradMode::new(true);
        replay_view(&base, self.replay.as_ref(), &self.view)
    }
}

fn moved(layout: &Layout, start: isize) -> Layout {
    Layout { offset: layout.offset - start, ..layout.clone() }
}

/// The history of a base after `function` changed one of its views.
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

    fn apply(&self, call: &BackwardCall<'_>, mut grads: Gradients) -> Result<Gradients> {
        let Some(grad) = grads.pop().flatten() else { return Ok(Gradients::from_elem(None, call.needs.len())) };
        let table = arithmetic()?;
        let Slice { base, view, replay, .. } = &self.slice;
        // The gradient with the base's own geometry, in new memory. A replay counts from the start of the storage.
        let (low, high) = base.span().unwrap_or((base.offset, base.offset - 1));
        let start = if replay.is_some() { 0 } else { low };
        let buffer = (table.empty)(&Layout::contiguous(&[high + 1 - start]), &grad)?;
        let whole = (table.as_strided)(&buffer, &moved(base, start))?;
        (table.copy_)(&whole, &grad)?;

        let slice = replay_view(&whole, replay.as_ref(), &moved(view, start))?;
        let inside = clone_as(&slice, &Layout::contiguous(slice.sizes()))?;
        let call = BackwardCall { slice: Some(&self.slice), ..*call };
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

    fn reachable(&self, visit: &mut dyn FnMut(Reachable)) {
        self.function.reachable(visit);
    }

    fn forget_objects(&self) {
        self.function.forget_objects();
    }

    fn slice(&self) -> Option<&Slice> {
        Some(&self.slice)
    }
}
