"""Methods of `Tensor` that name its memory, tell its order, or keep it for a stream."""

import operator

import rushlight
from rushlight._loading import load
from rushlight._tensor import _method
from rushlight._text import kind_of


@_method
def const_data_ptr(self):
    """`data_ptr`, for reading.

    >>> x = torch.ones(1)
    >>> x.const_data_ptr() == x.data_ptr()
    True
    """
    return self.data_ptr()


@_method
def dim_order(self, *, ambiguity_check=False):
    """The dimensions, from the largest stride to the smallest.

    With ``ambiguity_check`` an order that the strides leave open is an error, unless the tensor has exactly one of the
    memory formats that are given as a list.

    >>> torch.ones(2, 3).t().dim_order()
    (1, 0)
    """
    formats = [] if isinstance(ambiguity_check, bool) else ambiguity_check
    if not isinstance(formats, list) or not all(isinstance(one, rushlight.memory_format) for one in formats):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    strides = self.stride()
    if ambiguity_check is not False:
        is_open = 1 in self.shape or any(map(operator.eq, strides, strides[1:]))
        if is_open and sum(self.is_contiguous(memory_format=one) for one in formats) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
            )
    # Strides of dimensions of size one do not matter where exactly one memory format says the order.
    last = self.is_contiguous(memory_format=rushlight.channels_last)
    if self.is_contiguous() and not last:
        return tuple(range(self.dim()))
    if not self.is_contiguous() and (last or self.is_contiguous(memory_format=rushlight.channels_last_3d)):
        return (0, *range(2, self.dim()), 1)
    if ambiguity_check is not False and self.dim() > 1 and (len(set(strides)) < self.dim() or 0 in strides):
        raise RuntimeError("The tensor does not have unique dim order.")
    return _memory_order(self.shape, strides)


def _memory_order(shape, strides):
    """The dimensions, from the largest stride to the smallest. One of stride 0 changes its place only with others."""
    order = []  # the smallest stride first
    for dim in reversed(range(len(shape))):
        order.append(dim)
        at = len(order) - 1
        for below in reversed(range(at)):
            other = order[below]
            if strides[dim] == 0 or strides[other] == 0:
                continue
            if strides[other] < strides[dim]:
                break
            if strides[other] > strides[dim] or shape[other] > shape[dim]:
                order[below], order[at] = dim, other
                at = below
    return tuple(reversed(order))


@_method
def storage_type(self):
    """The class of the typed storage of this tensor.

    >>> torch.ones(1).storage_type().__name__
    'FloatStorage'
    """
    return getattr(rushlight, load("rushlight.storage").TypedStorage(0, dtype=self.dtype).pickle_storage_type())


@_method
def record_stream(self, stream):
    """Keeps the memory of a tensor on a GPU until the work enqueued on ``stream`` so far has run, even if the tensor is deleted.

    Raises:
        TypeError: ``stream`` is not a `torch.cuda.Stream`.
        NotImplementedError: the tensor is not on a GPU.
    """
    if not self.is_cuda:
        backend = "Meta" if self.is_meta else "CPU"
        raise NotImplementedError(
            f"Could not run 'aten::record_stream' with arguments from the '{backend}' backend.\n"
            "  Only tensors on a GPU belong to streams."
        )
    if not isinstance(stream, rushlight.cuda.Stream):
        raise TypeError(f"record_stream(): argument 's' must be torch.cuda.Stream, not {kind_of(stream)}")
    rushlight._C._cuda_record_stream(self, stream._stream)
