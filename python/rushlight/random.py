"""`torch.random`: the default generator's seed and state."""

from __future__ import annotations

import contextlib

import rushlight as torch
from rushlight import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from rushlight._warnings import warn_once

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
    """Saves the states of the default generators, of the CPU and of GPUs, and restores them at the end of the block.

    Args:
        devices: the GPUs, by default all.
        enabled: False disables the context manager.
        device_type: the type of these devices. For others than ``"cuda"`` only the generator of the CPU is saved.

    Raises:
        RuntimeError: the device type does not exist.
        IndexError: there is no such GPU.

    >>> before = torch.get_rng_state()
    >>> with torch.random.fork_rng():
    ...     numbers = torch.rand(3)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    is_on_gpus = torch.device(device_type).type == "cuda"
    if not enabled:
        yield
        return
    if devices is None:
        # A forked child cannot use GPUs, and its program has not asked for them.
        count = 0 if not is_on_gpus or torch.cuda._is_in_bad_fork() else torch.cuda.device_count()
        if count > 1:
            warn_once(
                f"CUDA reports that you have {count} available devices, and you have used fork_rng without explicitly specifying "
                "which devices are being used. For safety, we initialize *every* CUDA device by default, which can be quite slow "
                "if you have a lot of CUDAs.\n  Name those that are used: fork_rng(devices=[0])."
            )
        devices = range(count)
    named = list(devices) if is_on_gpus else []
    state, states = get_rng_state(), [torch.cuda.get_rng_state(device) for device in named]
    try:
        yield
    finally:
        set_rng_state(state)
        for device, own in zip(named, states):
            torch.cuda.set_rng_state(own, device)


def thread_safe_generator() -> None:
    """The generator of a DataLoader's worker that is a thread: always None, because the workers are processes.

    >>> torch.thread_safe_generator() is None
    True
    """


def __dir__() -> list[str]:
    return __all__
