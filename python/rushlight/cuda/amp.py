"""The older names of `torch.amp` for the device cuda."""

from __future__ import annotations

from rushlight.amp._older import OlderAutocast, OlderGradScaler

__all__ = ["GradScaler", "autocast"]


class autocast(OlderAutocast):
    """`torch.amp.autocast("cuda", ..)` under its older name; warns (FutureWarning)."""

    _device_type = "cuda"


class GradScaler(OlderGradScaler):
    """`torch.amp.GradScaler("cuda", ..)` under its older name; warns (FutureWarning)."""

    _device_type = "cuda"


def __dir__() -> list[str]:
    return __all__
