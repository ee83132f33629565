//! Where gradients arrive: a leaf's `.grad`.

use std::sync::Arc;

use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::layout::{Dims, contiguous_strides};
use rushlight_core::{Layout, Result};

use crate::arithmetic::{arithmetic, clone_as};
use crate::hooks::NodeHooks;
use crate::modes;
use crate::node::{Backward, Call, Gradients, Node, OutputMeta};
use crate::tensor::Tensor;

/// The node at the end of every path: it adds what arrives to the gradient of its leaf.
pub struct AccumulateGrad {
    variable: Tensor,
}

/// Threads that add to the same leaf take turns; leaves share these few locks.
static TURNS: [ForkMutex<()>; 16] = [const { ForkMutex::new(Rank::Graph, ()) }; 16];

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

    fn apply(&self, call: &Call<'_>, mut grads: Gradients) -> Result<Gradients> {
        if call.needs(0) {
            // The walk is after the leaf's tangent.
            return Ok(grads);
        }
        // A leaf that was frozen since the graph was built takes no gradient.
        if let Some(grad) = grads.pop().flatten().filter(|_| self.variable.is_watched()) {
            accumulate(&self.variable, grad)?;
            self.variable.extra().after_accumulate.each(|hook| hook(&self.variable))?;
        }
        Ok(Gradients::from_elem(None, call.needs.len()))
    }

    fn release(&self) {}
}

/// A gradient that stays with its tensor has no tangent, unless its graph is kept too: that graph leads to the tensor, which
/// would live for ever.
fn without_tangent(grad: Tensor) -> Tensor {
    if !modes::grad_enabled() && grad.is_for_tangents() { grad.detach() } else { grad }
}

fn accumulate(variable: &Tensor, grad: Tensor) -> Result<()> {
    let table = arithmetic()?;
    let grad = without_tangent(grad);
    // Declared before the lock, and so dropped after it is open again: the end of a tensor may run the host's code.
    let sum;
    let _turn = TURNS[variable.id() / 64 % TURNS.len()].lock();
    sum = variable.grad();
    match &sum {
        None => variable.put_grad(Some(keep(variable, &grad)?)),
        Some(sum) if !modes::grad_enabled() && (grad.is_sparse() || !sum.is_sparse()) => (table.add_)(sum, &grad)?,
        Some(sum) => variable.put_grad(Some(together(sum, &grad)?)),
    }
    Ok(())
}

/// The sum of two gradients. To a sparse one nothing dense can be added, but to a dense one anything.
pub(crate) fn together(sum: &Tensor, grad: &Tensor) -> Result<Tensor> {
    let (first, second) = if sum.is_sparse() { (grad, sum) } else { (sum, grad) };
    (arithmetic()?.add)(first, second)
}

/// The first gradient of a leaf: taken as it is if nobody else holds it and it lies in memory as the leaf does.
fn keep(variable: &Tensor, grad: &Tensor) -> Result<Tensor> {
    if grad.is_sparse() {
        let own = !modes::grad_enabled() && grad.owners() == 1;
        return if own { Ok(grad.detach()) } else { (arithmetic()?.clone)(grad) };
    }
    if !modes::grad_enabled() && is_sole_owner(grad) && lies_alike(grad, variable) {
        let plain = !grad.is_view() && !grad.requires_grad();
        return Ok(if plain { grad.clone() } else { grad.detach() });
    }
    clone_like(grad, variable)
}

/// Keeps the gradient of a tensor that is not a leaf.
pub(crate) fn retain(tensor: &Tensor, grad: &Tensor) -> Result<()> {
    let grad = without_tangent(grad.clone());
    let sum = match tensor.grad() {
        None => clone_like(&grad, tensor)?,
        Some(sum) => together(&sum, &grad)?,
    };
    tensor.put_grad(Some(sum));
    Ok(())
}

fn clone_like(grad: &Tensor, variable: &Tensor) -> Result<Tensor> {
    if grad.is_sparse() {
        return (arithmetic()?.clone)(grad);
    }
    let mut layout = Layout::contiguous(grad.sizes());
    // `x.data = y` may have changed the leaf's sizes since the graph was built.
    if grad.sizes() == variable.sizes() {
        layout.strides = strides_of_gradient(variable.layout());
    }
    clone_as(grad, &layout)
}

/// Those of the variable where it is dense.
fn strides_of_gradient(variable: &Layout) -> Dims {
    if variable.is_dense() && !variable.is_contiguous() {
        variable.strides.clone()
    } else {
        contiguous_strides(&variable.sizes)
    }
}

/// Whether no other handle leads to this tensor's elements (a view's forgotten base does not count).
pub(crate) fn is_sole_owner(tensor: &Tensor) -> bool {
    let hidden = match tensor.base() {
        None => 0,
        Some(base) if base.owners() == 1 => 1,
        Some(_) => return false,
    };
    tensor.owners() == 1 && tensor.storage().owners() == 1 + hidden
}

fn lies_alike(grad: &Tensor, variable: &Tensor) -> bool {
    let wanted = strides_of_gradient(variable.layout());
    let strides = grad.layout().strides.iter().zip(&wanted);
    grad.sizes() == variable.sizes() && grad.sizes().iter().zip(strides).all(|(&size, (a, b))| size == 1 || a == b)
}
