"""Random tensors for tests."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight._warnings import warn

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
    """A tensor of values drawn uniformly from ``[low, high)``. The default bounds depend on the dtype.

    They are -9 and 9 for floating-point and complex numbers (both parts), -9 and 10 for signed integers, 0 and 10 for
    unsigned ones, 0 and 2 for bool. Given bounds are cut at those of the dtype. ``noncontiguous`` leaves a gap before each
    element, ``exclude_zero`` replaces zeros.

    Raises:
        TypeError: ``dtype`` is no dtype.
        ValueError: the bounds are NaN, in the wrong order, or outside of the dtype; whole numbers shall require a gradient;
            ``noncontiguous`` and ``memory_format`` are both given.

    >>> torch.testing.make_tensor(2, 3, dtype=torch.int64, low=0, high=1)
    tensor([[0, 0, 0],
            [0, 0, 0]])
    """
    if not isinstance(dtype, torch.dtype):
        raise TypeError(
            f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor()\n"
            "  A dtype is one of torch.float32, torch.int64 and the like."
        )
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got {noncontiguous=} and "
            f"{memory_format=}"
        )
    sizes: Any = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    # Every other number is drawn in vain, as in torch.
    gaps = noncontiguous and math.prod(sizes) > 1
    if gaps:
        sizes = (*sizes[:-1], 2 * sizes[-1])
    low, high = _limits(dtype, low, high)
    if dtype.is_floating_point or dtype.is_complex:
        drawn = torch.float32 if dtype.itemsize == 1 else dtype
        made = torch.empty(sizes, dtype=drawn, device=device)
        _fill_evenly(torch.view_as_real(made) if dtype.is_complex else made, low, high)
        made = made.to(dtype)
    else:
        made = torch.randint(math.ceil(low), math.ceil(high), sizes, device=device).to(dtype)
    if exclude_zero:
        least = torch.finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
        made = torch.where(made == 0, torch.full((), least, dtype=dtype, device=device), made)
    if gaps:
        made = made[..., 1::2]
    if memory_format is not None:
        made = made.clone(memory_format=memory_format)
    return made.requires_grad_(requires_grad)


def _fill_evenly(tensor: torch.Tensor, low: float, high: float) -> None:
    if high - low < torch.finfo(tensor.dtype).max:
        tensor.uniform_(low, high)
    else:  # the difference is not a number of the dtype
        tensor.uniform_(low / 2, high / 2).mul_(2)


def _limits(dtype: torch.dtype, low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds, within those of the dtype."""
    default: tuple[float, float]
    least: float
    most: float
    if dtype is torch.bool:
        default, least, most = (0, 2), 0, 2
    elif dtype.is_floating_point or dtype.is_complex:
        default, least, most = (-9, 9), torch.finfo(dtype).min, torch.finfo(dtype).max
    else:
        bounds = torch.iinfo(dtype)
        default, least, most = (-9 if dtype.is_signed else 0, 10), bounds.min, min(bounds.max + 1, 2**63 - 1)
    low, high = default[0] if low is None else low, default[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low == high and (dtype.is_floating_point or dtype.is_complex):
        warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 and "
            "will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= most:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{least}, {most})"
        )
    return max(low, least), min(high, most)
