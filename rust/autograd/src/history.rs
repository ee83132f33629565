//! A tensor's part in the graph: whether it requires gradients, the node that made it, and its gradient.

use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Error, Result};
use smallvec::smallvec;

use crate::graph::{
    AccumulateGrad, AfterAccumulate, AutogradMeta, Backward, BackwardCall, Edge, Edges, FOR_TANGENTS, Gradients,
    HISTORY, Node, NodeHooks, OutputMeta, REQUIRES_GRAD, RETAINS_GRAD, Reachable, Tensor, TensorHook, VIEW,
};
use crate::hook_list::HookHandle;
use crate::modes::{self, GradMode, InferenceMode};
use crate::view::replay_view;

/// The derivative of the identity.
struct Identity;

impl Backward for Identity {
    fn name(&self) -> &str {
        "AliasBackward0"
    }

    fn apply(&self, _call: &BackwardCall<'_>, grads: Gradients) -> Result<Gradients> {
        Ok(grads)
    }

    fn release(&self) {}
}

/// Held while the history of a shared tensor is exchanged, so that a fork waits for it. No other lock is taken inside,
/// so it ranks above the lock of an accumulation.
static HISTORY_LOCK: ForkMutex<()> = ForkMutex::new(Rank::Tables, ());

impl Tensor {
    pub(crate) fn autograd_meta(&self) -> &AutogradMeta {
        self.0.autograd_meta.get_or_init(Box::default)
    }

    fn flag(&self, flag: u8) -> bool {
        self.0.flags.load(Relaxed) & flag != 0
    }

    fn set_flag(&self, flag: u8, on: bool) {
        if on {
            self.0.flags.fetch_or(flag, Relaxed)
        } else {
            self.0.flags.fetch_and(!flag, Relaxed)
        };
    }

    #[inline]
    pub fn requires_grad(&self) -> bool {
        self.is_tracked() && (!self.is_for_tangents() || modes::current().tangents_visible)
    }

    /// Whether calls with this tensor are recorded: because it requires gradients, or for its tangent.
    #[inline]
    pub fn is_tracked(&self) -> bool {
        let flags = self.0.flags.load(Relaxed);
        if flags & (REQUIRES_GRAD | HISTORY) != 0 {
            return true;
        }
        flags & VIEW != 0 && self.base().is_some_and(Tensor::is_tracked)
    }

    /// Whether the records of this tensor are for tangents only.
    pub fn is_for_tangents(&self) -> bool {
        let flags = self.0.flags.load(Relaxed);
        if flags & (REQUIRES_GRAD | HISTORY) != 0 {
            return flags & FOR_TANGENTS != 0;
        }
        flags & VIEW != 0 && self.base().is_some_and(Tensor::is_for_tangents)
    }

    /// Makes this new tensor a leaf at which tangents begin.
    pub fn track_tangents(&self) {
        self.set_flag(REQUIRES_GRAD | FOR_TANGENTS, true);
    }

    pub fn set_requires_grad(&self, requires: bool) -> Result<()> {
        if requires && !self.dtype().is_differentiable() {
            return Err(Error::runtime("only Tensors of floating point dtype can require gradients"));
        }
        if requires && self.is_inference() && !modes::inference_enabled() {
            return Err(Error::runtime(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
            ));
        }
        if !requires && !self.is_leaf() {
            return Err(Error::runtime(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().",
            ));
        }
        if requires && self.is_for_tangents() {
            return self.require_gradients_too();
        }
        if !requires && let Some(edge) = self.tangent_edge() {
            self.change_history(Some(edge));
        }
        self.set_flag(REQUIRES_GRAD, requires && !self.flag(HISTORY));
        Ok(())
    }

    /// Makes a tensor that is for tangents only a leaf that requires gradients; tangents still pass through it, behind
    /// its accumulator.
    fn require_gradients_too(&self) -> Result<()> {
        let edge = self.gradient_edge()?;
        self.change_history(edge);
        self.set_flag(HISTORY | FOR_TANGENTS, false);
        self.set_flag(REQUIRES_GRAD, true);
        Ok(())
    }

