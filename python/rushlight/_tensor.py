"""Methods of `Tensor` that are written in Python: pickling and copying, hooks, and what is rarely used.

They are attached to the engine's class when the package is imported.
"""

from rushlight import _C
from rushlight._C import Tensor


def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradients of this tensor to the ``.grad`` of the leaves it was computed from.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> x.grad
    tensor(6.)
    """
    from rushlight import autograd

    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def register_hook(self, hook):
    """Calls ``hook`` with the tensor's gradient whenever it is computed; what it returns takes the gradient's place."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return _C._register_hook(self, hook)


def register_post_accumulate_grad_hook(self, hook):
    """Calls ``hook`` with this leaf after a gradient was added to its ``.grad``."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return _C._register_post_accumulate_grad_hook(self, hook)


def __contains__(self, element):
    if isinstance(element, (Tensor, int, float, complex)):
        return bool((element == self).any().item())
    raise RuntimeError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
    )


def __reversed__(self):
    return self if self.dim() == 0 else self.flip(0)


def __array_wrap__(self, array, context=None, return_scalar=False):
    from rushlight import from_numpy

    return from_numpy(array.copy() if array.ndim == 0 else array)


def __dir__(self):
    return sorted({*dir(type(self)), *self.__dict__})


def __copy__(self):
    # The storage object that travels is the tensor's own, so both tensors show the same elements.
    function, arguments = self.__reduce_ex__(4)
    return function(*arguments)


def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    known = memo.get(id(self))
    if known is not None:
        return known
    from copy import deepcopy

    # Views of one storage stay views of one storage.
    storages = memo.setdefault("storages", {})
    storage = self.untyped_storage()
    copied = storages.get(storage)
    if copied is None:
        copied = storages[storage] = storage.clone()
    result = self.detach().set_(copied, self.storage_offset(), tuple(self.shape), self.stride())
    if type(self) is not Tensor:
        result = result.as_subclass(type(self))
    result.requires_grad_(self.requires_grad)
    memo[id(self)] = result
    if self.grad is not None:
        result.grad = deepcopy(self.grad, memo)
    if self.__dict__:
        result.__dict__.update(deepcopy(self.__dict__, memo))
    return result


def __reduce_ex__(self, protocol):
    from rushlight import _utils

    return _utils._reduce_tensor(self)


def storage(self):
    """The elements as one flat storage of this tensor's dtype."""
    from rushlight._checkpoint.storages import TypedStorage

    return TypedStorage(self.untyped_storage(), self.dtype)


def apply_(self, callable):
    """Replaces each element by what ``callable`` makes of it, in place; slow, for the host only."""
    from rushlight import no_grad, tensor

    values = [callable(value) for value in self.detach().reshape(-1).tolist()]
    with no_grad():
        return self.copy_(tensor(values, dtype=self.dtype).reshape(self.shape))


def map_(self, tensor, callable):
    """Replaces each element by what ``callable`` makes of it and of the element of ``tensor`` there, in place."""
    import rushlight as torch

    own, other = torch.broadcast_tensors(self.detach(), tensor.detach())
    values = [callable(*pair) for pair in zip(own.reshape(-1).tolist(), other.reshape(-1).tolist())]
    with torch.no_grad():
        return self.copy_(torch.tensor(values, dtype=self.dtype).reshape(self.shape))


def new(self, *args):
    """A new tensor of this one's dtype: of a size, or with the elements of a sequence."""
    from rushlight._legacy import build

    return build(self.dtype, args)


def module_load(self, other, assign=False):
    """What `Module.load_state_dict` puts in this tensor's place: itself with the other's elements, or the other."""
    return other.detach() if assign else self.detach().copy_(other)


def pin_memory(self, device=None):
    """The tensor itself: pinned memory is for cards."""
    return self


def is_nonzero(self):
    """The truth of the one element."""
    return bool(self)


def dim_order(self):
    """The dimensions from the widest step in memory to the narrowest."""
    strides = self.stride()
    return tuple(sorted(range(self.dim()), key=lambda dim: -strides[dim]))


def attach():
    """Puts everything above on the class."""
    import copyreg

    from rushlight import _utils

    copyreg.pickle(_C.UntypedStorage, _utils._reduce_storage)
    for name, function in list(globals().items()):
        if callable(function) and getattr(function, "__module__", None) == __name__ and name != "attach":
            function.__qualname__ = f"Tensor.{name}"
            setattr(Tensor, name, function)
    Tensor._make_subclass = staticmethod(_C._make_subclass)
    Tensor.__module__ = "torch"
