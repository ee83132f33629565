"""Deprecated names of `torch.amp` for the CPU."""

from __future__ import annotations

import rushlight as torch
from rushlight.amp._deprecated import DeprecatedAutocast, DeprecatedGradScaler

__all__ = ["GradScaler", "autocast"]


class autocast(DeprecatedAutocast):
    """Deprecated name of `torch.amp.autocast("cpu", ..)`. Gives a FutureWarning."""

    _device_type = "cpu"

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool = True) -> None:
        super().__init__(enabled, dtype, cache_enabled)


class GradScaler(DeprecatedGradScaler):
    """Deprecated name of `torch.amp.GradScaler("cpu", ..)`. Gives a FutureWarning."""

    _device_type = "cpu"


def __dir__() -> list[str]:
    return __all__