    /// The edge to the tangent of a leaf that requires gradients, if it has one.
    pub(crate) fn tangent_edge(&self) -> Option<Edge> {
        if modes::tangents_used() && !self.flag(HISTORY) { self.0.history.get() } else { None }
    }

    /// The same elements and history, but not a view: in-place changes do not affect a base.
    pub fn without_base(&self) -> Result<Tensor> {
        let own = self.detach();
        if let Some(edge) = self.gradient_edge()? {
            own.set_history(edge.node().clone(), edge.output);
        }
        Ok(own)
    }

    /// The same elements behind an identity node, where the inner graph of another node begins.
    pub fn alias_in_subgraph(&self) -> Result<Tensor> {
        let alias = self.detach();
        if let Some(edge) = self.gradient_edge()? {
            let outputs = smallvec![OutputMeta::from(self)];
            alias.set_history(Node::new(Identity, Edges::from_elem(Some(edge), 1), outputs), 0);
        }
        Ok(alias)
    }

    /// Whether no recorded operator made this tensor.
    pub fn is_leaf(&self) -> bool {
        !self.requires_grad() || !self.flag(HISTORY) && !self.has_stale_history()
    }

    /// Whether this is a view whose base got a history after the view was made.
    fn has_stale_history(&self) -> bool {
        self.view_info()
            .is_some_and(|view| view.base.is_tracked() && view.history_version.load(Relaxed) != self.version_or_zero())
    }

    /// The node that made this tensor. Fails for views that an in-place change has invalidated.
    pub fn grad_fn(&self) -> Result<Option<Arc<Node>>> {
        let tangents_visible = modes::current().tangents_visible;
        Ok(self.history()?.filter(|edge| edge.is_followed(tangents_visible)).map(|edge| edge.node().clone()))
    }

    /// The index of this tensor among its node's outputs.
    pub fn output_nr(&self) -> Result<u32> {
        Ok(self.history()?.map_or(0, |edge| edge.output))
    }

    /// Whether a recorded operator made this tensor, or changed it.
    #[inline]
    pub(crate) fn has_history(&self) -> bool {
        self.flag(HISTORY)
    }

    #[inline]
    pub(crate) fn stored_history(&self) -> Option<Edge> {
        if self.flag(HISTORY) { self.0.history.get() } else { None }
    }

    /// The history, updated first if this is a view whose base was changed in place.
    pub(crate) fn history(&self) -> Result<Option<Edge>> {
        let Some(view) = self.view_info() else { return Ok(self.stored_history()) };
        let version = self.version_or_zero();
        if view.history_version.load(Relaxed) == version || !(self.flag(HISTORY) || view.base.is_tracked()) {
            return Ok(self.stored_history());
        }
        if !view.base.is_for_tangents() {
            view.check_change(self, true)?;
        }
        let fresh = {
            let _inference = InferenceMode::new(false);
            let _grad = GradMode::new(true);
            replay_view(&view.base, view.replay.as_ref(), self.layout())?
        };
        self.change_history(fresh.stored_history());
        Ok(self.stored_history())
    }

    /// The edge for this tensor's gradient: to the node that made it, or to a leaf's accumulator, or none.
    #[inline]
    pub fn gradient_edge(&self) -> Result<Option<Edge>> {
        let flags = self.0.flags.load(Relaxed);
        if flags & (VIEW | HISTORY | REQUIRES_GRAD) == 0 {
            return Ok(None);
        }
        let history = if flags & VIEW == 0 { self.stored_history() } else { self.history()? };
        if history.is_some() || !self.flag(REQUIRES_GRAD) {
            return Ok(history);
        }
        Ok(Some(Edge::new(self.accumulator(), 0)))
    }

