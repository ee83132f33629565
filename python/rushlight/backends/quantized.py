"""Settings of the libraries for quantised operators, which are not used.

``engine`` is accepted and has no effect. ``supported_engines`` are those that there are.
"""

from __future__ import annotations

__all__ = ["engine", "supported_engines"]

engine: str = "none"
supported_engines: list[str] = ["none"]


def __dir__() -> list[str]:
    return __all__
