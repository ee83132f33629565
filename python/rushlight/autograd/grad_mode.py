"""Switches of recording, where torch has them."""

from rushlight._modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]


def __dir__() -> list[str]:
    return __all__
