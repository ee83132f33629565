"""Hooks that reduce the gradients of `DistributedDataParallel`: `register_comm_hook(state, hook)` takes them."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from . import (
    ddp_zero_hook,
    debugging_hooks,
    default_hooks,
    optimizer_overlap_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class _Hook(NamedTuple):
    function: Any
    #: The width of PowerSGD's matrices.
    width: int | None = None


class DDPCommHookType(Enum):
    """The hooks by name."""

    ALLREDUCE = _Hook(default_hooks.allreduce_hook)
    FP16_COMPRESS = _Hook(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _Hook(default_hooks.bf16_compress_hook)
    QUANTIZE_PER_TENSOR = _Hook(quantization_hooks.quantization_pertensor_hook)
    QUANTIZE_PER_CHANNEL = _Hook(quantization_hooks.quantization_perchannel_hook)
    POWER_SGD = _Hook(powerSGD_hook.powerSGD_hook, 1)
    POWER_SGD_RANK2 = _Hook(powerSGD_hook.powerSGD_hook, 2)
    BATCHED_POWER_SGD = _Hook(powerSGD_hook.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = _Hook(powerSGD_hook.batched_powerSGD_hook, 2)
    NOOP = _Hook(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model, state=None):
    """Registers a hook by its name.

    Args:
        comm_hook_type: a `DDPCommHookType`.
        model: a `DistributedDataParallel`.
        state: the group that averages, by default all ranks.
    """
    function, width = comm_hook_type.value
    model.register_comm_hook(state if width is None else powerSGD_hook.PowerSGDState(state, width), function)


def __dir__() -> list[str]:
    return [
        *__all__, "ddp_zero_hook", "debugging_hooks", "default_hooks", "optimizer_overlap_hooks", "post_localSGD_hook", "powerSGD_hook",
        "quantization_hooks",
    ]  # fmt: skip
