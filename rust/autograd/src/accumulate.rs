//! Accumulates gradients in a leaf's `.grad`.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;

use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::layout::contiguous_strides;
use rushlight_core::{Dims, Layout, Result};

use crate::arithmetic::{arithmetic, clone_as};
use crate::graph::{AccumulateGrad, Backward, BackwardCall, Gradients, Node, NodeHooks, OutputMeta, Reachable, Tensor};
use crate::modes;
use crate::mutation_hook::{NoMutationHook, run_mutation_hook};

/// Locks for additions into the gradient of one leaf; all leaves share these few locks. Under a lock only one kernel runs:
/// anything that may run Python code or drop a tensor of others comes before or after.
static LOCKS: [ForkMutex<()>; 16] = [const { ForkMutex::new(Rank::Graph, ()) }; 16];

thread_local! {
    static ACCUMULATING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread holds a lock of an accumulation. Threads that hold the GIL may wait for such a lock, so its
/// holder must not wait for the GIL: kernels that it runs with the GIL keep it.
pub fn is_accumulating() -> bool {
    ACCUMULATING.get()
}

/// Sets `is_accumulating` until it is dropped.
struct Accumulating(bool);

impl Accumulating {
    fn begin() -> Self {
        Accumulating(ACCUMULATING.replace(true))
    }
}

impl Drop for Accumulating {
    fn drop(&mut self) {
        ACCUMULATING.set(self.0);
    }
}

impl AccumulateGrad {
    pub(crate) fn node(variable: &Tensor, hooks: Option<Arc<NodeHooks>>) -> Arc<Node<AccumulateGrad>> {
        let function = AccumulateGrad { variable: variable.clone() };
        let edges = variable.tangent_edge().map(Some).into_iter().collect();
        Node::leaf(function, edges, OutputMeta::from(variable), variable.is_for_tangents(), hooks)
    }

    pub fn variable(&self) -> &Tensor {
        &self.variable
    }
}

impl Backward for AccumulateGrad {
    fn name(&self) -> &str {
        "torch::autograd::AccumulateGrad"
    }

    fn apply(&self, call: &BackwardCall<'_>, mut grads: Gradients) -> Result<Gradients> {
        if call.needs(0) {
            // The backward pass computes the leaf's tangent.
            return Ok(grads);
        }
        // A leaf that was frozen since the graph was built gets no gradient.
        if self.variable.is_tracked() {
            if let Some(grad) = grads.pop().flatten() {
                accumulate(&self.variable, grad)?;
            }
            self.variable.autograd_meta().after_accumulate.each(|hook| hook(&self.variable))?;
        }
        Ok(Gradients::from_elem(None, call.needs.len()))
    }

    fn release(&self) {}

    fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        if self.variable.owners() == 1 {
            self.variable.autograd_meta().after_accumulate.objects(visit);
        }
    }

    fn reachable(&self, visit: &mut dyn FnMut(Reachable)) {
        self.variable.reachable(0).into_iter().for_each(visit);
    }

    /// Hooks after the accumulation are called without a gradient too.
    fn runs_without_gradients(&self) -> bool {
        true
    }
}

/// A gradient that is stored in its tensor has no tangent, unless its graph is kept too: that graph leads to the
/// tensor, which would never be freed.
fn without_tangent(grad: Tensor) -> Tensor {
    if !modes::grad_enabled() && grad.is_for_tangents() { grad.detach() } else { grad }
}

