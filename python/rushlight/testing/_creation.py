"""Tensors of random values for tests."""

import math

import rushlight as torch

__all__ = ["make_tensor"]


def make_tensor(
    *shape,
    dtype,
    device=None,
    low=None,
    high=None,
    requires_grad=False,
    noncontiguous=False,
    exclude_zero=False,
    memory_format=None,
):
    """A tensor of values drawn evenly from ``[low, high)``; the limits follow the dtype unless given.

    They are -9 and 9 for floats and complex numbers (both parts), -9 and 10 for signed integers, 0 and 10 for unsigned
    ones, 0 and 2 for bool. ``noncontiguous`` leaves a gap behind each element, ``exclude_zero`` replaces zeros.

    >>> torch.testing.make_tensor(2, 3, dtype=torch.int64, low=0, high=1)
    tensor([[0, 0, 0],
            [0, 0, 0]])
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    low, high = _limits(dtype, low, high)
    if dtype is torch.bool:
        made = torch.randint(math.floor(low), math.ceil(high), shape, device=device).to(dtype)
    elif dtype.is_floating_point:
        made = torch.empty(shape, dtype=dtype, device=device).uniform_(low, high)
    elif dtype.is_complex:
        parts = torch.empty((*shape, 2), dtype=dtype.to_real(), device=device).uniform_(low, high)
        made = torch.view_as_complex(parts)
    else:
        made = torch.randint(math.floor(low), math.ceil(high), shape, device=device).to(dtype)
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
