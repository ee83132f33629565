"""Algorithms over process groups: uneven inputs, hooks that reduce gradients, averages of models."""

from __future__ import annotations

from . import join
from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable", "join"]


def __dir__() -> list[str]:
    return [*__all__, "ddp_comm_hooks", "model_averaging"]


def __getattr__(name: str):
    if name in ("ddp_comm_hooks", "model_averaging"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    from rushlight._missing_names import missing_from

    raise missing_from("torch.distributed.algorithms", name, __dir__)
