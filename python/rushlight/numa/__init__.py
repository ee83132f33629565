"""Nodes of memory of a machine (`torch.numa`)."""

from . import binding

__all__ = ["binding"]


def __dir__() -> list[str]:
    return __all__
