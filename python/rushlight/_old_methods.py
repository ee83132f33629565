"""Methods of `Tensor` that only old programs use, and those that ask about devices and forms that rushlight does not have."""

import rushlight
from rushlight._C import Tensor
from rushlight._compiled import compiled
from rushlight._loading import load
from rushlight._tensor import _method, _number, _without_gradient
from rushlight._warnings import warn


@_method
def eig(self, eigenvectors=False):
    """Removed in favour of `torch.linalg.eig`."""
    return load("rushlight._removed").eig(self, eigenvectors)


@_method
def symeig(self, eigenvectors=False):
    """Removed in favour of `torch.linalg.eigh`."""
    return load("rushlight._removed").symeig(self, eigenvectors)


@_method
def lstsq(self, other):
    """Removed in favour of `torch.linalg.lstsq`."""
    return load("rushlight._removed").lstsq(self, other)


@_method
def solve(self, other):
    """Removed in favour of `torch.linalg.solve`."""
    return load("rushlight._removed").solve(self, other)


@_method
def resize(self, *sizes):
    """Deprecated name of `reshape` for the same number of elements.

    >>> torch.arange(4).resize(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    warn("non-inplace resize is deprecated")
    return _resized(self, sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes)


@_method
def resize_as(self, tensor):
    """Deprecated name of `reshape_as`.

    >>> torch.arange(4).resize_as(torch.ones(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    warn("non-inplace resize_as is deprecated")
    return _resized(self, tensor.shape)


def _resized(tensor, sizes):
    sizes = tuple(sizes)
    count = 1
    for size in sizes:
        count *= size
    if count != tensor.numel():
        wanted, here = ("x".join(map(str, shape)) for shape in (sizes, tensor.shape))
        raise RuntimeError(
            f"requested resize to {wanted} ({count} elements in total), but the given tensor has a size of {here} "
            f"({tensor.numel()} elements). autograd's resize can only change the shape of a given tensor, while preserving "
            "the number of elements. "
        )
    return tensor.contiguous().view(sizes)


@_method
def map2_(self, x, y, callable):
    """Replaces each element by ``callable(element, first, second)``, in place, with the elements of ``x`` and ``y``.

    >>> torch.tensor([1.0, 4.0]).map2_(torch.tensor([2.0, 3.0]), torch.tensor([3.0, 3.0]), max)
    tensor([3., 4.])
    """
    for place, (name, other) in enumerate((("x", x), ("y", y)), 1):
        load("rushlight._text").must_be_tensor("map2_", name, place, other)
    _without_gradient(self, "map2_")
    for name, other in (("x", x), ("y", y)):
        if other.type() != self.type():
            raise TypeError(f"map2_: expected {self.type()} for argument '{name}' (got {other.type()})")
    own, first, second = (one.detach().expand_as(self).reshape(-1).tolist() for one in (self, x, y))
    values = [_number(callable(*numbers)) for numbers in zip(own, first, second)]
    with rushlight.no_grad():
        return self.copy_(rushlight.tensor(values, dtype=self.dtype).reshape(self.shape))


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
def to_sparse_coo(self):
    """`to_sparse`.

    >>> torch.eye(2).to_sparse_coo().is_sparse
    True
    """
    return self.to_sparse()


@_method
@compiled("Tensor mat2", is_method=True, overridable=False)
def smm(self, mat2):
    """`torch.smm`.

    >>> torch.eye(2).to_sparse().smm(torch.ones(2, 1)).to_dense()
    tensor([[1.],
            [1.]])
    """
    return load("rushlight.sparse").smm(self, mat2)


@_method
@compiled("Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1", is_method=True, overridable=False)
def sspaddmm(self, mat1, mat2, *, beta=1, alpha=1):
    """`torch.sspaddmm`.

    >>> eye = torch.eye(2).to_sparse()
    >>> eye.sspaddmm(eye, torch.eye(2)).to_dense()
    tensor([[2., 0.],
            [0., 2.]])
    """
    return load("rushlight.sparse").sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)


@_method
def is_distributed(self):
    """Whether the elements are on several machines: always False.

    >>> torch.ones(1).is_distributed()
    False
    """
    return False


def _flag(name, device):
    def flag(self):
        return False

    flag.__doc__ = f"Whether the tensor is on a device of type {device!r}: always False."
    setattr(Tensor, name, property(flag))


for _device in ("ipu", "maia", "mtia", "vulkan", "xla"):
    _flag(f"is_{_device}", _device)


def _without_device(name, error):
    def move(self, device=None, non_blocking=False, memory_format=None):
        raise error

    move.__name__ = name
    move.__doc__ = f"Refuses every call, because there is no device of type {name!r}."
    _method(move)


_without_device("ipu", RuntimeError("PyTorch is not linked with support for ipu devices"))
_without_device("xpu", AssertionError("Torch not compiled with XPU enabled"))
_without_device("mtia", AssertionError("Torch not compiled with MTIA enabled."))


def _unavailable(name, because):
    def method(self, *args, **kwargs):
        backend = "Meta" if self.is_meta else "CPU"
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the '{backend}' backend.\n  {because}"
        )

    method.__name__ = name
    method.__doc__ = f"Refuses every call: {because[0].lower()}{because[1:]}"
    _method(method)


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


