"""Private functions of `torch.cuda` about devices and generators that libraries use."""

from __future__ import annotations

from rushlight import _C, _utils
from rushlight._set_module import set_module

from ._contexts import device as _device
from ._random import generator_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Generator


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a GPU: a number, a `torch.device` or its name, or a `torch.cuda.device`.

    Args:
        device: the device.
        optional: whether None, and a device without a number, mean the current one.
        allow_cpu: whether the CPU is accepted, whose number is -1.

    Raises:
        ValueError: it is another device, or has no number.

    >>> from rushlight.cuda._utils import _get_device_index
    >>> _get_device_index("cuda:2")
    2
    """
    if isinstance(device, str):
        device = _C.device(device)
    if isinstance(device, _C.device) and device.type != "cuda" and not (allow_cpu and device.type == "cpu"):
        accepted = "a cuda or cpu device" if allow_cpu else "a cuda device"
        raise ValueError(f"Expected {accepted}, but got: {device}")
    if isinstance(device, _device):
        return device.idx
    return _utils._get_device_index(device, optional, allow_cpu)


def _exchange_device(device: int) -> int:
    """Makes a GPU current; returns the one before. A negative number has no effect and returns -1.

    >>> torch.cuda._exchange_device(-1)
    -1
    """
    return -1 if device < 0 else _C._cuda_set_device(device)


class _DeviceGuard:
    """Selects a GPU by its number inside a ``with`` block; a negative number leaves it as it is.

    Args:
        index: the number.

    >>> with torch.cuda._DeviceGuard(-1):
    ...     pass
    """

    def __init__(self, index: int) -> None:
        self.idx, self.prev_idx = index, -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *exception: object) -> None:
        self.idx = _exchange_device(self.prev_idx)


def _is_compiled() -> bool:
    """Whether there is support for CUDA, with or without a driver.

    >>> torch.cuda._is_compiled()
    True
    """
    return True


def _get_generator(device: Any) -> Generator:
    """The default generator of a GPU."""
    return generator_of(device)


def _get_rng_state_offset(device: Any = "cuda") -> int:
    """How many numbers the default generator of a GPU has drawn, in its own units."""
    _C._cuda_init()
    return generator_of(device).get_offset()


def _set_rng_state_offset(offset: int, device: Any = "cuda") -> None:
    """Moves the default generator of a GPU to a place of its stream; see `_get_rng_state_offset`."""
    _C._cuda_init()
    generator_of(device).set_offset(offset)


set_module("rushlight.cuda", _DeviceGuard)
