"""Functions that make masked tensors."""

from __future__ import annotations

from rushlight import Tensor

from .core import MaskedTensor, copied

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor, a leaf of the graph.

    Args:
        data: the elements, of a real dtype or bool.
        mask: a bool tensor of the same shape, true where an element is valid.
        requires_grad: whether gradients are computed with respect to it.

    Raises:
        TypeError: an argument is not a tensor, or has a dtype that is not supported.
        ValueError: the shapes differ.

    >>> torch.masked.masked_tensor(torch.tensor([1.0, 2.0]), torch.tensor([True, False])).sum()
    MaskedTensor(  1.0000, True)
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A masked tensor of data with its history: gradients flow back to the data.

    Raises:
        TypeError: as in `masked_tensor`.
        ValueError: the shapes differ.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> torch.masked.as_masked_tensor(x, torch.tensor([True, False])).sum().backward()
    >>> x.grad
    tensor([1., 0.])
    """
    return copied(data, mask)
