"""`torch.cpu.amp.autocast_mode`: torch's module of this name."""

from rushlight.cpu.amp import autocast as autocast

__all__ = [
    "autocast",
]


def __dir__() -> list[str]:
    return __all__
