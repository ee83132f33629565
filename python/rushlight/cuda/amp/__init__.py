"""Deprecated names of `torch.amp` for CUDA."""

from __future__ import annotations

import rushlight as torch
from rushlight.amp._deprecated import (
    DeprecatedAutocast,
    DeprecatedGradScaler,
    deprecated_custom_bwd,
    deprecated_custom_fwd,
)

from .common import amp_definitely_not_available as amp_definitely_not_available

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


class autocast(DeprecatedAutocast):
    """Deprecated name of `torch.amp.autocast("cuda", ..)`. Gives a FutureWarning."""

    _device_type = "cuda"

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__(enabled, dtype, cache_enabled)


class GradScaler(DeprecatedGradScaler):
    """Deprecated name of `torch.amp.GradScaler("cuda", ..)`. Gives a FutureWarning."""

    _device_type = "cuda"


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: torch.dtype | None = None) -> Callable[..., Any]:
    """Deprecated name of `torch.amp.custom_fwd` for CUDA. Gives a FutureWarning."""
    return deprecated_custom_fwd("cuda", fwd, cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """Deprecated name of `torch.amp.custom_bwd` for CUDA. Gives a FutureWarning."""
    return deprecated_custom_bwd("cuda", bwd)


def __dir__() -> list[str]:
    return __all__