/// Adds a gradient to a leaf's: in place if that is not recorded, or by a new tensor, which is computed without a lock,
/// and again if another thread has changed the leaf's gradient meanwhile.
fn accumulate(variable: &Tensor, grad: Tensor) -> Result<()> {
    let grad = without_tangent(grad);
    let lock = || LOCKS[variable.id() / 64 % LOCKS.len()].lock();
    loop {
        let sum = variable.grad();
        match &sum {
            None => {
                if variable.exchange_grad(None, &mut Some(keep(variable, &grad)?)) {
                    return Ok(());
                }
            }
            // Its handler runs Python code, so that no lock is held.
            Some(sum) if !modes::grad_enabled() && sum.is_wrapper() => return (arithmetic()?.add_)(sum, &grad),
            Some(sum) if !modes::grad_enabled() && (grad.is_sparse() || !sum.is_sparse()) && !grad.is_wrapper() => {
                let add_ = arithmetic()?.add_;
                run_mutation_hook(sum)?;
                let _suspended = NoMutationHook::begin();
                let _locked = lock();
                if variable.has_grad(sum) {
                    let _accumulating = Accumulating::begin();
                    return add_(sum, &grad);
                }
            }
            Some(sum) => {
                let version = {
                    let _locked = lock();
                    sum.version_or_zero()
                };
                let mut new = Some(add_gradients(sum, &grad)?);
                let _locked = lock();
                if sum.version_or_zero() == version && variable.exchange_grad(Some(sum), &mut new) {
                    return Ok(());
                }
            }
        }
    }
}

/// The sum of two gradients. A dense gradient cannot be added into a sparse one, but any gradient can be added into a
/// dense one.
pub(crate) fn add_gradients(sum: &Tensor, grad: &Tensor) -> Result<Tensor> {
    let (first, second) = if sum.is_sparse() { (grad, sum) } else { (sum, grad) };
    (arithmetic()?.add)(first, second)
}

/// The first gradient of a leaf: used as it is if no other handle exists and it has the leaf's strides.
fn keep(variable: &Tensor, grad: &Tensor) -> Result<Tensor> {
    if grad.is_wrapper() {
        return if modes::grad_enabled() { (arithmetic()?.clone)(grad) } else { (arithmetic()?.detach)(grad) };
    }
    if grad.is_sparse() {
        let own = !modes::grad_enabled() && grad.owners() == 1;
        return if own { Ok(grad.detach()) } else { (arithmetic()?.clone)(grad) };
    }
    if !modes::grad_enabled() && is_sole_owner(grad) && same_layout(grad, variable) {
        let plain = !grad.is_view() && !grad.requires_grad();
        return Ok(if plain { grad.clone() } else { grad.detach() });
    }
    clone_like(grad, variable)
}

/// Stores the gradient of a tensor that is not a leaf.
pub(crate) fn retain(tensor: &Tensor, grad: &Tensor) -> Result<()> {
    let grad = without_tangent(grad.clone());
    let sum = match tensor.grad() {
        None => clone_like(&grad, tensor)?,
        Some(sum) => add_gradients(&sum, &grad)?,
    };
    tensor.put_grad(Some(sum));
    Ok(())
}

fn clone_like(grad: &Tensor, variable: &Tensor) -> Result<Tensor> {
    if grad.is_sparse() || grad.is_wrapper() {
        return (arithmetic()?.clone)(grad);
    }
    let mut layout = Layout::contiguous(grad.sizes());
    // `x.data = y` may have changed the leaf's sizes since the graph was built.
    if grad.sizes() == variable.sizes() {
        layout.strides = strides_of_gradient(variable.layout());
    }
    clone_as(grad, &layout)
}

/// The variable's strides if it is dense.
fn strides_of_gradient(variable: &Layout) -> Dims {
    if variable.is_dense() && !variable.is_contiguous() {
        variable.strides.clone()
    } else {
        contiguous_strides(&variable.sizes)
    }
}

/// Whether no other handle leads to this tensor's elements (a view's base without other handles does not count).
pub(crate) fn is_sole_owner(tensor: &Tensor) -> bool {
    let hidden = match tensor.base() {
        None => 0,
        Some(base) if base.owners() == 1 => 1,
        Some(_) => return false,
    };
    tensor.owners() == 1 && tensor.storage().owners() == 1 + hidden
}

fn same_layout(grad: &Tensor, variable: &Tensor) -> bool {
    let wanted = strides_of_gradient(variable.layout());
    let strides = grad.layout().strides.iter().zip(&wanted);
    grad.sizes() == variable.sizes() && grad.sizes().iter().zip(strides).all(|(&size, (a, b))| size == 1 || a == b)
}
