//! Complex numbers as pairs of real ones.

use rushlight_autograd::Tensor;
use rushlight_core::Layout;
use rushlight_core::layout::Dims;

/// A complex tensor's elements as pairs of real numbers, in a new last dimension.
pub fn pairs(tensor: &Tensor) -> Tensor {
    let own = tensor.layout();
    let mut layout = Layout {
        sizes: own.sizes.clone(),
        strides: own.strides.iter().map(|stride| stride * 2).collect::<Dims>(),
        offset: own.offset * 2,
    };
    layout.sizes.push(2);
    layout.strides.push(1);
    Tensor::new(tensor.storage().clone(), layout, tensor.dtype().to_real(), tensor.device())
}
