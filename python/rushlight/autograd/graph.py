"""The graph behind a result: its nodes, and how saved tensors are stored."""

from rushlight import _C
from rushlight._C import Node

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

    def __init__(self, pack_hook, unpack_hook):
        self._hooks = (pack_hook, unpack_hook)

    def __enter__(self):
        _C._push_saved_tensors_hooks(*self._hooks)

    def __exit__(self, *_):
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in host memory until backward asks for them."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            kept = tensor.cpu()
            return tensor.device, kept.pin_memory() if pin_memory and tensor.is_cuda else kept

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)
