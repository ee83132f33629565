//! User functions that are called during backward.
//!
//! The order is torch's: the hooks of a tensor, then the gradients that `retain_grad` keeps, then the hooks of the node
//! before and after its function.

use std::ffi::c_void;

use rushlight_core::Result;

use crate::graph::{Gradients, NodeHooks, Tensor, TensorHook};
use crate::hook_list::HookHandle;

impl NodeHooks {
    pub(crate) fn add_tensor_hook(&self, output: u32, hook: TensorHook) -> HookHandle {
        self.tensor.add((output, hook))
    }

    pub(crate) fn retain(&self, tensor: &Tensor, output: u32) {
        self.retained.add((output, tensor.downgrade()));
    }

    pub(crate) fn forget(&self, tensor: &Tensor) {
        self.retained.retain(|(_, kept)| !kept.is(tensor));
    }

    pub(crate) fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        self.tensor.objects(visit);
        self.pre.objects(visit);
        self.post.objects(visit);
        self.metadata.objects(visit);
    }

    pub(crate) fn clear(&self) {
        self.tensor.clear();
        self.pre.clear();
        self.post.clear();
        self.metadata.clear();
    }

    /// Runs the tensors' hooks over the gradients that arrived at their node, and stores those of `retain_grad`.
    pub(crate) fn run_tensor_hooks(&self, grads: &mut Gradients) -> Result<()> {
        self.tensor.each_named(|(output, hook), name| {
            let Some(place) = grads.get_mut(*output as usize) else { return Ok(()) };
            if let Some(new) = hook(place.as_ref())? {
                let Some(old) = place else { return Err(crate::validate::gradient_out_of_none()) };
                crate::validate::check_hook_result(name, old, &new)?;
                *old = new;
            }
            Ok(())
        })?;
        self.retained.each(|(output, kept)| match (kept.upgrade(), grads.get(*output as usize)) {
            (Some(tensor), Some(Some(grad))) => crate::accumulate::retain(&tensor, grad),
            _ => Ok(()),
        })
    }

    pub(crate) fn run_pre_hooks(&self, grads: &mut Gradients) -> Result<()> {
        self.pre.each_named(|hook, name| {
            if let Some(new) = hook(grads)? {
                crate::validate::check_hook_results(name, grads, &new)?;
                *grads = new;
            }
            Ok(())
        })
    }

    pub(crate) fn run_post_hooks(&self, results: &mut Gradients, grads: &Gradients) -> Result<()> {
        self.post.each_named(|hook, name| {
            if let Some(new) = hook(results, grads)? {
                crate::validate::check_hook_results(name, results, &new)?;
                *results = new;
            }
            Ok(())
        })
    }
}
