"""What `Module.to` does to each tensor of a module."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor
from rushlight._text import typename
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def converter(*args: Any, **kwargs: Any) -> Callable[[Tensor], Tensor]:
    """The conversion that the arguments of `Module.to` ask for."""
    place, dtype = _sorted(*args, **kwargs)
    if dtype is not None:
        if not isinstance(dtype, torch.dtype):
            raise TypeError(
                f"to() received an invalid combination of arguments - got (dtype={typename(dtype)}, ), but expected "
                "one of:\n * (torch.device device, torch.dtype dtype)\n * (torch.dtype dtype)\n * (Tensor tensor)"
            )
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype.is_complex:
            warn(
                "Complex modules are a new feature under active development whose design may change, and some "
                "modules might not work as expected when using complex tensors as parameters or buffers.",
            )
    memory_format = place.pop("memory_format", None)

    def convert(tensor: Tensor) -> Tensor:
        wanted = dict(place)
        if dtype is not None and (tensor.is_floating_point() or tensor.is_complex()):
            wanted["dtype"] = dtype
        if memory_format is not None and tensor.dim() in (4, 5):
            wanted["memory_format"] = memory_format
        try:
            return tensor.to(**wanted) if wanted else tensor
        except NotImplementedError as error:
            if tensor.is_meta:
                sentence, _, rest = str(error).partition("\n")
                raise NotImplementedError(
                    f"{sentence} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving "
                    f"module from meta to a different device.\n{rest}".rstrip()
                ) from None
            raise

    return convert


def _sorted(
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
