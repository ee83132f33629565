"""`torch.random`: the default generator's seed and state."""

from __future__ import annotations

import contextlib

import rushlight as torch
from rushlight import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """Saves the state of the random generators and restores it at the end of the block.

    Args:
        devices: accepted; no other device has a generator.
        enabled: False disables the context manager.
        device_type: the type of these devices.

    Raises:
        RuntimeError: the device type does not exist.

    >>> before = torch.get_rng_state()
    >>> with torch.random.fork_rng():
    ...     numbers = torch.rand(3)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    torch.device(device_type)
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)


def thread_safe_generator() -> None:
    """The generator of a DataLoader's worker that is a thread: always None, because the workers are processes.

    >>> torch.thread_safe_generator() is None
    True
    """


def __dir__() -> list[str]:
    return __all__
