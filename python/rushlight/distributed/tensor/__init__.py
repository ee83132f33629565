"""Tensors whose parts are on several ranks (`torch.distributed.tensor`)."""

from . import _functions, placement_types
from ._api import (
    DTensor,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]


def __getattr__(name: str):
    if name in ("experimental", "parallel"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    from rushlight._names import missing_from

    raise missing_from("torch.distributed.tensor", name, __dir__)


def __dir__() -> list[str]:
    return [*__all__, "experimental", "parallel", "placement_types"]
