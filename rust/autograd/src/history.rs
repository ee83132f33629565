//! A tensor's part in the graph: whether it requires gradients, which node made it, and its gradient.

use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use once_cell::race::OnceBox;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};
use smallvec::smallvec;

use crate::accumulate::AccumulateGrad;
use crate::edge::{Edge, Edges};
use crate::hooks::{AfterAccumulate, HookHandle, HookList, NodeHooks, TensorHook};
use crate::lock::Slot;
use crate::modes::{self, GradMode, InferenceMode};
use crate::node::{Backward, Call, Gradients, Node, OutputMeta};
use crate::tensor::{FOR_TANGENTS, HISTORY, REQUIRES_GRAD, RETAINS_GRAD, Tensor, VIEW};
use crate::view::shown;

/// What only leaves that require gradients, and tensors whose gradient is kept, need.
#[derive(Default)]
pub(crate) struct Extra {
    grad: Slot<Tensor>,
    /// Weak, because the accumulator owns its tensor.
    accumulator: Slot<Weak<Node<AccumulateGrad>>>,
    /// The accumulator's hooks, kept here because it lives only as long as a graph that leads to it.
    hooks: OnceBox<Arc<NodeHooks>>,
    pub(crate) after_accumulate: HookList<AfterAccumulate>,
}

/// The derivative of what changes nothing.
struct Identity;

impl Backward for Identity {
    fn name(&self) -> &str {
        "AliasBackward0"
    }

    fn apply(&self, _call: &Call<'_>, grads: Gradients) -> Result<Gradients> {
        Ok(grads)
    }

    fn release(&self) {}
}

/// Held while the history of a tensor that others may see is exchanged: a fork waits for it.
/// Inside it nothing else is taken, so it ranks above the lock of an accumulation.
static CHANGING: ForkMutex<()> = ForkMutex::new(Rank::Tables, ());

impl Tensor {
    pub(crate) fn extra(&self) -> &Extra {
        self.0.extra.get_or_init(Box::default)
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
        self.is_watched() && (!self.is_for_tangents() || modes::current().shown)
    }

    /// Whether calls with this tensor are recorded: because it requires gradients, or for its tangent.
    #[inline]
    pub fn is_watched(&self) -> bool {
        let flags = self.0.flags.load(Relaxed);
        if flags & (REQUIRES_GRAD | HISTORY) != 0 {
            return true;
        }
        flags & VIEW != 0 && self.base().is_some_and(Tensor::is_watched)
    }

    /// Whether what is recorded of this tensor serves tangents alone.
    pub fn is_for_tangents(&self) -> bool {
        let flags = self.0.flags.load(Relaxed);
        if flags & (REQUIRES_GRAD | HISTORY) != 0 {
            return flags & FOR_TANGENTS != 0;
        }
        flags & VIEW != 0 && self.base().is_some_and(Tensor::is_for_tangents)
    }

