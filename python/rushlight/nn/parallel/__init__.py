"""Modules over several cards of one machine."""

from .data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "data_parallel"]


def __dir__() -> list[str]:
    return __all__
