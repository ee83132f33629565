"""The arguments of `Module.to`."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parse_to(
    *args: Any,
    device: Any = None,
    dtype: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
    tensor: Tensor | None = None,
) -> tuple[dict[str, Any], Any]:
    """Sorts the arguments of `Module.to` into the keywords of `Tensor.to` and the dtype, which is not for all."""
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        tensor = rest.pop(0)
    elif rest and isinstance(rest[0], torch.dtype):
        dtype = rest.pop(0)
    else:
        if rest:
            device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
            dtype = rest.pop(0)
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if rest:
        non_blocking = rest.pop(0)
    place: dict[str, Any] = {}
    if device is not None:
        place["device"] = torch.device(device)
    if place and non_blocking:
        place["non_blocking"] = True
    if memory_format is not None:
        place["memory_format"] = memory_format
    return place, dtype
