"""`torch.accelerator`: the accelerator of this machine. rushlight has none yet."""

from __future__ import annotations

from ._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from rushlight import device


def _refuse(name: str = "") -> NoReturn:
    raise RuntimeError("Cannot access accelerator device when none is available.")


__all__ = [
    *declare(
        globals(),
        "there is no accelerator",
        """
        class Graph(keep_graph=False, *, pool=None, capture_error_mode='default')
        current_device_idx()
        current_stream(device=None)
        empty_host_cache() = None
        get_device_capability(device=None)
        get_memory_info(device_index=None)
        max_memory_allocated(device_index=None) = 0
        max_memory_reserved(device_index=None) = 0
        memory_allocated(device_index=None) = 0
        memory_reserved(device_index=None) = 0
        memory_stats(device_index=None) = {}
        reset_accumulated_memory_stats(device_index=None) = None
        reset_peak_memory_stats(device_index=None) = None
        set_device_idx(device)
        set_stream(stream)
        """,
    ),
    "device_index",
    "current_accelerator",
    "current_device_index",
    "device_count",
    "empty_cache",
    "is_available",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is an accelerator: always False, because no operator runs on one yet.

    >>> torch.accelerator.is_available()
    False
    """
    return False


def device_count() -> int:
    """The number of accelerators that can be used.

    >>> torch.accelerator.device_count()
    0
    """
    return 0


def current_accelerator(check_available: bool = False) -> device | None:
    """The type of the accelerator, or None.

    >>> torch.accelerator.current_accelerator() is None
    True
    """
    return None


class device_index:
    """Selects an accelerator inside a ``with`` block; None leaves it as it is.

    >>> with torch.accelerator.device_index(None):
    ...     pass
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            _refuse()

    def __exit__(self, *exception: object) -> None:
        pass


def current_device_index() -> int:
    """The index of the accelerator in use.

    Raises:
        RuntimeError: there is no accelerator.

    >>> try:
    ...     torch.accelerator.current_device_index()
    ... except RuntimeError as error:
    ...     print(error)
    Cannot access accelerator device when none is available.
    """
    _refuse()


def set_device_index(device: Any, /) -> None:
    """Selects the accelerator to use.

    Raises:
        RuntimeError: there is no accelerator.

    >>> try:
    ...     torch.accelerator.set_device_index(0)
    ... except RuntimeError as error:
    ...     print(error)
    Cannot access accelerator device when none is available.
    """
    _refuse()


def synchronize(device: Any = None, /) -> None:
    """Waits for an accelerator.

    Raises:
        RuntimeError: there is no accelerator.

    >>> try:
    ...     torch.accelerator.synchronize()
    ... except RuntimeError as error:
    ...     print(error)
    Cannot access accelerator device when none is available.
    """
    _refuse()


def empty_cache() -> None:
    """Releases cached memory of the accelerator. It has no effect without one.

    >>> torch.accelerator.empty_cache()
    """


def __dir__() -> list[str]:
    return __all__