    /// The node that accumulates this leaf's gradient; all graphs that exist at a time share it.
    pub fn accumulator(&self) -> Arc<Node> {
        let autograd_meta = self.autograd_meta();
        if let Some(living) = autograd_meta.accumulator.with(|weak| weak.as_ref().and_then(Weak::upgrade)) {
            return living;
        }
        let made = AccumulateGrad::node(self, autograd_meta.hooks.get().cloned());
        let weak = Arc::downgrade(&made);
        // Another thread may have made one meanwhile; the first is kept.
        let (living, _outdated) =
            autograd_meta.accumulator.with(|place| match place.as_ref().and_then(Weak::upgrade) {
                Some(other) => (Some(other), Some(weak)),
                None => (None, place.replace(weak)),
            });
        living.unwrap_or(made)
    }

    /// Graphs that are made from now on lead to another accumulator.
    pub fn reset_accumulator(&self) {
        if let Some(autograd_meta) = self.0.autograd_meta.get() {
            autograd_meta.accumulator.replace(None);
        }
    }

    /// Sets the history of a result that is not shared yet.
    #[inline]
    pub fn set_history(&self, node: Arc<Node>, output: u32) {
        let flags = self.0.flags.load(Relaxed) & !(REQUIRES_GRAD | FOR_TANGENTS);
        let tangents = if node.is_for_tangents() { FOR_TANGENTS } else { 0 };
        self.0.flags.store(flags | HISTORY | tangents, Relaxed);
        self.0.history.replace(Some(Edge::new(node, output)));
        if let Some(view) = self.view_info() {
            view.history_version.store(self.version_or_zero(), Relaxed);
        }
    }

    /// Makes `node`, which changed this tensor in place, its history. Not for views: changing a view sets the history
    /// of its base (see `InPlace`).
    pub fn rebase_history(&self, node: Arc<Node>, output: u32) {
        self.change_history(Some(Edge::new(node, output)));
    }

    /// Exchanges the history of a tensor that may be shared, and moves the hook of `retain_grad`.
    pub(crate) fn change_history(&self, history: Option<Edge>) {
        if self.flag(RETAINS_GRAD) {
            if let Some(old) = self.stored_history() {
                old.node().hooks().forget(self);
            }
            if let Some(new) = &history {
                new.node().hooks().retain(self, new.output);
            }
        }
        let flag = history.is_some();
        let tangents = history.as_ref().is_some_and(|edge| edge.node().is_for_tangents());
        let old = {
            let _changing = HISTORY_LOCK.lock();
            self.0.history.replace(history)
        };
        self.set_flag(HISTORY, flag);
        self.set_flag(FOR_TANGENTS, tangents);
        if flag {
            self.set_flag(REQUIRES_GRAD, false);
        }
        if let Some(view) = self.view_info() {
            view.history_version.store(self.version_or_zero(), Relaxed);
        }
        drop(old);
    }

    /// Removes this tensor's history: it becomes a leaf that requires no gradient.
    pub fn detach_(&self) -> Result<()> {
        if self.is_view() {
            return Err(Error::runtime(
                "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() cannot be called on these gradients. To fix this error, please refer to the Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution.",
            ));
        }
        self.change_history(None);
        self.set_flag(REQUIRES_GRAD | RETAINS_GRAD | FOR_TANGENTS, false);
        Ok(())
    }

    #[inline]
    pub fn grad(&self) -> Option<Tensor> {
        self.0.autograd_meta.get().and_then(|autograd_meta| autograd_meta.grad.get())
    }

    /// Whether the gradient is this very tensor.
    pub(crate) fn has_grad(&self, wanted: &Tensor) -> bool {
        self.autograd_meta().grad.with(|grad| grad.as_ref().is_some_and(|grad| grad.ptr_eq(wanted)))
    }

    /// Exchanges the gradient with `new` if it is still `old`; returns whether it was. Drops no tensor.
    pub(crate) fn exchange_grad(&self, old: Option<&Tensor>, new: &mut Option<Tensor>) -> bool {
        self.autograd_meta().grad.with(|grad| {
            let same = match (&*grad, old) {
                (Some(grad), Some(old)) => grad.ptr_eq(old),
                (grad, old) => grad.is_none() && old.is_none(),
            };
            if same {
                std::mem::swap(grad, new);
            }
            same
        })
    }

