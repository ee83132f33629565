"""The older names of `torch.amp` for the device cuda."""

from __future__ import annotations

from rushlight.amp._older import OlderAutocast, OlderGradScaler, older_custom_bwd, older_custom_fwd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import dtype

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(OlderAutocast):
    """`torch.amp.autocast("cuda", ..)` under its older name; warns (FutureWarning)."""

    _device_type = "cuda"


class GradScaler(OlderGradScaler):
    """`torch.amp.GradScaler("cuda", ..)` under its older name; warns (FutureWarning)."""

    _device_type = "cuda"


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: dtype | None = None) -> Callable[..., Any]:
    """`torch.amp.custom_fwd` for the device cuda under its older name; warns (FutureWarning)."""
    return older_custom_fwd("cuda", fwd, cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.amp.custom_bwd` for the device cuda under its older name; warns (FutureWarning)."""
    return older_custom_bwd("cuda", bwd)


def __dir__() -> list[str]:
    return __all__
