"""Settings of XNNPACK, which is not used."""

from __future__ import annotations

__all__ = ["enabled"]

enabled: bool = False


def __dir__() -> list[str]:
    return __all__
