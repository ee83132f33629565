"""Shapes and parts of jagged tensors: views, joined tensors, and the samples one by one."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor

from .nested_int import NestedInt
from .nested_tensor import (
    NestedTensor,
    Raggedness,
    like,
    padded,
    part_of,
    parts_of,
    size_of,
    values_of,
    wrap,
)
from .registry import answers, dimension, inner, must_be_plain, nested_among, same_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@answers("unbind")
def _unbind(func: Any, input: NestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    if dimension(input, dim) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    return tuple(parts_of(input))


@answers("__iter__")
def _iter(func: Any, input: NestedTensor) -> Any:
    return iter(parts_of(input))


@answers("to_padded_tensor", "nested_to_padded_tensor")
def _to_padded(func: Any, input: NestedTensor, padding: float, output_size: Any = None) -> Tensor:
    if output_size is not None:
        return padded(input, padding, output_size[input._ragged_idx])
    longest = input._ragged.known_longest
    return padded(input, padding, values_of(input).shape[input._ragged_idx - 1] if longest is None else longest)


@answers("masked_select")
def _masked_select(func: Any, input: NestedTensor, mask: Tensor) -> NestedTensor:
    if not isinstance(mask, NestedTensor) or not same_parts(input, mask) or input.dim() != 2 or mask.dim() != 2:
        raise RuntimeError(f"Mask with shape {mask.shape} is not compatible with input's shape {input.shape}")
    kept = values_of(mask)
    before = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.cumsum(0)])
    return wrap(values_of(input)[kept], Raggedness(before[input._ragged.offsets]))


@answers("select")
def _select(func: Any, input: NestedTensor, dim: int, index: int) -> Tensor:
    place = dimension(input, dim)
    if place == 0:
        if not -len(input._ragged) <= index < len(input._ragged):
            raise IndexError("tuple index out of range")
        return part_of(input, index)
    along = inner(input, place, "select")
    if input._ragged.lengths is not None:
        raise ValueError("select(): not yet supported on dim != 0 for non-contiguous nested tensor with holes")
    return like(values_of(input).select(along, index), input, input._ragged_idx - (place < input._ragged_idx))


@answers("__getitem__")
def _item(func: Any, input: NestedTensor, index: Any) -> Tensor:
    items = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(one, Tensor) or isinstance(one, list) for one in items):
        raise NotImplementedError("aten.index.Tensor")
    taken = sum(one is not None and one is not Ellipsis for one in items)
    made: Tensor = input
    place = 0
    while items:
        one = items.pop(0)
        if not isinstance(made, NestedTensor):
            return made[(slice(None),) * place + (one, *items)]
        if one is Ellipsis:
            place += input.dim() - taken
        elif one is None:
            made = made.unsqueeze(place)
            place += 1
        elif isinstance(one, slice):
            made = _sliced(made, place, one)
            place += 1
        else:
            made = made.select(place, one)
    return made


def _sliced(input: NestedTensor, place: int, part: slice) -> NestedTensor:
    must_be_plain(input, "slice_tensor(self: jt, dim: any?, start: any?, end: any?, step: any?)")
    along = inner(input, place, "slice")
    return like(values_of(input)[(slice(None),) * along + (part,)], input)


@answers("__setitem__")
def _set_item(func: Any, input: NestedTensor, index: Any, value: Any) -> None:
    first = index[0] if isinstance(index, tuple) else index
    if not isinstance(first, int):
        raise NotImplementedError("aten.index_put_.default")
    part = part_of(input, first)
    rest = index[1:] if isinstance(index, tuple) else ()
    part[rest or ...] = value


@answers("narrow")
def _narrow(func: Any, input: NestedTensor, dim: int, start: int, length: int) -> NestedTensor:
    must_be_plain(input, "narrow(self: jt, dim: any, start: any, length: any)")
    return like(func(values_of(input), inner(input, dim, "narrow"), start, length), input)


@answers("split", "split_with_sizes")
def _split(func: Any, input: NestedTensor, split_size: Any, dim: int = 0) -> tuple[NestedTensor, ...]:
    name = "split" if isinstance(split_size, int) else "split_with_sizes"
    form = "split_tensor(self: jt, split_size" if name == "split" else "split_with_sizes_default(self: jt, split_sizes"
    must_be_plain(input, f"{form}: any, dim: any?)")
    parts = func(values_of(input), split_size, inner(input, dim, name))
    return tuple(like(one, input) for one in parts)


@answers("chunk")
def _chunk(func: Any, input: NestedTensor, chunks: int, dim: int = 0) -> tuple[NestedTensor, ...]:
    must_be_plain(input, "chunk_default(self: jt, chunks: any, dim: any?)")
    if dimension(input, dim) != 0:
        return tuple(like(one, input) for one in func(values_of(input), chunks, inner(input, dim, "chunk")))
    count = len(input._ragged)
    step = -(-count // chunks)
    offsets, values, along = input._ragged.offsets, values_of(input), input._ragged_idx - 1
    made = []
    for first in range(0, count, step):
        last = min(first + step, count)
        starts = offsets[first : last + 1]
        begin, end = int(starts[0]), int(starts[-1])
        made.append(wrap(values.narrow(along, begin, end - begin), Raggedness(starts - begin), along + 1))
    return tuple(made)


@answers("transpose", "swapaxes", "swapdims")
def _transpose(func: Any, input: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    first, second = dimension(input, dim0), dimension(input, dim1)
    if first == second:
        return like(values_of(input), input)
    if 0 in (first, second):
        if input._ragged_idx != 1:
            raise RuntimeError("transpose(): not supported for NestedTensor on dim=0")
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    ragged = {first: second, second: first}.get(input._ragged_idx, input._ragged_idx)
    return like(values_of(input).transpose(first - 1, second - 1), input, ragged)


@answers("mT", "mH")
def _matrix_transpose(func: Any, input: NestedTensor) -> NestedTensor:
    turned = _transpose(None, input, -2, -1)
    return like(values_of(turned).conj(), turned) if func.__self__.__name__ == "mH" else turned


@answers("T", "H", "t")
def _reversed_dimensions(func: Any, input: NestedTensor) -> NestedTensor:
    name = getattr(getattr(func, "__self__", None), "__name__", "t")
    if name == "H" and input.dim() != 2:
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {input.dim()}-D tensor. For batches of matrices, "
            "consider using tensor.mH"
        )
    if name == "t" and input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    raise ValueError(
        f"{'Permute' if name == 'T' else 'Transpose'} is not supported on the batch dimension for jagged NT"
    )


@answers("permute")
def _permute(func: Any, input: NestedTensor, *dims: Any) -> NestedTensor:
    order = list(dims[0]) if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else list(dims)
    if len(order) != input.dim():
        raise ValueError(
            f"permute(): number of dimensions in the tensor input ({input.dim()}) does not match the length of the desired "
            f"ordering of dimensions ({len(order)})."
        )
    order = [dimension(input, dim) for dim in order]
    if len(set(order)) != len(order):
        raise ValueError("permute(): duplicate dims are not allowed.")
    if order[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return like(values_of(input).permute([dim - 1 for dim in order[1:]]), input, order.index(input._ragged_idx))


@answers("unsqueeze")
def _unsqueeze(func: Any, input: NestedTensor, dim: int) -> NestedTensor:
    place = dimension(input, dim, more=1)
    if place == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return like(values_of(input).unsqueeze(place - 1), input, input._ragged_idx + (place <= input._ragged_idx))


@answers("squeeze")
def _squeeze(func: Any, input: NestedTensor, dim: Any = None) -> NestedTensor:
    if not isinstance(dim, int):
        raise NotImplementedError(f"aten.squeeze.{'default' if dim is None else 'dims'}")
    must_be_plain(input, "squeeze_dim(self: jt, dim: any)")
    place = dimension(input, dim)
    along = inner(input, place, "squeeze")
    values = values_of(input)
    gone = values.shape[along] == 1 and place < input._ragged_idx
    return like(values.squeeze(along), input, input._ragged_idx - gone)


def _inner_sizes(input: NestedTensor, sizes: Any) -> tuple[list[int], int] | None:
    """Sizes of the values for sizes of the tensor, and the place of the jagged dimension; None if they do not fit."""
    own = size_of(input)
    ragged = input._ragged_idx
    symbols = [place for place, size in enumerate(sizes) if isinstance(size, NestedInt)]
    if symbols:
        ragged = symbols[0]
    if len(sizes) <= ragged or len(symbols) > 1 or sizes[0] not in (own[0], -1):
        return None
    if sizes[ragged] != -1 and sizes[ragged] != input._ragged.size:
        return None
    inside = list(sizes[1:])
    inside[ragged - 1] = values_of(input).shape[input._ragged_idx - 1]
    return inside, ragged


def _sizes_of(sizes: tuple[Any, ...]) -> list[Any]:
    return list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else list(sizes)


@answers("view", "reshape", "_unsafe_view")
def _view(func: Any, input: NestedTensor, *sizes: Any, **kwargs: Any) -> NestedTensor:
    wanted = _sizes_of(sizes or tuple(kwargs.values()))
    if len(wanted) == 1 and isinstance(wanted[0], torch.dtype):
        raise NotImplementedError("aten.view.dtype")
    inside = _inner_sizes(input, wanted)
    if input._ragged_idx != 1 and tuple(wanted) != input._size:
        raise RuntimeError(
            f"view(): does not support ragged_idx != 1 except when inp._size == size. inp._size is ({input._size}) and size is "
            f"({wanted})"
        )
    if inside is None:
        raise RuntimeError(f"view(): cannot view shape {input._size} as {wanted}")
    function = Tensor.reshape if func.__name__ == "reshape" else Tensor.view
    return like(function(values_of(input), inside[0]), input, inside[1])


@answers("view_as", "reshape_as")
def _view_as(func: Any, input: NestedTensor, other: Tensor) -> Tensor:
    made: Tensor = getattr(input, func.__name__.removesuffix("_as"))(other.shape)
    return made


@answers("expand", "broadcast_to")
def _expand(func: Any, input: NestedTensor, *sizes: Any, **kwargs: Any) -> NestedTensor:
    wanted = _sizes_of(sizes or tuple(kwargs.values()))
    inside = _inner_sizes(input, wanted) if len(wanted) == input.dim() else None
    if inside is None or inside[1] != input._ragged_idx:
        raise RuntimeError(f"expand(): cannot expand shape {input._size} -> {wanted}")
    return like(values_of(input).expand(inside[0]), input)


@answers("expand_as")
def _expand_as(func: Any, input: Any, other: Any) -> Any:
    if isinstance(input, NestedTensor):
        return input.expand(other.shape)
    inside = values_of(other).shape
    return like(input.reshape(input.shape[-len(inside) :]).expand(inside), other)


@answers("flatten")
def _flatten(func: Any, input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    first, last = dimension(input, start_dim), dimension(input, end_dim)
    if first <= 0 <= last and last > 0:
        raise RuntimeError("flatten(): not supported for NestedTensor on dim=0")
    if first <= input._ragged_idx <= last and last > first:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    if first == last:
        return input
    made = values_of(input).flatten(first - 1, last - 1)
    return like(made, input, input._ragged_idx - (last - first if last < input._ragged_idx else 0))


@answers("unflatten")
def _unflatten(func: Any, input: NestedTensor, dim: int, sizes: Any) -> NestedTensor:
    place = dimension(input, dim)
    if place in (0, input._ragged_idx):
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {place} "
            f"({size_of(input)[place]}) in the input tensor"
        )
    made = values_of(input).unflatten(place - 1, sizes)
    return like(made, input, input._ragged_idx + (len(sizes) - 1 if place < input._ragged_idx else 0))


@answers("cat", "concat", "concatenate")
def _cat(func: Any, tensors: Any, dim: int = 0) -> NestedTensor:
    first = _first_of(tensors, "cat")
    return like(torch.cat(_plain(tensors), inner(first, dim, "cat")), first)


@answers("stack")
def _stack(func: Any, tensors: Any, dim: int = 0) -> NestedTensor:
    first = _first_of(tensors, "stack")
    place = dimension(first, dim, more=1)
    if place == 0:
        raise RuntimeError("stack(): not supported for NestedTensor on dim=0")
    if place == first._ragged_idx:
        raise RuntimeError("stack(): not supported for NestedTensor on ragged dim")
    return like(torch.stack(_plain(tensors), place - 1), first, first._ragged_idx + (place < first._ragged_idx))


def _first_of(tensors: Any, name: str) -> NestedTensor:
    first, *rest = nested_among(tensors)
    for one in rest:
        if not same_parts(first, one):
            raise RuntimeError(
                f"{name}(): all nested tensors must have the same parts, but got the shapes {first._size} and {one._size}"
            )
    return first


def _plain(tensors: Any) -> list[Tensor]:
    return [values_of(one) if isinstance(one, NestedTensor) else one for one in tensors]
