"""Pickling of tensors and storages between processes. Their bytes stay in shared memory.

A storage that is not shared is moved to shared memory in place, so that sender and receiver share its bytes from then
on. A storage that is received twice is one storage. The receiver also maps files that are mapped for writing
(`torch.from_file(shared=True)`). The reducers are registered for all of multiprocessing: its own queues and managers
work too, but their sender must live until the object has been received.
"""

from multiprocessing import reduction

import rushlight as torch
from rushlight._utils import layout_of, taken_apart

from .bundle import receive_file, receive_storage, send_file, send_storage


def reduce_storage(storage):
    kind = storage.device.type
    if kind != "cpu":
        raise RuntimeError(
            f"Cannot pickle {kind if kind == 'meta' else 'CUDA'} storage; try pickling a {kind} tensor instead"
        )
    if storage.nbytes() == 0:
        return type(storage), (0,)
    through = storage._written_through()
    if through is not None:
        return receive_file, send_file(*through, storage.nbytes())
    return receive_storage, send_storage(storage)


def reduce_tensor(tensor):
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    leaf = type(tensor), tensor.requires_grad, tensor.grad if tensor.is_leaf else None
    if tensor.is_sparse or tensor.device.type == "cpu":
        # A view of the storage, because moving the storage moves all its views.
        return rebuild_tensor, (*taken_apart(tensor), leaf)
    if tensor.device.type != "meta":
        raise RuntimeError(f"Cannot share a tensor on {tensor.device} between processes: copy it to the CPU first")
    return rebuild_tensor, (_meta_of, layout_of(tensor), leaf)


def rebuild_tensor(function, arguments, leaf):
    return _as_leaf(function(*arguments), leaf)


def _meta_of(dtype, _, size, stride, __):
    return torch.empty_strided(size, stride, dtype=dtype, device="meta")


def _as_leaf(tensor, leaf):
    cls, requires_grad, grad = leaf
    if cls is torch.nn.Parameter:
        # Passed to the constructor, because an integer tensor cannot require a gradient, not even temporarily.
        tensor = torch.nn.Parameter(tensor, requires_grad=requires_grad)
    else:
        tensor.requires_grad_(requires_grad)
    if grad is not None:
        tensor.grad = grad
    return tensor


def init_reductions():
    for cls in (torch.Tensor, torch.nn.Parameter):
        reduction.register(cls, reduce_tensor)
    reduction.register(torch.UntypedStorage, reduce_storage)
