"""Private functions of torch that libraries call for shapes, and the old name of a memory format."""

from __future__ import annotations

import rushlight as torch
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor

__all__ = ["_nested_compute_contiguous_strides_offsets", "_shape_as_tensor", "legacy_contiguous_format"]

legacy_contiguous_format = torch.contiguous_format


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The shape of a tensor, as a tensor of int64.

    >>> torch._shape_as_tensor(torch.ones(2, 3))
    tensor([2, 3])
    """
    return torch.tensor(tuple(self.shape), dtype=torch.int64)


def _nested_compute_contiguous_strides_offsets(nested_size: Tensor) -> tuple[Tensor, Tensor]:
    """The strides of tensors that lie one behind the other, and where each begins.

    Args:
        nested_size: a row for each tensor with its sizes.

    >>> strides, offsets = torch._nested_compute_contiguous_strides_offsets(torch.tensor([[2, 3], [4, 5]]))
    >>> strides.tolist(), offsets.tolist()
    ([[3, 1], [5, 1]], [0, 6])
    """
    counts = nested_size.flip(1).cumprod(1)
    strides = torch.cat([torch.ones_like(counts[:, :1]), counts[:, :-1]], 1).flip(1)
    return strides, counts[:, -1].cumsum(0) - counts[:, -1]


set_module("rushlight", _nested_compute_contiguous_strides_offsets, _shape_as_tensor)
