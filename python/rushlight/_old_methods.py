"""Methods of `Tensor` that only old programs use."""

from rushlight._loading import load
from rushlight._tensor import _method
from rushlight._warnings import warn


@_method
def eig(self, eigenvectors=False):
    """Removed in favour of `torch.linalg.eig`."""
    return load("rushlight._removed_functions").eig(self, eigenvectors)


@_method
def symeig(self, eigenvectors=False):
    """Removed in favour of `torch.linalg.eigh`."""
    return load("rushlight._removed_functions").symeig(self, eigenvectors)


@_method
def lstsq(self, other):
    """Removed in favour of `torch.linalg.lstsq`."""
    return load("rushlight._removed_functions").lstsq(self, other)


@_method
def solve(self, other):
    """Removed in favour of `torch.linalg.solve`."""
    return load("rushlight._removed_functions").solve(self, other)


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