    /// Makes this tensor, which is fresh, a leaf at which tangents begin.
    pub fn watch_for_tangents(&self) {
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

    /// Makes a tensor through which only tangents passed a leaf: they still do, behind its accumulator.
    fn require_gradients_too(&self) -> Result<()> {
        let edge = self.gradient_edge()?;
        self.change_history(edge);
        self.set_flag(HISTORY | FOR_TANGENTS, false);
        self.set_flag(REQUIRES_GRAD, true);
        Ok(())
    }

    /// Where the tangent of a leaf that requires gradients comes from, if it has one.
    pub(crate) fn tangent_edge(&self) -> Option<Edge> {
        if modes::tangents_ever() && !self.flag(HISTORY) { self.0.history.get() } else { None }
    }

    /// The same elements and history, but no view: changes of them are nobody else's.
    pub fn without_base(&self) -> Result<Tensor> {
        let own = self.detach();
        if let Some(edge) = self.gradient_edge()? {
            own.set_history(edge.node().clone(), edge.output);
        }
        Ok(own)
    }

    /// The same elements behind a node that changes nothing: where the graph inside of another node begins.
    pub fn door(&self) -> Result<Tensor> {
        let door = self.detach();
        if let Some(edge) = self.gradient_edge()? {
            let outputs = smallvec![OutputMeta::from(self)];
            door.set_history(Node::new(Identity, Edges::from_elem(Some(edge), 1), outputs), 0);
        }
        Ok(door)
    }

    /// Whether the user made this tensor, rather than a recorded operator.
    pub fn is_leaf(&self) -> bool {
        !self.requires_grad() || !self.flag(HISTORY) && !self.has_stale_history()
    }

    /// Whether this is a view whose base got a history after the view was made.
    fn has_stale_history(&self) -> bool {
        self.view_info().is_some_and(|view| view.base.is_watched() && view.seen.load(Relaxed) != self.version_or_zero())
    }

    /// The node that made this tensor. Fails for views that an in-place change left without a meaning.
    pub fn grad_fn(&self) -> Result<Option<Arc<Node>>> {
        let shown = modes::current().shown;
        Ok(self.history()?.filter(|edge| edge.is_followed(shown)).map(|edge| edge.node().clone()))
    }

    /// Which of its node's outputs this tensor is.
    pub fn output_nr(&self) -> Result<u32> {
        Ok(self.history()?.map_or(0, |edge| edge.output))
    }

    #[inline]
    pub(crate) fn stored_history(&self) -> Option<Edge> {
        if self.flag(HISTORY) { self.0.history.get() } else { None }
    }

    /// The history, brought up to date first if this is a view whose base changed in place.
    pub(crate) fn history(&self) -> Result<Option<Edge>> {
        let Some(view) = self.view_info() else { return Ok(self.stored_history()) };
        let version = self.version_or_zero();
        if view.seen.load(Relaxed) == version || !(self.flag(HISTORY) || view.base.is_watched()) {
            return Ok(self.stored_history());
        }
        if !view.base.is_for_tangents() {
            view.check_change(self, true)?;
        }
        let fresh = {
            let _inference = InferenceMode::new(false);
            let _grad = GradMode::new(true);
            shown(&view.base, view.replay.as_ref(), self.layout())?
        };
        self.change_history(fresh.stored_history());
        Ok(self.stored_history())
    }

    /// Where this tensor's gradient goes: to the node that made it, or to a leaf's accumulator, or nowhere.
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

    /// The node that collects this leaf's gradient; one for all graphs that live at a time.
    pub fn accumulator(&self) -> Arc<Node> {
        let extra = self.extra();
        if let Some(living) = extra.accumulator.with(|weak| weak.as_ref().and_then(Weak::upgrade)) {
            return living;
        }
        let made = AccumulateGrad::node(self, extra.hooks.get().cloned());
        let weak = Arc::downgrade(&made);
        // Another thread may have made one meanwhile; the first stays.
        let (living, _outdated) = extra.accumulator.with(|place| match place.as_ref().and_then(Weak::upgrade) {
            Some(other) => (Some(other), Some(weak)),
            None => (None, place.replace(weak)),
        });
        living.unwrap_or(made)
    }

    pub(crate) fn reset_accumulator(&self) {
        if let Some(extra) = self.0.extra.get() {
            extra.accumulator.replace(None);
        }
    }

    /// Gives a history to a result that nobody else sees yet.
    #[inline]
    pub fn set_history(&self, node: Arc<Node>, output: u32) {
        let flags = self.0.flags.load(Relaxed) & !(REQUIRES_GRAD | FOR_TANGENTS);
        let tangents = if node.is_for_tangents() { FOR_TANGENTS } else { 0 };
        self.0.flags.store(flags | HISTORY | tangents, Relaxed);
        self.0.history.replace(Some(Edge::new(node, output)));
        if let Some(view) = self.view_info() {
            view.seen.store(self.version_or_zero(), Relaxed);
        }
    }

    /// Makes `node`, which changed this tensor in place, its history. For a tensor that is not a view: the history of a
    /// changed view is its base's (see `InPlace`).
    pub fn rebase_history(&self, node: Arc<Node>, output: u32) {
        self.change_history(Some(Edge::new(node, output)));
    }

    /// Exchanges the history of a tensor that others may see, and moves the hook that keeps its gradient.
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
            let _changing = CHANGING.lock();
            self.0.history.replace(history)
        };
        self.set_flag(HISTORY, flag);
        self.set_flag(FOR_TANGENTS, tangents);
        if flag {
            self.set_flag(REQUIRES_GRAD, false);
        }
        if let Some(view) = self.view_info() {
            view.seen.store(self.version_or_zero(), Relaxed);
        }
        drop(old);
    }

    /// Cuts this tensor off from its history: it becomes a leaf that requires no gradient.
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
        self.0.extra.get().and_then(|extra| extra.grad.get())
    }

    /// Puts a gradient in without any check.
    pub(crate) fn put_grad(&self, grad: Option<Tensor>) {
        if grad.is_some() || self.0.extra.get().is_some() {
            self.extra().grad.replace(grad);
        }
    }

    /// Assigns `.grad`, which must look like the tensor.
    pub fn set_grad(&self, grad: Option<Tensor>) -> Result<()> {
        if let Some(grad) = &grad {
            if grad.ptr_eq(self) {
                return Err(Error::runtime("can't assign Variable as its own grad"));
            }
            if grad.dtype() != self.dtype() {
                return Err(Error::runtime(format!(
                    "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream systems that assume they match.",
                    grad.dtype().c_name(),
                    self.dtype().title()
                )));
            }
            if grad.device().kind() != self.device().kind() {
                return Err(Error::runtime(format!(
                    "attempting to assign a gradient with device type '{}' to a tensor with device type '{}'. Please ensure that the gradient and the tensor are on the same device",
                    grad.device().kind(),
                    self.device().kind()
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

    /// Calls `hook` with this tensor's gradient whenever it is computed; what it returns takes the gradient's place.
    pub fn register_hook(&self, hook: TensorHook) -> Result<HookHandle> {
        let Some(edge) = self.gradient_edge()? else {
            return Err(Error::runtime("cannot register a hook on a tensor that doesn't require gradient"));
        };
        let hooks = edge.node().hooks();
        if !self.flag(HISTORY) {
            let _ = self.extra().hooks.set(Box::new(hooks.clone()));
        }
        Ok(hooks.add_tensor_hook(edge.output, hook))
    }

    /// Visits Python's objects that die with this tensor's last handle, as far as they are found at once: those of
    /// its hooks and of the node that made it. For the host's collector, which may believe what it is shown only
    /// where nobody else has a handle.
    pub fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        if let Some(extra) = self.0.extra.get() {
            extra.after_accumulate.objects(visit);
            if let Some(hooks) = extra.hooks.get().filter(|hooks| Arc::strong_count(hooks) == 1) {
                hooks.objects(visit);
            }
        }
        if let Some(edge) = self.stored_history().filter(|edge| Arc::strong_count(edge.node()) == 2) {
            edge.node().objects(visit);
        }
    }

    /// Forgets the hooks, of which the host's collector found that nobody can reach them.
    pub fn forget_objects(&self) {
        if let Some(extra) = self.0.extra.get() {
            extra.after_accumulate.clear();
            extra.hooks.get().into_iter().for_each(|hooks| hooks.clear());
        }
        if let Some(edge) = self.stored_history().filter(|edge| Arc::strong_count(edge.node()) == 2) {
            edge.node().existing_hooks().into_iter().for_each(NodeHooks::clear);
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
        Ok(self.extra().after_accumulate.add(hook))
    }
}
