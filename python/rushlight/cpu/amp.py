"""The older names of `torch.amp` for the device cpu."""

from __future__ import annotations

from rushlight.amp._older import OlderAutocast, OlderGradScaler

__all__ = ["GradScaler", "autocast"]


class autocast(OlderAutocast):
    """`torch.amp.autocast("cpu", ..)` under its older name; warns (FutureWarning)."""

    _device_type = "cpu"


class GradScaler(OlderGradScaler):
    """`torch.amp.GradScaler("cpu", ..)` under its older name; warns (FutureWarning)."""

    _device_type = "cpu"


def __dir__() -> list[str]:
    return __all__
