"""Processes of torchrun."""

from . import errors

__all__ = ["errors"]


def __dir__() -> list[str]:
    return __all__
