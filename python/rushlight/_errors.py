"""Exceptions of `torch` that rushlight does not raise yet. Programs name them in ``except`` clauses."""

from __future__ import annotations


class AcceleratorError(RuntimeError):
    """An error on a GPU. rushlight does not raise it yet, because no operator runs on a GPU.

    >>> issubclass(torch.AcceleratorError, RuntimeError)
    True
    """


class OutOfMemoryError(RuntimeError):
    """A GPU is out of memory. rushlight does not raise it yet; the CPU raises `MemoryError`.

    >>> issubclass(torch.OutOfMemoryError, RuntimeError) and torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    True
    """


for _error in (AcceleratorError, OutOfMemoryError):
    _error.__module__ = "rushlight"
