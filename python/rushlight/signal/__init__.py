"""`torch.signal`: windows for spectra."""

from . import windows as windows

__all__ = ["windows"]
