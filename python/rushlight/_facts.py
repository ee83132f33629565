"""Questions about dtypes, objects and settings: functions of `torch` that compute nothing."""

import rushlight as torch
from rushlight import _C


def typename(obj):
    """The name of an object's type as torch's messages write it: ``torch.FloatTensor``, ``int``."""
    from rushlight.nn._text import typename

    return typename(obj)


def is_floating_point(input):
    """Whether the elements are floating-point numbers."""
    return input.is_floating_point()


def is_complex(input):
    """Whether the elements are complex numbers."""
    return input.is_complex()


def is_signed(input):
    """Whether the elements may be negative."""
    return input.is_signed()


def is_conj(input):
    """Always false: conjugates are computed at once."""
    return input.is_conj()


def is_neg(input):
    """Always false: negatives are computed at once."""
    return input.is_neg()


def resolve_conj(input):
    """The tensor itself: conjugates are computed at once."""
    return input


def resolve_neg(input):
    """The tensor itself: negatives are computed at once."""
    return input


def is_inference(input):
    """Whether a tensor was made in inference mode."""
    return input.is_inference()


def is_nonzero(input):
    """The truth of the one element."""
    return bool(input)


def is_same_size(input, other):
    """Whether both tensors have the same sizes."""
    return input.is_same_size(other)


def is_storage(obj):
    """Whether an object is a storage."""
    return isinstance(obj, _C.UntypedStorage)


def numel(input):
    """The number of elements.

    >>> torch.numel(torch.zeros(2, 3))
    6
    """
    return input.numel()


def get_device(input):
    """The number of the card, or -1 on the host."""
    return input.get_device()


def detach(input):
    """The same elements without history."""
    return input.detach()


def can_cast(from_, to):
    """Whether values of one dtype may be written into tensors of another.

    >>> torch.can_cast(torch.float32, torch.int32)
    False
    """
    return _C._can_cast(from_, to)


def promote_types(type1, type2):
    """The smallest dtype that holds both.

    >>> torch.promote_types(torch.int8, torch.uint8)
    torch.int16
    """
    return _C._promote_types(type1, type2)


def result_type(tensor1, tensor2):
    """The dtype in which two operands meet.

    >>> torch.result_type(torch.tensor([1]), 1.5)
    torch.float32
    """
    return _C._result_type(tensor1, tensor2)


def broadcast_shapes(*shapes):
    """The shape in which tensors of these shapes meet.

    >>> torch.broadcast_shapes((2,), (3, 1))
    torch.Size([3, 2])
    """
    shapes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    meeting = torch.empty((), device="meta")
    for shape in shapes:
        meeting = meeting + torch.empty(shape, device="meta")
    return meeting.shape


def broadcast_tensors(*tensors):
    """Views of the tensors in the one shape in which they meet.

    >>> torch.broadcast_tensors(torch.arange(2), torch.zeros(1))
    (tensor([0, 1]), tensor([0., 0.]))
    """
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        (tensors,) = tensors
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(tensor.expand(shape) for tensor in tensors)


def _chosen(values, places, counts, return_inverse, return_counts):
    """The results that were asked for."""
    results = (values, *([places] if return_inverse else []), *([counts] if return_counts else []))
    return results if len(results) > 1 else values


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements in order, or the different slices along ``dim``; on request where each went, and how often each occurs.

    >>> torch.unique(torch.tensor([3, 1, 1]))
    tensor([1, 3])
    """
    if dim is None:
        found = _C._unique2(input, sorted, return_inverse, return_counts)
    else:
        found = _C._unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _chosen(*found, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements (or the slices along ``dim``) without those that equal the one before.

    >>> torch.unique_consecutive(torch.tensor([3, 1, 1, 3]))
    tensor([3, 1, 3])
    """
    found = _C._unique_consecutive(input, return_inverse, return_counts, dim)
    return _chosen(*found, return_inverse, return_counts)


def get_default_device():
    """The device on which new tensors are made."""
    return torch.device("cpu")


def set_default_device(device):
    """Only the host can be the default."""
    if device is not None and torch.device(device).type != "cpu":
        raise NotImplementedError(f"new tensors cannot be made on {device} by default; say device= where they are made")


def get_num_interop_threads():
    """The number of operators that run at once on behalf of one call."""
    return 1


def set_num_interop_threads(num):
    """Nothing to set: one operator runs at a time."""
    if num <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


_strict = {"deterministic": False, "warn_only": False, "matmul": "highest", "warn_always": False}


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Nothing changes: results are the same bits from run to run and for any number of threads."""
    _strict.update(deterministic=bool(mode), warn_only=bool(warn_only))


def are_deterministic_algorithms_enabled():
    """Whether `use_deterministic_algorithms` was asked for."""
    return _strict["deterministic"]


def is_deterministic_algorithms_warn_only_enabled():
    """Whether `use_deterministic_algorithms` was asked to warn only."""
    return _strict["warn_only"]


def get_float32_matmul_precision():
    """The precision of matrix products of float32."""
    return _strict["matmul"]


def set_float32_matmul_precision(precision):
    """On the host products of float32 are always full float32."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"{precision} is not a valid precision: 'highest', 'high' or 'medium'")
    _strict["matmul"] = precision


def set_flush_denormal(mode):
    """Not supported: denormal numbers are kept."""
    return False


def set_warn_always(b, /):
    """Whether warnings that appear once appear every time."""
    _strict["warn_always"] = bool(b)


def is_warn_always_enabled():
    """What `set_warn_always` was told."""
    return _strict["warn_always"]


def compiled_with_cxx11_abi():
    """Always true."""
    return True


__all__ = [name for name, value in globals().items() if getattr(value, "__module__", None) == __name__]
