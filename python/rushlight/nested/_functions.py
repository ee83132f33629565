"""Internal functions of torch for nested tensors, which layers and libraries call: ``torch._nested_tensor_from_mask``."""

from __future__ import annotations

from rushlight import Tensor
from rushlight._compiled import compiled

from ._internal.nested_tensor import NestedTensor, nested_view_from_values_offsets_lengths, values_of
from ._strided.tensor import from_mask, is_left_aligned, pack, view_from_buffer
from ._strided.tensor import from_padded as _from_padded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


@compiled(overridable=False)
def _nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> Tensor:
    """A nested tensor of the layout `torch.strided`: of each row of a tensor, the elements where the mask is true."""
    return from_mask(t, mask, mask_check)


@compiled(overridable=False)
def _nested_tensor_from_mask_left_aligned(t: Tensor, mask: Tensor) -> bool:
    """Whether in each row of a mask no true element follows a false one."""
    return is_left_aligned(mask)


@compiled(overridable=False)
def _nested_from_padded(padded: Tensor, cpu_nested_shape_example: Tensor, fuse_transform_0213: bool = False) -> Tensor:
    """A nested tensor of the layout `torch.strided`: of each row of a tensor, the part of the given sizes.

    With ``fuse_transform_0213``, the second and third dimension of the tensor are exchanged and then joined with the last.
    """
    if fuse_transform_0213:
        padded = padded.transpose(1, 2).flatten(2)
    return _from_padded(padded, cpu_nested_shape_example)


@compiled(
    "Tensor[] list, ScalarType dtype=None, Layout layout=None, Device device=None, bool pin_memory=None",
    overridable=False,
)
def _nested_tensor_from_tensor_list(
    list: Sequence[Tensor], dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Tensor:
    """A nested tensor of the layout `torch.strided`, of copies of the samples with their history."""
    return pack(list, dtype, device)


@compiled(overridable=False)
def _nested_view_from_buffer(input: Tensor, nested_size: Tensor, nested_strides: Tensor, offsets: Tensor) -> Tensor:
    """A nested tensor of the layout `torch.strided` that shares its buffer."""
    return view_from_buffer(input, nested_size, nested_strides, offsets)


@compiled(overridable=False)
def _nested_view_from_jagged(
    input: Tensor,
    offsets: Tensor,
    dummy: Tensor | None,
    lengths: Tensor | None = None,
    ragged_idx: int = 1,
    min_seqlen: Tensor | None = None,
    max_seqlen: Tensor | None = None,
) -> Tensor:
    """A nested tensor of the layout `torch.jagged` that shares its values."""
    return nested_view_from_values_offsets_lengths(input, offsets, lengths, ragged_idx)


def _jagged(name: str, input: Any) -> NestedTensor:
    if not isinstance(input, NestedTensor):
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend. This could be because the operator doesn't exist "
            "for this backend, or was omitted during the selective/custom build process (if using custom build)."
        )
    return input


@compiled(overridable=False)
def _nested_get_values(input: Tensor) -> Tensor:
    """The values of a jagged tensor."""
    return values_of(_jagged("_nested_get_values", input))


@compiled(overridable=False)
def _nested_get_offsets(input: Tensor) -> Tensor:
    """The offsets of a jagged tensor."""
    return _jagged("_nested_get_offsets", input)._ragged.offsets


@compiled(overridable=False)
def _nested_get_lengths(input: Tensor) -> Tensor | None:
    """The lengths of a jagged tensor whose samples do not touch."""
    return _jagged("_nested_get_lengths", input)._ragged.lengths


@compiled(overridable=False)
def _nested_get_ragged_idx(input: Tensor) -> int:
    """The dimension of a jagged tensor that is jagged."""
    return _jagged("_nested_get_ragged_idx", input)._ragged_idx


@compiled(overridable=False)
def _nested_get_min_seqlen(input: Tensor) -> Tensor:
    """The smallest length of a jagged tensor, as the size of a tensor without elements."""
    made: Tensor = input.new_tensor([]).new_empty(_jagged("_nested_get_min_seqlen", input)._ragged.bounds[0], 0)
    return made


@compiled(overridable=False)
def _nested_get_max_seqlen(input: Tensor) -> Tensor:
    """The largest length of a jagged tensor, as the size of a tensor without elements."""
    made: Tensor = input.new_tensor([]).new_empty(_jagged("_nested_get_max_seqlen", input)._ragged.bounds[1], 0)
    return made
