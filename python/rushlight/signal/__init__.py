"""`torch.signal`: window functions for spectral analysis."""

from . import windows as windows

__all__ = ["windows"]
