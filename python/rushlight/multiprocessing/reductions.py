"""Pickling of tensors and storages between processes. Their bytes stay in shared memory.

A storage that is not shared is moved to shared memory in place, so that sender and receiver share its bytes from then
on. A storage that is received twice is one storage. The receiver also maps files that are mapped for writing
(`torch.from_file(shared=True)`). Memory of a GPU stays where it is: its owner keeps it until every receiver has dropped it or has ended.
Events of GPUs (`interprocess=True`) are sent by name.
The reducers are registered for all of multiprocessing: its own queues and managers
work too, but their sender must live until the object has been received.
"""

import os
import weakref
from multiprocessing import reduction

import rushlight as torch
from rushlight._utils import layout_of, taken_apart, view_of

from .bundle import receive_descriptor, receive_file, receive_storage, send_descriptor, send_file, send_storage


def reduce_storage(storage):
    kind = storage.device.type
    if kind != "cpu":
        # torch's words; a tensor on a GPU can be sent.
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
    if tensor.device.type == "cuda":
        return rebuild_tensor, (_on_cuda, (_send_cuda(tensor.untyped_storage()), layout_of(tensor)), leaf)
    return rebuild_tensor, (_meta_of, layout_of(tensor), leaf)


# The storages on GPUs that this process has sent or received, by their owner's names for them.
_cuda_storages: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def _send_cuda(storage):
    """The name of a storage on a GPU. Its owner keeps it until the descriptor that goes with it is closed everywhere."""
    if storage.nbytes() == 0:
        return storage.device.index, None
    device, handle, offset, nbytes, descriptor = torch._C._cuda_send(storage)
    try:
        held = send_descriptor(descriptor)
    finally:
        os.close(descriptor)
    _cuda_storages[device, handle, offset, nbytes] = storage
    return device, (handle, offset, nbytes, os.getpid(), held)


def _receive_cuda(name):
    device, sent = name
    if sent is None:
        return torch.UntypedStorage(0, device=torch.device("cuda", device))
    handle, offset, nbytes, sender, held = sent
    descriptor = receive_descriptor(held)
    key = device, handle, offset, nbytes
    known = _cuda_storages.get(key)
    if known is not None:
        os.close(descriptor)
        return known
    if sender == os.getpid():
        os.close(descriptor)
        raise RuntimeError("a tensor on a GPU was sent by this process and deleted before it was received")
    storage = torch._C._cuda_receive(device, handle, offset, nbytes, descriptor)
    _cuda_storages[key] = storage
    return storage


def _on_cuda(name, layout):
    return view_of(_receive_cuda(name), *layout)


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


def reduce_event(event):
    return torch.cuda.Event.from_ipc_handle, (event.device, event.ipc_handle())


def init_reductions():
    for cls in (torch.Tensor, torch.nn.Parameter):
        reduction.register(cls, reduce_tensor)
    reduction.register(torch.UntypedStorage, reduce_storage)
    reduction.register(torch.cuda.Event, reduce_event)
