"""Tensors whose parts are on several ranks (`torch.distributed.tensor`)."""

from rushlight._checkpoint.allowed import OWN
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh

from . import _functions, placement_types
from ._api import (
    DTensor,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    leaf,
    ones,
    rand,
    randn,
    zeros,
)
from ._layout import Spec
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard

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

# What the files of tensors on a mesh consist of, for `torch.load`.
OWN.extend([DeviceMesh, Partial, Replicate, Shard, Spec, _StridedShard, leaf])


def __getattr__(name: str):
    if name in ("experimental", "parallel"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    from rushlight._missing_names import missing_from

    raise missing_from("torch.distributed.tensor", name, __dir__)


def __dir__() -> list[str]:
    return [*__all__, "DeviceMesh", "experimental", "init_device_mesh", "parallel", "placement_types"]
