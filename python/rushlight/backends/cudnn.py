"""Settings of cuDNN, which is not used."""

from __future__ import annotations

from ._settings import temporary_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "deterministic",
    "enabled",
    "flags",
    "is_acceptable",
    "is_available",
    "set_flags",
    "version",
]


enabled: bool = True
benchmark: bool = False
benchmark_limit: int = 10
deterministic: bool = False
allow_tf32: bool = True


def is_available() -> bool:
    """Whether cuDNN is available: always False.

    >>> torch.backends.cudnn.is_available()
    False
    """
    return False


def version() -> int | None:
    """The version of cuDNN: always None.

    >>> torch.backends.cudnn.version() is None
    True
    """
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN supports a tensor: always False.

    >>> torch.backends.cudnn.is_acceptable(torch.zeros(1))
    False
    """
    return False


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[bool, bool, int, bool, bool]:
    """Changes the given settings. Returns the old values of all settings.

    >>> torch.backends.cudnn.set_flags(_benchmark=False)
    (True, False, 10, False, True)
    """
    before = (enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
    globals().update({name: value for name, value in zip(names, given) if value is not None})
    return before


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Any:
    """Changes settings inside a ``with`` block.

    >>> with torch.backends.cudnn.flags(benchmark=True):
    ...     torch.backends.cudnn.benchmark
    True
    """
    return temporary_settings(globals(), locals().copy())


def __dir__() -> list[str]:
    return __all__
