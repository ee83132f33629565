"""`torch.cuda.amp.autocast_mode`: torch's module of these names."""

from rushlight.cuda.amp import autocast as autocast
from rushlight.cuda.amp import custom_bwd as custom_bwd
from rushlight.cuda.amp import custom_fwd as custom_fwd

__all__ = [
    "autocast",
    "custom_bwd",
    "custom_fwd",
]


def __dir__() -> list[str]:
    return __all__
