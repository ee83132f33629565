"""The graph behind a result: its nodes, and how saved tensors are stored."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Node", "save_on_cpu", "saved_tensors_hooks"]


class saved_tensors_hooks:
    """Stores what the functions called inside keep for backward as `pack(tensor)`; `unpack` gives it back.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), torch.from_numpy):
    ...     y = (x * x.detach()).sum()
    >>> y.backward()
    >>> x.grad
    tensor([1., 1.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self._hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        _C._push_saved_tensors_hooks(*self._hooks)

    def __exit__(self, *_: object) -> None:
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in host memory until backward asks for them."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> Any:
            kept = tensor.cpu()
            return tensor.device, kept.pin_memory() if pin_memory and tensor.is_cuda else kept

        def unpack(packed: Any) -> Tensor:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)
