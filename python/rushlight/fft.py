"""`torch.fft`: discrete Fourier transforms, from the operator table."""

from rushlight._functions.fft import *  # noqa: F403
from rushlight._functions.fft import __all__ as __all__
