"""Agents: what starts the processes of a program on a machine, and watches them."""

from . import server

__all__ = ["server"]


def __dir__() -> list[str]:
    return __all__
