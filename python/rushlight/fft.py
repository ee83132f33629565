"""`torch.fft`: discrete Fourier transforms, from the operator table."""

from rushlight import _C

globals().update(_C._functions.get("fft", {}))
__all__ = sorted(_C._functions.get("fft", {}))  # noqa: PLE0605
