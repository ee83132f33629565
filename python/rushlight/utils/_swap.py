"""Two tensors that change places, each with all that it is."""

from __future__ import annotations

import weakref

from rushlight._homes import at_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchanges all that two leaves are: elements, dtype, device, class, gradient, attributes. Who holds one of them then
    holds what the other was.

    A graph that leads to one of them leads to it as it is afterwards: exchange before a forward, or after its backward.

    Raises:
        RuntimeError: a tensor with history, one that is known by a weak reference, or tensors of different devices.

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
    first, second = _taken(t1), _taken(t2)
    _become(t1, second)
    _become(t2, first)


def _taken(tensor: Tensor) -> tuple[type, Tensor, bool, Tensor | None, dict[str, object]]:
    """What a tensor is, which it no longer is."""
    data = tensor.detach()
    parts = type(tensor), data, tensor.requires_grad, tensor.grad, dict(tensor.__dict__)
    tensor.grad = None
    tensor.requires_grad_(False)
    tensor.__dict__.clear()
    return parts


def _become(tensor: Tensor, parts: tuple[type, Tensor, bool, Tensor | None, dict[str, object]]) -> None:
    kind, data, wanted, grad, attributes = parts
    tensor.__class__ = kind
    tensor.data = data
    tensor.requires_grad_(wanted)
    tensor.grad = grad
    tensor.__dict__.update(attributes)


at_home("rushlight.utils", swap_tensors)
