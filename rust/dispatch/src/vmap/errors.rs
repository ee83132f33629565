//! Operations that batched tensors do not support, with torch's messages.

use rushlight_core::{Class, Error};

use crate::operator::Operator;

/// The error for writing values that differ between samples to a tensor that is not batched.
#[cold]
pub fn in_place_error() -> Error {
    Error::runtime(
        "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic. If said operator is being called inside the PyTorch framework, please file a bug report instead.",
    )
    .hint("Use torch.zeros_like(x) or x.new_zeros(sizes) of a batched x, which have room for every sample.")
}

/// The error for a tensor whose `vmap` has ended.
#[cold]
pub fn escaped_error() -> Error {
    Error::runtime(
        "Either your tensor may have escaped from inside a function being vmapped and this is a user error (see https://pytorch.org/functorch/stable/ux_limitations.html), or there is an internal functorch error in `gen_vmap_plumbing` Please file an issue if it looks like the latter",
    )
    .hint("A tensor inside vmap represents all samples and is of no use after it: return what is needed from the function.")
}

/// The error for access to the memory of a batched tensor.
#[cold]
pub fn storage_error() -> Error {
    Error::new(Class::NotImplemented, "Cannot access storage of BatchedTensorImpl")
        .hint("Inside vmap a tensor represents all samples; access its memory outside of vmap.")
}

/// The error for access to the elements of a batched tensor.
#[cold]
pub fn data_error() -> Error {
    Error::runtime("Cannot access data pointer of Tensor that doesn't have storage")
        .hint("Inside vmap a tensor represents all samples; access its elements outside of vmap.")
}

/// The error for converting a batched tensor to one number.
#[cold]
pub fn item_error() -> Error {
    Error::runtime(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please try to rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch internals, please file a bug report.",
    )
}

/// The error for control flow that depends on a batched tensor.
#[cold]
pub fn control_flow_error() -> Error {
    Error::runtime(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet, please file an issue at https://github.com/pytorch/pytorch/issues .",
    )
    .hint("Use torch.where(condition, x, y) to choose for each sample.")
}

/// The error of an operator whose number of results depends on values.
#[cold]
pub fn dynamic_shape_error(op: &Operator) -> Error {
    Error::runtime(format!(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{}. Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature.",
        op.python_name()
    ))
}
