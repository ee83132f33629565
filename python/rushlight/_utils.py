"""Takes tensors apart and rebuilds them, for pickles, copies, messages between processes and checkpoints.

The functions that checkpoints name are in `_checkpoint/rebuild.py`. They are found here too, as pickles of torch name them.
The functions for parameters are the same for rushlight's own pickles, so they have torch's names and arguments.
"""

import math

from rushlight import _C
from rushlight._C import Tensor
from rushlight._loading import load

# The engine's method, which takes untyped storages. The public one, written in Python, also takes typed ones.
set_storage = Tensor.set_


def stored(dtype):
    """The dtype of the stored elements: for a quantised dtype that of its integers."""
    return {_C.quint8: _C.uint8, _C.qint8: _C.int8, _C.qint32: _C.int32}.get(dtype, dtype)


def view_of(storage, dtype, offset, size, stride, lazy_conj=False, quantizer=None):
    """A tensor over the bytes of an untyped storage. Copies, pickles, messages and checkpoints use it.

    If it is a `lazy_conj` (a lazy conjugate or negative), the stored bytes are the conjugates or negatives of its
    elements. If it is quantised, `quantizer` has the scheme and its parameters.
    """
    import rushlight as torch

    _check_within(storage, dtype, offset, size, stride)
    view = set_storage(torch.empty(0, dtype=stored(dtype), device=storage.device), storage, offset, size, stride)
    if quantizer is not None:
        return load("rushlight._quantized").over(view, quantizer)
    if lazy_conj:
        view = (torch._conj if dtype.is_complex else torch._neg_view)(view).detach()
    return view


def _check_within(storage, dtype, offset, size, stride):
    """Raises RuntimeError for a tensor that reaches beyond its storage: `set_` would give the storage more bytes."""
    numbers = (offset, *size, *stride)
    # `set_` refuses what is no geometry.
    if not all(type(number) is int for number in numbers) or min(size, default=1) <= 0 or math.prod(size) >= 2**63:
        return
    last = offset + sum((count - 1) * step for count, step in zip(size, stride) if step > 0)
    needed, held = (last + 1) * dtype.itemsize, storage.nbytes()
    if needed > held:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize {dtype.itemsize} "
            f"requiring a storage size of {needed} are out of bounds for storage of size {held}"
        )


def layout_of(tensor):
    """The arguments of `view_of` that recreate this tensor from its storage."""
    lazy_conj = tensor.is_conj() or tensor.is_neg()
    layout = tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), lazy_conj
    return (*layout, load("rushlight._quantized").parameters_of(tensor)) if tensor.is_quantized else layout


def is_sparse(tensor):
    """Whether the tensor has a sparse layout, compressed or not."""
    import rushlight as torch

    return tensor.layout is not torch.strided


def sparse_parts(tensor):
    """The indices, values and shape of a sparse tensor; with coordinates also whether it is coalesced."""
    import rushlight as torch

    if tensor.is_sparse:
        return tensor._indices(), tensor._values(), tensor.shape, tensor.is_coalesced()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values(), tensor.shape
    return tensor.ccol_indices(), tensor.row_indices(), tensor.values(), tensor.shape


def sparse_of(layout, parts):
    """The sparse tensor of these parts."""
    import rushlight as torch

    if layout is not torch.sparse_coo:
        return torch.sparse_compressed_tensor(*parts, layout=layout)
    indices, values, size, *coalesced = parts
    return torch.sparse_coo_tensor(indices, values, size, is_coalesced=coalesced == [True])


def _rebuild_nested_tensor(buffer, sizes, strides, offsets, requires_grad=False):
    """The nested tensor of these parts, which anyone may have written.

    Raises:
        RuntimeError: the parts do not fit each other.
    """
    import rushlight as torch
    from rushlight.nested._strided.tensor import view_from_buffer

    parts = (buffer, sizes, strides, offsets)
    if not all(isinstance(part, torch.Tensor) and part.layout is torch.strided for part in parts) or buffer.dim() != 1:
        raise RuntimeError("a nested tensor needs a buffer, sizes, strides and offsets")
    if any(part.dtype is not torch.int64 for part in parts[1:]):
        raise RuntimeError("the sizes, strides and offsets of a nested tensor are whole numbers of 64 bits")
    return view_from_buffer(*parts).requires_grad_(requires_grad)


def wrapper_of(kind, dtype, size, stride, storage_offset, layout, device, requires_grad):
    """A tensor without elements of a class that handles operators."""
    import rushlight as torch

    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return torch.Tensor._make_wrapper_subclass(kind, size, strides=stride, storage_offset=storage_offset, **options)


def wrapper_form(tensor):
    """The arguments of `wrapper_of` that recreate this tensor, but for the attributes of its object."""
    form = type(tensor), tensor.dtype, tuple(tensor.size()), tensor.stride(), tensor.storage_offset()
    return (*form, tensor.layout, tensor.device, tensor.requires_grad)


