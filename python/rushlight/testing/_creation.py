"""Tensors of random values for tests."""

from __future__ import annotations

import math

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["make_tensor"]


def make_tensor(
    *shape: int | Sequence[int],
    dtype: torch.dtype,
    device: torch.device | str | None = None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """A tensor of values drawn evenly from ``[low, high)``; the limits follow the dtype unless given.

    They are -9 and 9 for floats and complex numbers (both parts), -9 and 10 for signed integers, 0 and 10 for unsigned
    ones, 0 and 2 for bool. ``noncontiguous`` leaves a gap behind each element, ``exclude_zero`` replaces zeros.

    >>> torch.testing.make_tensor(2, 3, dtype=torch.int64, low=0, high=1)
    tensor([[0, 0, 0],
            [0, 0, 0]])
    """
    sizes: Any = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    low, high = _limits(dtype, low, high)
    if dtype is torch.bool:
        made = torch.randint(math.floor(low), math.ceil(high), sizes, device=device).to(dtype)
    elif dtype.is_floating_point:
        made = torch.empty(sizes, dtype=dtype, device=device).uniform_(low, high)
    elif dtype.is_complex:
        parts = torch.empty((*sizes, 2), dtype=dtype.to_real(), device=device).uniform_(low, high)
        made = torch.view_as_complex(parts)
    else:
        made = torch.randint(math.floor(low), math.ceil(high), sizes, device=device).to(dtype)
    if exclude_zero:
        least = torch.finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
        made = torch.where(made == 0, torch.full((), least, dtype=dtype, device=device), made)
    if noncontiguous and made.numel() > 1:
        gaps = torch.empty((*made.shape, 2), dtype=dtype, device=device)
        made = gaps.select(-1, 0).copy_(made)
    if memory_format is not None:
        made = made.clone(memory_format=memory_format)
    return made.requires_grad_(requires_grad)


def _limits(dtype, low, high):
    if dtype is torch.bool:
        default = (0, 2)
    elif dtype.is_floating_point or dtype.is_complex:
        default = (-9, 9)
    else:
        default = (-9 if dtype.is_signed else 0, 10)
    low, high = default[0] if low is None else low, default[1] if high is None else high
    if low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    return low, high
