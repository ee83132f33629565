"""Methods of `Tensor` that name its memory, or keep it for a stream."""

import rushlight
from rushlight._loading import load
from rushlight._tensor import _method


@_method
def const_data_ptr(self):
    """`data_ptr`, for reading.

    >>> x = torch.ones(1)
    >>> x.const_data_ptr() == x.data_ptr()
    True
    """
    return self.data_ptr()


@_method
def storage_type(self):
    """The class of the typed storage of this tensor.

    >>> torch.ones(1).storage_type().__name__
    'FloatStorage'
    """
    return getattr(rushlight, load("rushlight.storage").TypedStorage(0, dtype=self.dtype).pickle_storage_type())


@_method
def record_stream(self, stream):
    """Keeps the memory of a tensor on a GPU until the work enqueued on ``stream`` so far has run, even if the tensor is deleted."""
    if not self.is_cuda:
        backend = "Meta" if self.is_meta else "CPU"
        raise NotImplementedError(
            f"Could not run 'aten::record_stream' with arguments from the '{backend}' backend.\n"
            "  Only tensors on a GPU belong to streams."
        )
    rushlight._C._cuda_record_stream(self, stream._stream)
