"""Swaps two tensors, including all of their attributes."""

from __future__ import annotations

import weakref

from rushlight import _C
from rushlight._set_module import set_module
from rushlight.autograd.graph import get_gradient_edge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchanges all properties of two leaves: elements, dtype, device, class, gradient, attributes. Every reference to
    one of them then refers to the contents of the other.

    Swap before a forward pass, or after its backward pass: backward through a graph that leads to one of them raises.

    Raises:
        AttributeError: an argument is no tensor.
        RuntimeError: a tensor is not a leaf, has weak references, or the devices or the slots of the classes differ.

    >>> x, y = torch.ones(2), torch.zeros(1, dtype=torch.int64)
    >>> torch.utils.swap_tensors(x, y)
    >>> x, y
    (tensor([0]), tensor([1., 1.]))
    """
    for tensor in (t1, t2):
        if not isinstance(tensor, _C.Tensor):
            # torch counts the references first.
            raise AttributeError(f"{type(tensor).__name__!r} object has no attribute '_use_count'")
    if sorted(_slots(t1)) != sorted(_slots(t2)):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        if tensor.grad_fn is not None:
            raise RuntimeError(
                f"Cannot swap {name} because it is the result of {tensor.grad_fn.name()}; detach it first"
            )
    if t1.device != t2.device:
        raise RuntimeError(f"Cannot swap a tensor on {t1.device} with one on {t2.device}")
    for tensor in (t1, t2):
        if tensor.requires_grad:
            get_gradient_edge(tensor).node.register_prehook(_refuse_swapped)
    first, second = _take_contents(t1), _take_contents(t2)
    _put_contents(t1, second)
    _put_contents(t2, first)


def _slots(tensor: Tensor) -> list[str]:
    """The names in the `__slots__` of the tensor's class."""
    slots = [getattr(kind, "__slots__", ()) for kind in type(tensor).__mro__]
    return [name for names in slots for name in ([names] if isinstance(names, str) else names)]


def _refuse_swapped(gradients: object) -> None:
    """A hook before a gradient is added to a tensor whose contents are another's now."""
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when you try to run "
        "backward on a tensor that was swapped. For a module m with "
        "`torch.__future__.set_swap_module_params_on_conversion(True)` you should not change the device or dtype of the "
        "module (e.g. `m.cpu()` or `m.half()`) between running forward and backward. To resolve this, please only change "
        "the device/dtype before running forward (or after both forward and backward)."
    )


def _take_contents(tensor: Tensor) -> tuple[type, Tensor, bool, Tensor | None, dict[str, object]]:
    """Takes the contents out of a tensor."""
    data = tensor.detach()
    parts = type(tensor), data, tensor.requires_grad, tensor.grad, dict(tensor.__dict__)
    tensor.grad = None
    tensor.requires_grad_(False)
    tensor.__dict__.clear()
    return parts


def _put_contents(tensor: Tensor, parts: tuple[type, Tensor, bool, Tensor | None, dict[str, object]]) -> None:
    kind, data, wanted, grad, attributes = parts
    tensor.__class__ = kind
    tensor.data = data
    tensor.requires_grad_(wanted)
    tensor.grad = grad
    tensor.__dict__.update(attributes)


set_module("rushlight.utils", swap_tensors)
