"""Deprecated names of `torch.amp` for the CPU."""

from __future__ import annotations

from rushlight.amp._deprecated import DeprecatedAutocast, DeprecatedGradScaler

__all__ = ["GradScaler", "autocast"]


class autocast(DeprecatedAutocast):
    """Deprecated name of `torch.amp.autocast("cpu", ..)`. Gives a FutureWarning."""

    _device_type = "cpu"


class GradScaler(DeprecatedGradScaler):
    """Deprecated name of `torch.amp.GradScaler("cpu", ..)`. Gives a FutureWarning."""

    _device_type = "cpu"


def __dir__() -> list[str]:
    return __all__
