//! What cannot be done with mapped tensors, in torch's words.

use rushlight_core::{Class, Error};

use crate::row::Row;

/// The error where something that differs from sample to sample is written to what does not.
#[cold]
pub fn no_room() -> Error {
    Error::runtime(
        "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic. If said operator is being called inside the PyTorch framework, please file a bug report instead.",
    )
    .hint("torch.zeros_like(x) of a mapped x has room for every sample, x.new_zeros(sizes) too.")
}

/// The error where memory is asked of a mapped tensor.
#[cold]
pub fn no_memory() -> Error {
    Error::new(Class::NotImplemented, "Cannot access storage of BatchedTensorImpl")
        .hint("Inside vmap a tensor stands for many; its memory can be had outside.")
}

/// The error where the elements of a mapped tensor are asked for.
#[cold]
pub fn no_elements() -> Error {
    Error::runtime("Cannot access data pointer of Tensor that doesn't have storage")
        .hint("Inside vmap a tensor stands for many; its elements can be had outside.")
}

/// The error where one number is asked of a mapped tensor.
#[cold]
pub fn no_item() -> Error {
    Error::runtime(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please try to rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch internals, please file a bug report.",
    )
}

/// The error where a mapped tensor decides what a program does.
#[cold]
pub fn no_choice() -> Error {
    Error::runtime(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet, please file an issue at https://github.com/pytorch/pytorch/issues .",
    )
    .hint("torch.where(condition, x, y) chooses for each sample.")
}

/// The error of a row the number of whose results depends on values.
#[cold]
pub fn no_one_shape(row: &Row) -> Error {
    Error::runtime(format!(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{}. Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature.",
        row.python_name()
    ))
}
