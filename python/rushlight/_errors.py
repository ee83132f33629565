"""Exceptions of devices."""

from __future__ import annotations


class AcceleratorError(RuntimeError):
    """An error that the driver of a GPU reports.

    >>> issubclass(torch.AcceleratorError, RuntimeError)
    True
    """


class OutOfMemoryError(RuntimeError):
    """A GPU has no memory left. The CPU raises `MemoryError`.

    >>> issubclass(torch.OutOfMemoryError, RuntimeError) and torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    True
    """


for _error in (AcceleratorError, OutOfMemoryError):
    _error.__module__ = "rushlight"
