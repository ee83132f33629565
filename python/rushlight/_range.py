"""`torch.range`, which torch deprecates: the numbers of `arange` and the end as well."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight._loading import load
from rushlight._set_module import set_module
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


def range(
    start: float,
    end: float,
    step: float = 1,
    *,
    out: Tensor | None = None,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers from ``start`` to ``end``, both included, in steps of ``step``. Deprecated in favour of `torch.arange`.

    Args:
        start: the first number.
        end: the number that is not exceeded.
        step: the distance between two numbers.
        out: a tensor that gets the numbers.
        dtype: the dtype of the result, by default the default dtype, also for integers.
        layout: the layout of the result: only strided.
        device: the device of the result.
        requires_grad: whether the result requires a gradient.

    Raises:
        RuntimeError: the step is zero, or leads away from the end.

    >>> torch.range(1, 2, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
    )
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = math.floor((end - start) / step) + 1
    if out is not None and out.layout is not torch.strided:
        name = load("rushlight.sparse")._layout_name(out)
        raise RuntimeError(f"layout Strided does not match layout of out parameter ({name})")
    if out is not None:
        # It compares the other arguments with `out`, and resizes it.
        torch.arange(count, dtype=dtype, device=device, requires_grad=requires_grad, out=out)
        dtype, device = out.dtype, out.device
    dtype = torch.get_default_dtype() if dtype is None else dtype
    # In the precision of Python's numbers, as torch does, so that rounding happens once.
    whole = not (dtype.is_floating_point or dtype.is_complex)
    places = torch.arange(count, dtype=torch.int64 if whole else torch.float64, device=device)
    numbers = (int(start) + int(step) * places) if whole else (start + step * places)
    if out is not None:
        with torch.no_grad():
            return out.copy_(numbers.view(out.shape))
    result = numbers.to(dtype)
    return result.requires_grad_() if requires_grad else result


set_module("rushlight", range)
