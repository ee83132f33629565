"""The exceptions of `torch` that nothing here raises yet, for programs that catch them."""

from __future__ import annotations


class AcceleratorError(RuntimeError):
    """Something went wrong on a card. Nothing computes on one yet, so that nothing raises it.

    >>> issubclass(torch.AcceleratorError, RuntimeError)
    True
    """


class OutOfMemoryError(RuntimeError):
    """A card has too little memory. Nothing computes on one yet; where the host has too little it is a `MemoryError`.

    >>> issubclass(torch.OutOfMemoryError, RuntimeError) and torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    True
    """


for _error in (AcceleratorError, OutOfMemoryError):
    _error.__module__ = "rushlight"
