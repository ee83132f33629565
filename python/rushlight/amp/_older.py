"""The names that `torch.amp` had before it took the device's name: `torch.cpu.amp` and `torch.cuda.amp`."""

from __future__ import annotations

from rushlight import amp
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    import rushlight as torch


class _Older:
    """A class of `torch.amp` for the device of the module that names it."""

    _device_type: ClassVar[str]

    def _tell(self, name: str) -> None:
        kind = self._device_type
        warn(
            f"`torch.{kind}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('{kind}', args...)` instead.",
            FutureWarning,
        )


def older_custom_fwd(
    device_type: str, fwd: Callable[..., Any] | None, cast_inputs: torch.dtype | None
) -> Callable[..., Any]:
    """`torch.amp.custom_fwd` under its older name; warns (FutureWarning)."""
    _tell_decorator("custom_fwd", device_type)
    return amp.custom_fwd(fwd, device_type=device_type, cast_inputs=cast_inputs)


def older_custom_bwd(device_type: str, bwd: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.amp.custom_bwd` under its older name; warns (FutureWarning)."""
    _tell_decorator("custom_bwd", device_type)
    return amp.custom_bwd(bwd, device_type=device_type)


def _tell_decorator(name: str, kind: str) -> None:
    warn(
        f"`torch.{kind}.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}(args..., device_type='{kind}')` instead.",
        FutureWarning,
    )


class OlderAutocast(_Older, amp.autocast):
    """`torch.amp.autocast` without the device's name."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        self._tell("autocast")
        super().__init__(self._device_type, dtype, enabled, cache_enabled)


class OlderGradScaler(_Older, amp.GradScaler):
    """`torch.amp.GradScaler` without the device's name."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._tell("GradScaler")
        super().__init__(self._device_type, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
