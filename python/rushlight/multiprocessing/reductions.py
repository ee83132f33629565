"""How tensors and storages are pickled between processes: their bytes stay where they are, in shared memory.

A storage that is not shared is moved to shared memory in place, so sender and receiver see the same bytes from then on.
A storage that arrives twice is one storage. Bytes of a file that is written through (`torch.from_file(shared=True)`) are
mapped by the receiver as well. Registered for all of multiprocessing: its own queues and managers work too,
but their sender must live until the object has been received.
"""

from multiprocessing import reduction

import rushlight as torch
from rushlight._utils import _rebuild_sparse, layout_of, sparse_parts, view_of

from .parcel import receive_file, receive_storage, send_file, send_storage


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
    if tensor.is_sparse:
        return _rebuild_sparse, (*sparse_parts(tensor), tensor.requires_grad, type(tensor), None)
    # A view, whatever became of the tensor's own bytes: moving the storage moves all its views.
    layout = layout_of(tensor)
    leaf = type(tensor), tensor.requires_grad, tensor.grad if tensor.is_leaf else None
    if tensor.device.type == "meta":
        return rebuild_meta_tensor, (layout, leaf)
    if tensor.device.type != "cpu":
        raise RuntimeError(f"Cannot share a tensor on {tensor.device} between processes: copy it to the CPU first")
    return rebuild_tensor, (tensor.untyped_storage(), layout, leaf)


def rebuild_tensor(storage, layout, leaf):
    return _as_leaf(view_of(storage, *layout), leaf)


def rebuild_meta_tensor(layout, leaf):
    dtype, _, size, stride, _ = layout
    return _as_leaf(torch.empty_strided(size, stride, dtype=dtype, device="meta"), leaf)


def _as_leaf(tensor, leaf):
    cls, requires_grad, grad = leaf
    if cls is torch.nn.Parameter:
        # The constructor must know: integers cannot require a gradient, not even for a moment.
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
