"""The rare methods of `Tensor`, written in Python and attached to the engine's class."""

from rushlight import _C, _utils


def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradients of this tensor to the `.grad` of the leaves that it depends on.

    `gradient` weighs the elements; it may be left out for a tensor of one element. See `torch.autograd.backward`.
    """
    from rushlight import autograd

    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) in memo:
        return memo[id(self)]
    from copy import deepcopy

    # Tensors that share bytes share them in the copy.
    storage = self.untyped_storage()
    key = "storage", storage.data_ptr(), storage.nbytes()
    if storage.nbytes() == 0 or key not in memo:
        memo[key] = storage.clone()
    made = _view(memo[key], self.dtype, self.storage_offset(), self.shape, self.stride())
    if type(self) is not _C.Tensor:
        made = _C.Tensor._make_subclass(type(self), made)
    made.requires_grad_(self.requires_grad)
    memo[id(self)] = made
    if self.grad is not None:
        made.grad = deepcopy(self.grad, memo)
    made.__dict__.update(deepcopy(self.__dict__, memo))
    return made


def __reduce_ex__(self, protocol):
    if self.requires_grad and not self.is_leaf:
        raise RuntimeError("a tensor with history cannot be pickled; detach() it first")
    layout = self.dtype, self.storage_offset(), tuple(self.shape), self.stride()
    state = self.__dict__ or None
    return _utils._rebuild_tensor, (self.untyped_storage(), *layout, self.requires_grad, type(self), state)


def _view(storage, dtype, offset, size, stride):
    return _C._functions[""]["empty"](0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)


for _method in (backward, __deepcopy__, __reduce_ex__):
    _method.__qualname__ = f"Tensor.{_method.__name__}"
    setattr(_C.Tensor, _method.__name__, _method)
