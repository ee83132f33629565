//! A dimension hidden, and shown again, recorded: where tensors enter a `vmap` and leave it.

use rushlight_autograd::Tensor;
use rushlight_core::Result;

use crate::call::resolve_conj::resolve;
use crate::primitives::primitives;
use crate::saved_meta::SavedMeta;
use crate::sparse::no_memory;
use crate::value::Value;

/// Sums the gradient of an argument over the batch dimensions that the results have and the argument does not: all
/// samples share the argument, as in broadcasting.
pub fn gathered(grad: Tensor, results: &[SavedMeta], argument: &SavedMeta) -> Result<Tensor> {
    let mut grad = grad;
    let mut done: Vec<i64> = Vec::new();
    for batch_dim in results.iter().flat_map(SavedMeta::batch_dims) {
        if argument.batch_dims().iter().any(|own| own.level == batch_dim.level) || done.contains(&batch_dim.level) {
            continue;
        }
        done.push(batch_dim.level);
        grad = match grad.batch_dim(batch_dim.level) {
            Some(_) => {
                let physical = remove_batch_dim(&grad, 0, batch_dim.level, batch_dim.size)?;
                primitives()?.sum.tensor([physical.into(), (&[0i64][..]).into(), false.into()])?
            }
            None => primitives()?.mul.tensor([grad.into(), Value::Scalar((batch_dim.size as i64).into())])?,
        };
    }
    Ok(grad)
}

/// Hides a dimension, or makes equal samples.
pub fn add_batch_dim(tensor: &Tensor, dim: Option<usize>, level: i64, size: isize) -> Result<Tensor> {
    if tensor.is_sparse() {
        return Err(no_memory(tensor));
    }
    primitives()?.add_batch_dim.tensor([Value::Own(resolve(tensor)?), dim.into(), level.into(), (size as i64).into()])
}

/// Shows a hidden dimension.
pub fn remove_batch_dim(tensor: &Tensor, dim: usize, level: i64, size: isize) -> Result<Tensor> {
    let physical =
        primitives()?.remove_batch_dim.tensor([tensor.into(), dim.into(), level.into(), (size as i64).into()])?;
    // Tensors made inside the `vmap` are not accessible, so the results are not views of them.
    if physical.base().is_some_and(Tensor::is_batched) { physical.without_base() } else { Ok(physical) }
}
