"""What Python's pickles name, and what they share with copies, messages and checkpoints: how a tensor is taken apart and built.

Checkpoints name torch's functions, which stand in `_checkpoint/rebuild.py`; those of parameters are the same here and there, so
their names and arguments are torch's.
"""

from rushlight._loading import load


def view_of(storage, dtype, offset, size, stride, mirrored=False):
    """A tensor over the bytes of an untyped storage: what copies, pickles, messages and checkpoints build on.

    Where it is `mirrored`, the bytes are conjugates, or negatives, of its elements.
    """
    import rushlight as torch

    view = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)
    if mirrored:
        view = (torch._conj if dtype.is_complex else torch._neg_view)(view).detach()
    return view


def layout_of(tensor):
    """The arguments of `view_of` that show a storage as this tensor does."""
    mirrored = tensor.is_conj() or tensor.is_neg()
    return tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), mirrored


def sparse_parts(tensor):
    """The arguments of `torch.sparse_coo_tensor` that make this sparse tensor, the last being `is_coalesced`."""
    return tensor._indices(), tensor._values(), tensor.shape, tensor.is_coalesced()


def _rebuild_strided(storage, dtype, offset, size, stride, requires_grad, kind, state, mirrored=False):
    import rushlight as torch

    tensor = view_of(storage, dtype, offset, size, stride, mirrored)
    if kind is not torch.Tensor:
        tensor = torch.Tensor._make_subclass(kind, tensor)
    tensor.requires_grad_(requires_grad)
    return set_state(tensor, state)


def _rebuild_sparse(indices, values, size, coalesced, requires_grad, kind, state):
    import rushlight as torch

    tensor = torch.sparse_coo_tensor(indices, values, size, is_coalesced=coalesced)
    if kind is not torch.Tensor:
        tensor = torch.Tensor._make_subclass(kind, tensor)
    tensor.requires_grad_(requires_grad)
    return set_state(tensor, state)


def _rebuild_storage(content, device):
    import rushlight as torch

    if device != "cpu":
        return torch.UntypedStorage(content, device=device)
    return torch.UntypedStorage._from_buffer(bytearray(content))


def _rebuild_parameter(data, requires_grad, backward_hooks):
    # Hooks do not travel: the dictionary in a file is always empty.
    return load("rushlight.nn.parameter").Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return set_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


# How programs send many gradients at once; names and arguments are torch's.


def _flatten_dense_tensors(tensors):
    """The elements of tensors of one dtype, one after the other in a tensor of one dimension."""
    import rushlight as torch

    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Views of what `_flatten_dense_tensors` gave, each with the shape of one of the tensors."""
    sizes = [tensor.numel() for tensor in tensors]
    return tuple(part.view(tensor.shape) for part, tensor in zip(flat.split(sizes), tensors))


def _take_tensors(tensors, size_limit):
    """Yields lists of tensors of one kind, in order and each of so many bytes at the most, or of one tensor."""
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
    """The state of an object: by its own method, or attribute by attribute (a dict, and slots beside it)."""
    from rushlight import Tensor

    if hasattr(obj, "__setstate__") and not isinstance(obj, Tensor):
        obj.__setstate__(state)
        return obj
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for part in (attributes, slots):
        for name, value in (part or {}).items():
            setattr(obj, name, value)
    return obj
