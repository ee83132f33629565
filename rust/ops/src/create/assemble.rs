//! Complex numbers as pairs of real ones.

use rushlight_autograd::Tensor;

/// A complex tensor's elements as pairs of real numbers, in a new last dimension.
pub fn pairs(tensor: &Tensor) -> Tensor {
    let layout = tensor.layout().pairs();
    Tensor::new(tensor.storage().clone(), layout, tensor.dtype().to_real(), tensor.device())
}
