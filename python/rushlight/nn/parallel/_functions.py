"""Copies and sums of tensors among GPUs through which gradients flow. Gradients are added in the order of the GPUs."""

from __future__ import annotations

import rushlight as torch
from rushlight.autograd import Function
from rushlight.cuda import comm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = ["Broadcast", "Gather", "ReduceAddCoalesced", "Scatter"]


class Broadcast(Function):
    """Copies tensors to GPUs: ``apply(devices, *tensors)`` returns all tensors of the first GPU, then those of the next."""

    @staticmethod
    def forward(ctx: Any, target_gpus: list[int], *inputs: Tensor) -> tuple[Tensor, ...]:
        if any(tensor.device.type == "cpu" for tensor in inputs):
            raise AssertionError("Broadcast function not implemented for CPU tensors")
        ctx.target_gpus = target_gpus
        if not inputs:
            return ()
        ctx.num_inputs = len(inputs)
        ctx.input_device = inputs[0].get_device()
        outputs = comm.broadcast_coalesced(inputs, target_gpus)
        fixed = [
            group[place] for place, needed in enumerate(ctx.needs_input_grad[1:]) if not needed for group in outputs
        ]
        ctx.mark_non_differentiable(*fixed)
        # On its own GPU the input is not copied; as a result it needs another tensor.
        return tuple(one.view_as(one) for group in outputs for one in group)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return (None, *ReduceAddCoalesced.apply(ctx.input_device, ctx.num_inputs, *grad_outputs))


class ReduceAddCoalesced(Function):
    """Adds tensors of several GPUs: ``apply(destination, count, *tensors)`` with `count` tensors for each GPU."""

    @staticmethod
    def forward(ctx: Any, destination: int, num_inputs: int, *grads: Tensor) -> tuple[Tensor, ...]:
        ctx.target_gpus = [grads[place].get_device() for place in range(0, len(grads), num_inputs)]
        groups = [grads[place : place + num_inputs] for place in range(0, len(grads), num_inputs)]
        return comm.reduce_add_coalesced(groups, destination)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, *Broadcast.apply(ctx.target_gpus, *grad_outputs))


class Gather(Function):
    """Joins tensors of several GPUs: ``apply(device, dim, *tensors)``. Numbers become a vector, with a warning."""

    @staticmethod
    def forward(ctx: Any, target_device: Any, dim: int, *inputs: Tensor) -> Tensor:
        if any(tensor.device.type == "cpu" for tensor in inputs):
            raise AssertionError("Gather function not implemented for CPU tensors")
        ctx.target_device = target_device
        ctx.dim = dim
        ctx.input_gpus = tuple(tensor.get_device() for tensor in inputs)
        ctx.unsqueezed_scalar = dim == 0 and all(tensor.dim() == 0 for tensor in inputs)
        if ctx.unsqueezed_scalar:
            inputs = tuple(tensor.view(1) for tensor in inputs)
            from rushlight._warnings import warn

            warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and return a vector."
            )
        ctx.input_sizes = tuple(tensor.size(dim) for tensor in inputs)
        return comm.gather(inputs, dim, target_device)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        parts = Scatter.apply(ctx.input_gpus, ctx.input_sizes, ctx.dim, grad_output)
        if ctx.unsqueezed_scalar:
            parts = tuple(part[0] for part in parts)
        return (None, None, *parts)


class Scatter(Function):
    """Splits a tensor among GPUs: ``apply(devices, sizes or None, dim, tensor)``."""

    @staticmethod
    def forward(ctx: Any, target_gpus: list[int], chunk_sizes: Any, dim: int, input: Tensor) -> tuple[Tensor, ...]:
        ctx.dim = dim
        ctx.input_device = torch.device("cpu") if input.device.type == "cpu" else input.device
        return comm.scatter(input, target_gpus, chunk_sizes, dim)

    @staticmethod
    def backward(ctx: Any, *grad_output: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, None, Gather.apply(ctx.input_device, ctx.dim, *grad_output)


def __dir__() -> list[str]:
    return __all__
