"""Swaps two tensors, including all of their attributes."""

from __future__ import annotations

import weakref

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchanges all properties of two leaves: elements, dtype, device, class, gradient, attributes. Every reference to
    one of them then refers to the contents of the other.

    A graph that leads to one of them uses its contents after the swap. Swap before a forward pass, or after its
    backward pass.

    Raises:
        RuntimeError: a tensor is not a leaf, has weak references, or the devices differ.

    >>> x, y = torch.ones(2), torch.zeros(1, dtype=torch.int64)
    >>> torch.utils.swap_tensors(x, y)
    >>> x, y
    (tensor([0]), tensor([1., 1.]))
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        if tensor.grad_fn is not None:
            raise RuntimeError(
                f"Cannot swap {name} because it is the result of {tensor.grad_fn.name()}; detach it first"
            )
    if t1.device != t2.device:
        raise RuntimeError(f"Cannot swap a tensor on {t1.device} with one on {t2.device}")
    first, second = _take_contents(t1), _take_contents(t2)
    _put_contents(t1, second)
    _put_contents(t2, first)


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