    /// Sets the gradient without any check.
    pub(crate) fn put_grad(&self, grad: Option<Tensor>) {
        if grad.is_some() || self.0.autograd_meta.get().is_some() {
            self.autograd_meta().grad.replace(grad);
        }
    }

    /// Sets `.grad`, which must have the tensor's sizes, dtype and device.
    pub fn set_grad(&self, grad: Option<Tensor>) -> Result<()> {
        if let Some(grad) = &grad {
            if grad.ptr_eq(self) {
                return Err(Error::runtime("can't assign Variable as its own grad"));
            }
            let wanted = self.chosen_grad_dtype().unwrap_or(Some(self.dtype()));
            if let Some(wanted) = wanted.filter(|wanted| grad.dtype() != *wanted) {
                return Err(Error::runtime(format!(
                    "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream systems that assume they match.",
                    grad.dtype().c_name(),
                    wanted.display_name()
                )));
            }
            if grad.device().kind() != self.device().kind() {
                return Err(Error::runtime(format!(
                    "attempting to assign a gradient with device type '{}' to a tensor with device type '{}'. Please ensure that the gradient and the tensor are on the same device",
                    grad.device().kind(),
                    self.device().kind()
                )));
            }
            if let (Device::Cuda(own), Device::Cuda(index)) = (self.device(), grad.device())
                && own != index
            {
                return Err(Error::runtime(format!(
                    "attempting to assign a gradient located on device with index '{index}' to a tensor located on device with index '{own}'. Please ensure that the gradient and the tensor are on the same device"
                )));
            }
            if grad.sizes() != self.sizes() {
                return Err(Error::runtime(format!(
                    "attempting to assign a gradient of size '{}' to a tensor of size '{}'. Please ensure that the gradient and the tensor are the same size",
                    Shape(grad.sizes()),
                    Shape(self.sizes())
                )));
            }
        }
        self.put_grad(grad);
        Ok(())
    }

    /// The dtype that the program has chosen for the gradient: `Some(None)` for any, `None` if it has not chosen.
    pub(crate) fn chosen_grad_dtype(&self) -> Option<Option<DType>> {
        self.0.autograd_meta.get().and_then(|autograd_meta| autograd_meta.grad_dtype.get())
    }

    /// The dtype of a leaf's gradient, `None` if it may have any.
    pub fn grad_dtype(&self) -> Result<Option<DType>> {
        if !self.is_leaf() {
            return Err(Error::runtime("grad_dtype can only be accessed on leaf tensors."));
        }
        Ok(self.chosen_grad_dtype().unwrap_or(Some(self.dtype())))
    }

    /// Sets the dtype of a leaf's gradient, `None` for any. Backward casts the gradient to it.
    pub fn set_grad_dtype(&self, dtype: Option<DType>) -> Result<()> {
        if !self.is_leaf() {
            return Err(Error::runtime("grad_dtype can only be set on leaf tensors."));
        }
        if let (Some(dtype), Some(grad)) = (dtype, self.grad())
            && grad.dtype() != dtype
        {
            return Err(Error::runtime(format!(
                "Cannot set grad_dtype to '{}' because there is already a gradient with dtype '{}'. Please clear the gradient (.grad = None) before changing grad_dtype, or ensure the new grad_dtype matches the existing gradient's dtype.",
                dtype.display_name(),
                grad.dtype().c_name()
            )));
        }
        self.autograd_meta().grad_dtype.replace(Some(dtype));
        Ok(())
    }

    #[inline]
    pub fn retains_grad(&self) -> bool {
        self.flag(RETAINS_GRAD)
    }

    /// Keeps the gradient of a tensor that is not a leaf in `.grad`, as for leaves.
    pub fn retain_grad(&self) -> Result<()> {
        if !self.requires_grad() {
            return Err(Error::runtime("can't retain_grad on Tensor that has requires_grad=False"));
        }
        let Some(edge) = self.history()? else { return Ok(()) };
        if !self.flag(RETAINS_GRAD) {
            self.set_flag(RETAINS_GRAD, true);
            edge.node().hooks().retain(self, edge.output);
        }
        Ok(())
    }