_unavailable("to_mkldnn", "Rushlight has no tensors in oneDNN's layout; its operators choose their layout themselves.")


@_method
@compiled("Tensor src, int dim=0, int? start=None, int? end=None, int step=1", is_method=True, overridable=False)
def slice_inverse(self, src, dim=0, start=None, end=None, step=1):
    """`torch.slice_inverse`.

    >>> whole = torch.arange(4)
    >>> whole[1:3].slice_inverse(whole, 0, 1, 3)
    tensor([0, 1, 2, 3])
    """
    return load("rushlight._native").slice_inverse(self, src, dim, start, end, step)


def _resized_sparse(name, self, size, sparse_dim, dense_dim, is_cleared):
    """Changes the sizes of a sparse tensor in place, and removes its elements or keeps them where they are."""
    if not self.is_sparse:
        backend = "SparseCsrCPU" if self.layout is not rushlight.strided else "CPU"
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the '{backend}' backend.\n"
            "  Only tensors of layout torch.sparse_coo have these sizes."
        )
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    if self.requires_grad and self.is_leaf and rushlight.is_grad_enabled():
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    indices, values = self._indices(), self._values()
    split = self.sparse_dim()
    parts = {"sparse": (split, sparse_dim), "dense": (self.dense_dim(), dense_dim)}
    if not is_cleared and values.shape[0]:
        for kind, (old, new) in parts.items():
            if old != new:
                raise RuntimeError(
                    f"changing the number of {kind} dimensions (from {old} to {new}) on a non-empty sparse tensor is not supported."
                )
        for kind, part in (("sparse", slice(split)), ("dense", slice(split, None))):
            old, new = list(self.shape[part]), list(size[part])
            if any(after < before for before, after in zip(old, new)):
                raise RuntimeError(
                    f"shrinking the size of {kind} dimensions (from {old} to {new}) on a non-empty sparse tensor is not supported."
                )
        # Blocks that grow keep their elements; the others are zeros, where torch leaves them as they are.
        whole = values.new_zeros((values.shape[0], *size[split:]))
        whole[tuple(slice(length) for length in values.shape)] = values.detach()
    else:
        indices = indices.new_empty((sparse_dim, 0))
        whole = values.new_empty((0, *size[sparse_dim:]))
    with rushlight.no_grad():
        self.data = rushlight.sparse_coo_tensor(indices, whole, size, is_coalesced=is_cleared or self.is_coalesced())
    load("rushlight.autograd.graph").increment_version(self)
    return self


@_method
@compiled("int[] size, int sparse_dim, int dense_dim", is_method=True, overridable=False)
def sparse_resize_(self, size, sparse_dim, dense_dim):
    """Changes the sizes of a sparse tensor, whose elements stay where they are.

    Sizes that some dimensions lose are refused, and other numbers of dimensions, except if the tensor has no elements.

    >>> torch.eye(2).to_sparse().sparse_resize_((2, 3), 2, 0).to_dense()
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    return _resized_sparse("sparse_resize_", self, size, sparse_dim, dense_dim, False)


@_method
@compiled("Tensor the_template", is_method=True, overridable=False)
def resize_as_sparse_(self, the_template):
    """Changes the sizes of a sparse tensor to those of another one. Its elements stay where they are, as in `sparse_resize_`.

    >>> torch.eye(2).to_sparse().resize_as_sparse_(torch.ones(2, 3).to_sparse()).shape
    torch.Size([2, 3])
    """
    if not self.is_sparse and self.layout is rushlight.strided:
        raise RuntimeError("self.is_sparse() INTERNAL ASSERT FAILED: not a sparse tensor")
    if not self.is_sparse or (not the_template.is_sparse and the_template.layout is not rushlight.strided):
        for place, one in (("src", the_template), ("self", self)):
            if one.is_sparse or one.layout is rushlight.strided:
                kind = "Sparse" if one.is_sparse else "Strided"
                raise RuntimeError(
                    f"resize_as_sparse_compressed_: {place}  expected sparse compressed tensor layout but got {kind}"
                )
        raise NotImplementedError("resize_as_sparse_: tensors of compressed layouts keep their sizes")
    sparse, dense = (
        (the_template.sparse_dim(), the_template.dense_dim()) if the_template.is_sparse else (0, the_template.dim())
    )
    return _resized_sparse("resize_as_sparse_", self, tuple(the_template.shape), sparse, dense, False)


@_method
@compiled("int[] size, int sparse_dim, int dense_dim", is_method=True, overridable=False)
def sparse_resize_and_clear_(self, size, sparse_dim, dense_dim):
    """Changes the sizes of a sparse tensor and removes its elements.

    >>> torch.eye(2).to_sparse().sparse_resize_and_clear_((2, 3), 1, 1)._values().shape
    torch.Size([0, 3])
    """
    return _resized_sparse("sparse_resize_and_clear_", self, size, sparse_dim, dense_dim, True)
