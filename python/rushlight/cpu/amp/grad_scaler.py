"""`torch.cpu.amp.grad_scaler`: torch's module of this name."""

from rushlight.cpu.amp import GradScaler as GradScaler

__all__ = [
    "GradScaler",
]


def __dir__() -> list[str]:
    return __all__
