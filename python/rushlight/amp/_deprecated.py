"""The deprecated modules `torch.cpu.amp` and `torch.cuda.amp`, whose names do not take a device."""

from __future__ import annotations

from typing import ClassVar

from rushlight import amp
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import rushlight as torch


class _Deprecated:
    """Base of deprecated classes for one device type."""

    _device_type: ClassVar[str]

    def _warn(self, name: str) -> None:
        kind = self._device_type
        warn(
            f"`torch.{kind}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('{kind}', args...)` instead.",
            FutureWarning,
        )


def deprecated_custom_fwd(
    device_type: str, fwd: Callable[..., Any] | None, cast_inputs: torch.dtype | None
) -> Callable[..., Any]:
    """Deprecated name of `torch.amp.custom_fwd`. Gives a FutureWarning."""
    _warn_decorator("custom_fwd", device_type)
    return amp.custom_fwd(fwd, device_type=device_type, cast_inputs=cast_inputs)


def deprecated_custom_bwd(device_type: str, bwd: Callable[..., Any]) -> Callable[..., Any]:
    """Deprecated name of `torch.amp.custom_bwd`. Gives a FutureWarning."""
    _warn_decorator("custom_bwd", device_type)
    return amp.custom_bwd(bwd, device_type=device_type)


def _warn_decorator(name: str, kind: str) -> None:
    warn(
        f"`torch.{kind}.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}(args..., device_type='{kind}')` instead.",
        FutureWarning,
    )


class DeprecatedAutocast(_Deprecated, amp.autocast):
    """`torch.amp.autocast` for a fixed device type."""

    def __init__(self, enabled: bool, dtype: torch.dtype, cache_enabled: bool) -> None:
        self._warn("autocast")
        super().__init__(self._device_type, dtype, enabled, cache_enabled)


class DeprecatedGradScaler(_Deprecated, amp.GradScaler):
    """`torch.amp.GradScaler` for a fixed device type."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._warn("GradScaler")
        super().__init__(self._device_type, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
