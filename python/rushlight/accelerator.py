"""`torch.accelerator`: the one kind of device that a program would rather use than the CPU. There is none yet."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from rushlight import device

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "empty_cache",
    "is_available",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is an accelerator: no operator runs on one yet.

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
    """The kind of accelerator, None without one.

    >>> torch.accelerator.current_accelerator() is None
    True
    """
    return None


def _refuse() -> NoReturn:
    raise RuntimeError("Cannot access accelerator device when none is available.")


def current_device_index() -> int:
    """The number of the accelerator in use.

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
    """Chooses the accelerator in use.

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
    """Gives cached memory back; without an accelerator there is none.

    >>> torch.accelerator.empty_cache()
    """


def __dir__() -> list[str]:
    return __all__
