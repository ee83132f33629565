"""`torch._C._functorch`: the tensors of `vmap`, as libraries that take part in it see them."""

from __future__ import annotations

from rushlight import _C
from rushlight.autograd._vmap_levels import hidden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def is_batchedtensor(tensor: Tensor) -> bool:
    """Whether a tensor has the samples of a `vmap`.

    >>> torch.vmap(lambda x: x + torch._C._functorch.is_batchedtensor(x))(torch.zeros(2))
    tensor([1., 1.])
    """
    return bool(_C._vmap_levels_of(tensor))


def maybe_current_level() -> int | None:
    """The number of the innermost `vmap`, or None outside of every one.

    >>> torch._C._functorch.maybe_current_level() is None
    True
    """
    levels = _C._vmap_levels()
    return levels[-1][0] if levels else None


def maybe_get_level(tensor: Tensor) -> int:
    """The number of the innermost `vmap` whose samples a tensor has, or -1.

    >>> torch._C._functorch.maybe_get_level(torch.ones(1))
    -1
    """
    return max(_C._vmap_levels_of(tensor), default=-1)


def maybe_get_bdim(tensor: Tensor) -> int:
    """The dimension of the samples in what `get_unwrapped` returns, or -1 for a tensor without samples.

    >>> torch._C._functorch.maybe_get_bdim(torch.ones(1))
    -1
    """
    return 0 if is_batchedtensor(tensor) else -1


def get_unwrapped(tensor: Tensor) -> Tensor:
    """The tensor that has the samples of the innermost `vmap` as a dimension.

    >>> torch.vmap(lambda x: x * torch._C._functorch.get_unwrapped(x).dim())(torch.ones(2))
    tensor([1., 1.])
    """
    level = maybe_get_level(tensor)
    size = _size(level)
    return _C._vmap_outside(level, lambda: _C._remove_batch_dim(tensor, 0, level, size))


def _size(level: int) -> int:
    for number, size, _ in _C._vmap_levels():
        if number == level:
            return size
    raise RuntimeError(f"there is no vmap of level {level}")


def _add_batch_dim(tensor: Tensor, in_dim: int, level: int) -> Tensor:
    """Hides dimension ``in_dim`` of a tensor as the samples of the `vmap` of that level."""
    return hidden(tensor, in_dim, level, _size(level))


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """Shows the samples of the `vmap` of that level as dimension ``out_dim``."""
    return _C._remove_batch_dim(tensor, out_dim % (tensor.dim() + 1), level, batch_size)


def is_functorch_wrapped_tensor(tensor: Tensor) -> bool:
    """Whether a tensor has the samples of a `vmap`.

    >>> torch._C._functorch.is_functorch_wrapped_tensor(torch.ones(1))
    False
    """
    return is_batchedtensor(tensor)
