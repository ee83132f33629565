"""`torch.nested`: tensors whose samples have different sizes.

Two layouts exist. `torch.strided` holds samples of any sizes and supports few functions. `torch.jagged` holds samples
that differ in one dimension, and supports most. `unbind` returns the samples, `to_padded_tensor` a plain tensor.

>>> pair = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 3)], layout=torch.jagged)
>>> (pair + 1).unbind()[1]
tensor([[1., 1., 1.]])
"""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor
from rushlight._compiled import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | str | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A nested tensor of copies of the samples, a leaf of the graph.

    Args:
        tensor_list: a list of tensors, or of nested lists of numbers.
        dtype, device: those of the result; by default of the first sample.
        layout: `torch.strided`, which is the default, or `torch.jagged`.
        requires_grad: whether gradients are computed with respect to it.
        pin_memory: ignored, because memory is not pinned.

    Raises:
        TypeError: the argument is not a list.
        RuntimeError: the samples do not fit in the layout.

    >>> torch.nested.nested_tensor([[1, 2], [3]])
    nested_tensor([
      tensor([1, 2]),
      tensor([3])
    ])
    """
    if layout is None or layout is torch.strided:
        from ._strided.tensor import nested_tensor_of_list

        return nested_tensor_of_list(tensor_list, dtype, device, requires_grad)
    _check_layout(layout)
    from ._internal.nested_tensor import jagged_from_list

    samples = tensor_list.unbind() if isinstance(tensor_list, Tensor) else tensor_list
    samples = [one.detach() if isinstance(one, Tensor) else torch.as_tensor(one) for one in samples]
    made, _ = jagged_from_list(samples, None, dtype, device)
    return made.requires_grad_() if requires_grad else made


def as_nested_tensor(
    ts: Tensor | Sequence[Tensor],
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    layout: torch.layout | None = None,
) -> Tensor:
    """A nested tensor of the samples, with their history: gradients flow back to them.

    Args:
        ts: a list or tuple of tensors, or a tensor, whose first dimension counts the samples.
        dtype, device: those of the result; by default of the first sample.
        layout: `torch.strided`, which is the default, or `torch.jagged`.

    Raises:
        TypeError: the argument is neither.
        RuntimeError: the samples do not fit in the layout.

    >>> x = torch.ones(2, requires_grad=True)
    >>> torch.nested.as_nested_tensor([x, x]).to_padded_tensor(0).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    if not isinstance(ts, Tensor) and not (
        isinstance(ts, (list, tuple)) and all(isinstance(one, Tensor) for one in ts)
    ):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ")
    if isinstance(ts, tuple):
        ts = list(ts)
    if isinstance(ts, Tensor) and ts.dim() < 2:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
    if isinstance(ts, Tensor) and ts.is_nested:
        if layout == ts.layout:
            return ts.to(device=device, dtype=dtype)
        raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
    samples = list(ts.unbind()) if isinstance(ts, Tensor) else ts
    if layout is None or layout is torch.strided:
        from ._strided.tensor import pack

        return pack(samples, dtype, device)
    _check_layout(layout)
    from ._internal.nested_tensor import jagged_from_list, nested_view_from_values_offsets

    if isinstance(ts, Tensor):
        batch, size = ts.shape[:2]
        offsets = torch.arange(0, batch * size + 1, size, device=device or ts.device)
        return nested_view_from_values_offsets(
            ts.flatten(0, 1).to(device=device, dtype=dtype), offsets, min_seqlen=size, max_seqlen=size
        )
    return jagged_from_list(samples, None, dtype, device)[0]


def __dir__() -> list[str]:
    return __all__


def _check_layout(layout: Any) -> None:
    if layout is not torch.jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """A jagged tensor of values and offsets, which it shares: gradients flow back to the values.

    Args:
        values: the samples, one after the other along one dimension.
        offsets: where the samples begin in that dimension, and the end of the last one.
        lengths: the lengths of the samples, if there are values between them. Without offsets, they touch.
        jagged_dim: the dimension of the result that is jagged, 1 by default.
        min_seqlen, max_seqlen: the smallest and the largest length, if known; they are then not computed.

    Raises:
        RuntimeError: neither offsets nor lengths are given.
        ValueError: ``jagged_dim`` is less than 1.

    >>> pair = torch.nested.nested_tensor_from_jagged(torch.arange(5), torch.tensor([0, 2, 5]))
    >>> pair.unbind()
    (tensor([0, 1]), tensor([2, 3, 4]))
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        lengths = None
    ragged = 1 if jagged_dim is None else jagged_dim
    if ragged < 1:
        raise ValueError(f"Expected jagged_dim >=1, but got {ragged}.")
    from ._internal.nested_tensor import nested_view_from_values_offsets_lengths

    return nested_view_from_values_offsets_lengths(values, offsets, lengths, ragged, min_seqlen, max_seqlen)


@compiled(name="nested_to_padded_tensor")
def to_padded_tensor(input: Tensor, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    """The samples stacked in a plain tensor, with ``padding`` behind those that are smaller.

    Args:
        input: a nested tensor.
        padding: the value behind the samples.
        output_size: the size of the result; by default the smallest that holds all samples.

    Raises:
        RuntimeError: a sample is larger than ``output_size``.

    >>> torch.nested.to_padded_tensor(torch.nested.nested_tensor([[1, 2], [3]]), 0)
    tensor([[1, 2],
            [3, 0]])
    """
    return input.to_padded_tensor(padding, output_size)


def narrow(
    tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor, layout: torch.layout = torch.strided
) -> Tensor:
    """A view of a part of a tensor, which for the layout `torch.jagged` may be another part of each sample.

    Args:
        tensor: a plain tensor, or a nested one of the layout `torch.strided`.
        dim: the dimension of which a part is taken, 1 for the layout `torch.jagged`.
        start: where the parts begin: a number, or for the layout `torch.jagged` a tensor with one for each sample.
        length: how long they are, likewise.
        layout: the layout of the result.

    Raises:
        RuntimeError: the layout does not allow these arguments, or a part reaches beyond its sample.

    >>> part = torch.nested.narrow(torch.arange(6).view(2, 3), 1, 0, torch.tensor([1, 3]), layout=torch.jagged)
    >>> part.unbind()
    (tensor([0]), tensor([3, 4, 5]))
    """
    if not isinstance(start, (int, Tensor)):
        raise RuntimeError("start must be an integer or a tensor")
    if not isinstance(length, (int, Tensor)):
        raise RuntimeError("length must be an integer or a tensor")
    if layout is torch.strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(torch.unbind(tensor), layout=torch.strided).narrow(dim, start, length)
    if layout is not torch.jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    from ._internal.nested_tensor import jagged_from_tensor_and_lengths

    return jagged_from_tensor_and_lengths(tensor, torch.as_tensor(start), torch.as_tensor(length))[0]


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """A jagged tensor of the elements where a mask is true, row by row of the last dimension.

    Raises:
        RuntimeError: the tensor is not strided, or the mask not boolean.

    >>> kept = torch.tensor([[True, False], [True, True]])
    >>> torch.nested.masked_select(torch.tensor([[1, 2], [3, 4]]), kept).unbind()
    (tensor([1]), tensor([3, 4]))
    """
    if tensor.layout is not torch.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}")
    if mask.layout is not torch.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided mask, given: {mask.layout}")
    values = tensor.masked_select(mask)
    kept = mask.expand(tensor.shape)
    counts = kept.sum(-1).flatten() if tensor.dim() > 1 else kept.sum().reshape(1)
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return nested_tensor_from_jagged(values, offsets)
