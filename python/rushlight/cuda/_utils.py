"""Private functions of `torch.cuda` about devices and generators that libraries use."""

from __future__ import annotations

from rushlight import _C
from rushlight._set_module import set_module

from ._devices import _exchange_device as _exchange_device
from ._devices import _get_device_index as _get_device_index
from ._random import generator_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Generator


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