    /// Calls `hook` with this tensor's gradient whenever it is computed; a result replaces the gradient.
    pub fn register_hook(&self, hook: TensorHook) -> Result<HookHandle> {
        let Some(edge) = self.gradient_edge()? else {
            return Err(Error::runtime("cannot register a hook on a tensor that doesn't require gradient"));
        };
        let hooks = edge.node().hooks();
        if !self.flag(HISTORY) {
            let _ = self.autograd_meta().hooks.set(Box::new(hooks.clone()));
        }
        Ok(hooks.add_tensor_hook(edge.output, hook))
    }

    /// Visits the Python objects of this tensor's hooks, in the order in which they are called. The hooks keep them alive
    /// during the visit.
    pub fn hook_objects(&self, visit: &mut dyn FnMut(*mut c_void)) -> Result<()> {
        let Some((hooks, own)) = self.hook_list()? else { return Ok(()) };
        hooks.tensor.each_object(|(output, _), object| {
            if *output == own && !object.is_null() {
                visit(object);
            }
        });
        Ok(())
    }

    /// Removes the hooks on this tensor's gradient.
    pub fn clear_hooks(&self) -> Result<()> {
        if let Some((hooks, own)) = self.hook_list()? {
            hooks.tensor.retain(|(output, _)| *output != own);
        }
        Ok(())
    }

    /// The hooks of the node that computes this tensor's gradient, if there are any, and which of its outputs this is.
    fn hook_list(&self) -> Result<Option<(Arc<NodeHooks>, u32)>> {
        Ok(self.gradient_edge()?.and_then(|edge| Some((edge.node().hooks.get()?.clone(), edge.output))))
    }

    /// Visits the Python objects that are freed with this tensor's last handle, as far as they are found at once: those
    /// of its hooks and of the node that made it. It serves Python's garbage collector, which may rely on the result
    /// only if no other handle exists.
    pub fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        if let Some(autograd_meta) = self.0.autograd_meta.get() {
            autograd_meta.after_accumulate.objects(visit);
            if let Some(hooks) = autograd_meta.hooks.get().filter(|hooks| Arc::strong_count(hooks) == 1) {
                hooks.objects(visit);
            }
            // The gradient's handles are this one and its object's.
            if let Some(Reachable::Object { python, owners: 2 }) =
                autograd_meta.grad.get().and_then(|grad| grad.reachable(1))
            {
                visit(python);
            }
        }
        if let Some(edge) = self.stored_history().filter(|edge| Arc::strong_count(edge.node()) == 2) {
            edge.node().objects(visit);
        }
    }

    /// Drops the hooks, the gradient and the history, which Python's garbage collector found to be unreachable. The caller
    /// has the only handle.
    pub fn forget_objects(&self) {
        if let Some(autograd_meta) = self.0.autograd_meta.get() {
            let grad = autograd_meta.grad.replace(None);
            drop(grad);
            autograd_meta.after_accumulate.clear();
            autograd_meta.hooks.get().into_iter().for_each(|hooks| hooks.clear());
        }
        if let Some(edge) = self.stored_history().filter(|edge| Arc::strong_count(edge.node()) == 2) {
            edge.node().forget_objects();
            let history = self.0.history.replace(None);
            self.set_flag(HISTORY, false);
            drop(history);
        }
    }

    /// Calls `hook` with this leaf after a gradient was added to its `.grad`.
    pub fn register_post_accumulate_grad_hook(&self, hook: AfterAccumulate) -> Result<HookHandle> {
        if !self.requires_grad() {
            return Err(Error::runtime("cannot register a hook on a tensor that doesn't require gradient"));
        }
        if !self.is_leaf() {
            return Err(Error::runtime("post accumulate grad hooks cannot be registered on non-leaf tensors"));
        }
        Ok(self.autograd_meta().after_accumulate.add(hook))
    }
}
