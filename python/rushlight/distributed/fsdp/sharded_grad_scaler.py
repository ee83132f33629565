"""`ShardedGradScaler`: a `GradScaler` whose ranks skip the same steps."""

from __future__ import annotations

import rushlight as torch
from rushlight import distributed as dist
from rushlight.amp.grad_scaler import GradScaler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.optim import Optimizer

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """Scales losses as `GradScaler` does. All ranks skip a step if the gradients of one of them are infinite.

    Scaled losses keep their dtype, and gradients may be float16.

    Args:
        device: ``"cpu"`` or ``"cuda"``.
        init_scale: the initial scale.
        backoff_factor: the factor after a step with infinity or NaN.
        growth_factor, growth_interval: the factor of increases, and the number of consecutive steps without infinity or
            NaN before each.
        enabled: False disables the scaler.
        process_group: the ranks, by default all.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
    >>> weight = torch.ones(1, requires_grad=True)
    >>> optimizer, scaler = torch.optim.SGD([weight], lr=0.5), ShardedGradScaler("cpu")
    >>> scaler.scale((weight * 3).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight.item(), scaler.get_scale()
    (-0.5, 65536.0)
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def scale(self, outputs: Any) -> Any:
        """Multiplies a tensor, or all tensors of a list or tuple, by the scale. They keep their dtype."""
        if self._enabled and isinstance(outputs, torch.Tensor):
            return super().scale(outputs).to(outputs.dtype)
        return super().scale(outputs)

    def _divide(self, optimizer: Optimizer) -> bool:
        finite = self._divide_grads(optimizer, halves=True) is not False
        group = dist._groups.resolve(self.process_group)
        found = torch.tensor([0.0 if finite else 1.0], device=group._object_device())
        dist.all_reduce(found, group=group)
        return found.item() == 0
