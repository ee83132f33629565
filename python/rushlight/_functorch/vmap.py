"""Parts of torch's `vmap` that libraries import. rushlight's own is in `rushlight/func/_vmap.py`."""

from __future__ import annotations

from functools import partial

from rushlight import Tensor as Tensor
from rushlight._built_in._functorch import _add_batch_dim as _add_batch_dim
from rushlight._built_in._functorch import _remove_batch_dim as _remove_batch_dim
from rushlight.utils._pytree import _broadcast_to_and_flatten as _broadcast_to_and_flatten
from rushlight.utils._pytree import tree_flatten as tree_flatten
from rushlight.utils._pytree import tree_map_ as tree_map_
from rushlight.utils._pytree import tree_unflatten as tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _get_name(func: Callable[..., Any]) -> str:
    if isinstance(func, partial):
        return f"functools.partial({_get_name(func.func)}, ...)"
    return getattr(func, "__name__", repr(func))


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """A result of the `vmap` of a function of that name, with its samples as dimension ``out_dim``."""
    if out_dim is None:
        if isinstance(batched_output, Tensor) and vmap_level in _levels_of(batched_output):
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}. Did you mean to set "
            "out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def _levels_of(tensor: Tensor) -> list[int]:
    from rushlight import _C

    return _C._vmap_levels_of(tensor)
