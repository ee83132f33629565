"""Names of `torch._dynamo.utils` that libraries import."""

from __future__ import annotations

from contextlib import contextmanager

from rushlight._warnings import warn

from . import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_warned: set[str] = set()


def is_compile_supported(device_type: Any) -> bool:
    """Whether functions can be compiled for a type of devices: always False.

    >>> from rushlight._dynamo.utils import is_compile_supported
    >>> is_compile_supported("cpu")
    False
    """
    return False


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Gives a warning, unless it was given before."""
    if msg not in _warned:
        _warned.add(msg)
        warn(msg)


@contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Inside of it torch compiles a function as often as needed. It sets `recompile_limit`, which has no effect.

    >>> from rushlight._dynamo.utils import disable_cache_limit
    >>> with disable_cache_limit():
    ...     torch._dynamo.config.recompile_limit > 8
    True
    """
    before, config.recompile_limit = config.recompile_limit, 2**63 - 1
    try:
        yield
    finally:
        config.recompile_limit = before
