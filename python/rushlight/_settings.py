"""What a program sets for itself: where tensors are made, and the switches of torch that change nothing here."""

from __future__ import annotations

import rushlight as torch
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import device

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_default_device",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_default_device",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
    "use_deterministic_algorithms",
]


def get_default_device() -> device:
    """The device on which this thread makes new tensors.

    >>> with torch.device("meta"):
    ...     torch.zeros(2, 3).device
    device(type='meta')
    """
    return _C._default_device() or torch.device("cpu")


def set_default_device(device: device | str | int | None) -> None:
    """Says where this thread makes new tensors; ``None`` takes it back. ``with torch.device(...)`` says it for a block.

    Raises:
        RuntimeError: the name of no device.

    >>> torch.set_default_device("meta")
    >>> torch.zeros(2).device
    device(type='meta')
    >>> torch.set_default_device(None)
    """
    _C._set_default_device(None if device is None else torch.device(device))


def get_num_interop_threads() -> int:
    """The number of operators that run at once on behalf of one call: one.

    >>> torch.get_num_interop_threads()
    1
    """
    return 1


def set_num_interop_threads(num: int) -> None:
    """Nothing to set: one operator runs at a time.

    Raises:
        RuntimeError: a number that is not positive.

    >>> torch.set_num_interop_threads(2)
    """
    if not isinstance(num, int) or isinstance(num, bool):
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


_strict: dict[str, Any] = {"deterministic": False, "warn_only": False, "matmul": "highest"}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted; nothing changes: results are the same bits from run to run and for any number of threads.

    >>> torch.use_deterministic_algorithms(True, warn_only=True)
    >>> torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    (True, True)
    >>> torch.use_deterministic_algorithms(False)
    """
    _strict.update(deterministic=bool(mode), warn_only=bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was asked for.

    >>> torch.are_deterministic_algorithms_enabled()
    False
    """
    return _strict["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was asked to warn only.

    >>> torch.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _strict["warn_only"]


def get_float32_matmul_precision() -> str:
    """The precision of matrix products of float32, as `set_float32_matmul_precision` was told.

    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    return _strict["matmul"]


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted; on the host products of float32 are always full float32.

    Args:
        precision: ``"highest"``, ``"high"`` or ``"medium"``.

    Raises:
        ValueError: another word.

    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"{precision} is not a valid precision: 'highest', 'high' or 'medium'")
    _strict["matmul"] = precision