def taken_apart(tensor):
    """The function that rebuilds a plain tensor, and its arguments, for pickles and messages."""
    if _C._is_wrapper(tensor):
        return wrapper_of, wrapper_form(tensor)
    if is_sparse(tensor):
        return sparse_of, (tensor.layout, sparse_parts(tensor))
    return view_of, (tensor.untyped_storage(), *layout_of(tensor))


def _rebuild(function, arguments, requires_grad, kind, state):
    import rushlight as torch

    tensor = function(*arguments)
    if kind is not None and type(tensor) is not kind:
        tensor = torch.Tensor._make_subclass(kind, tensor)
    tensor.requires_grad_(requires_grad)
    return set_state(tensor, state)


def _rebuild_storage(content, device):
    import rushlight as torch

    if device == "meta":
        return torch.UntypedStorage(content, device=device)
    storage = torch.UntypedStorage._from_buffer(bytearray(content))
    return storage if device == "cpu" else storage.cuda(device)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    # Hooks are not saved: the dictionary in a file is always empty.
    return load("rushlight.nn.parameter").Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return set_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


# Functions for sending many gradients at once, with torch's names and arguments.


def _flatten_dense_tensors(tensors):
    """Concatenates the elements of tensors of one dtype into a tensor with one dimension."""
    import rushlight as torch

    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Views of the result of `_flatten_dense_tensors`, with the shapes of the tensors."""
    sizes = [tensor.numel() for tensor in tensors]
    return tuple(part.view(tensor.shape) for part, tensor in zip(flat.split(sizes), tensors))


def _take_tensors(tensors, size_limit):
    """Yields lists of tensors of one type, in order. A list has at most `size_limit` bytes or contains a single tensor."""
    gathered = {}
    for tensor in tensors:
        parts = (tensor._indices(), tensor._values()) if tensor.is_sparse else (tensor,)
        size = sum(part.nbytes for part in parts)
        kind = tensor.dtype, tensor.device, tensor.is_sparse
        chunk, held = gathered.get(kind, ([], 0))
        if held > 0 and held + size > size_limit:
            yield chunk
            chunk, held = [], 0
        chunk.append(tensor)
        gathered[kind] = chunk, held + size
    for chunk, _ in gathered.values():
        if chunk:
            yield chunk


def set_state(obj, state):
    """Sets the state of an object: with its own method, or attribute by attribute (from a dict, and slots)."""
    from rushlight import Tensor

    if hasattr(obj, "__setstate__") and not isinstance(obj, Tensor):
        obj.__setstate__(state)
        return obj
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for part in (attributes, slots):
        for name, value in (part or {}).items():
            setattr(obj, name, value)
    return obj


def _element_size(dtype):
    """The number of bytes of an element.

    >>> _element_size(torch.float16)
    2
    """
    import rushlight as torch

    if not isinstance(dtype, torch.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


_REBUILDERS = (
    "_rebuild_meta_tensor_no_storage",
    "_rebuild_qtensor",
    "_rebuild_sparse_tensor",
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
    "_rebuild_wrapper_subclass",
)


def _get_available_device_type():
    """The kind of the accelerator of this machine, or None.

    >>> torch._utils._get_available_device_type() in (None, "cuda")
    True
    """
    return "cuda" if load("rushlight.cuda").is_available() else None


def _get_device_module(device_type):
    """The module for a kind of devices.

    >>> torch._utils._get_device_module("cpu") is torch.cpu
    True
    """
    module = getattr(load("rushlight"), device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return module


def _get_device_index(device, optional=False, allow_cpu=False):
    """The number of a device, which may be a `torch.device`, its text or the number.

    Args:
        device: the device, or None for the current one.
        optional: whether a device without a number means the current one.
        allow_cpu: whether the CPU is accepted, whose number is -1.

    Raises:
        ValueError: the device is the CPU, or has no number.

    >>> torch._utils._get_device_index("cuda:2"), torch._utils._get_device_index("cpu", allow_cpu=True)
    (2, -1)
    """
    import rushlight as torch

    if isinstance(device, str):
        device = torch.device(device)
    index = device if isinstance(device, int) else None
    if isinstance(device, torch.device):
        if not allow_cpu and device.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        index = -1 if device.type == "cpu" else device.index
    if index is None:
        if not optional:
            raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
        index = torch.cuda.current_device() if torch.cuda.is_available() else None
    return index


def __getattr__(name):
    if name in _REBUILDERS:
        return getattr(load("rushlight._checkpoint.rebuild"), name)
    if name in ("ExceptionWrapper", "KeyErrorMessage"):
        return getattr(load("rushlight.utils.data._utils.failure"), name)
    raise AttributeError(f"module 'torch._utils' has no attribute {name!r}")
