"""Methods of `Tensor` for sparse tensors."""

import rushlight
from rushlight._compiled import compiled
from rushlight._loading import load
from rushlight._tensor import _method


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
