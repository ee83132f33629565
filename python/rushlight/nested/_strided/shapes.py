"""Shapes and samples of strided nested tensors: views, joined tensors, and the samples one by one."""

from __future__ import annotations

from math import prod

import rushlight as torch
from rushlight import Tensor

from .registry import answers, dimension, view
from .tensor import NO_SIZES, Geometry, StridedNestedTensor, buffer_of, pack, refusal, sample_of, samples_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tensor import StridedNestedTensor as Nested


@answers("unbind")
def _unbind(func: Any, input: Nested, dim: int = 0) -> tuple[Tensor, ...]:
    if dim != 0:
        raise RuntimeError(f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
    return tuple(samples_of(input))


@answers("to_padded_tensor", "nested_to_padded_tensor")
def _to_padded(func: Any, input: Nested, padding: float, output_size: Any = None) -> Tensor:
    shapes = input._geometry.shapes
    if not shapes:
        return buffer_of(input)
    if all(0 in shape for shape in shapes) and input._geometry.rank > 1:
        raise RuntimeError("to_padded_tensor: at least one constituent tensor should have non-zero numel")
    wanted = [max(sizes) for sizes in zip(*shapes)]
    if output_size is not None:
        if len(output_size) != len(wanted) + 1:
            raise RuntimeError("Length of output_size does not match NestedTensor dims. Broadcasting is not supported.")
        if any(size < least for size, least in zip(output_size, (len(shapes), *wanted))):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
            )
        wanted = list(output_size[1:])
    rows = [
        torch.nn.functional.pad(
            one,
            [size for own, full in zip(reversed(one.shape), reversed(wanted)) for size in (0, full - own)],
            value=padding,
        )
        for one in samples_of(input)
    ]
    made = torch.stack(rows)
    more = 0 if output_size is None else output_size[0] - len(rows)
    return torch.cat([made, made.new_full((more, *wanted), padding)]) if more else made


@answers("select")
def _select(func: Any, input: Nested, dim: int, index: int) -> Tensor:
    place, own = dimension(input, dim), input._geometry
    if place == 0:
        if not -len(own.shapes) <= index < len(own.shapes):
            raise IndexError(f"index {index} is out of bounds for dimension 0 with size {len(own.shapes)}")
        return sample_of(input, index % len(own.shapes))
    along = place - 1
    starts = []
    for shape, steps, start in zip(own.shapes, own.steps, own.starts):
        if not -shape[along] <= index < shape[along]:
            raise IndexError(f"index {index} is out of bounds for dimension {place} with size {shape[along]}")
        starts.append(start + index % shape[along] * steps[along])
    return view(input, Geometry(_without(own.shapes, along), _without(own.steps, along), starts))


def _without(sizes: list[tuple[int, ...]], place: int) -> list[tuple[int, ...]]:
    return [(*one[:place], *one[place + 1 :]) for one in sizes]


@answers("__getitem__")
def _item(func: Any, input: Nested, index: Any) -> Tensor:
    items = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(one, (Tensor, list)) for one in items):
        raise refusal("index.Tensor", (input,))
    taken = sum(one is not None and one is not Ellipsis for one in items)
    made: Tensor = input
    place = 0
    while items:
        one = items.pop(0)
        if not isinstance(made, StridedNestedTensor):
            return made[(slice(None),) * place + (one, *items)]
        if one is Ellipsis:
            place += input._geometry.rank - taken
        elif one is None:
            made = made.unsqueeze(place)
            place += 1
        elif isinstance(one, slice):
            raise refusal("slice.Tensor", (input,))
        else:
            made = made.select(place, one)
    return made


@answers("narrow")
def _narrow(func: Any, input: Nested, dim: int, start: int, length: int) -> Nested:
    if dim != 0:
        raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
    own = input._geometry
    if not 0 <= start <= start + length <= len(own.shapes):
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({len(own.shapes)}).")
    kept = slice(start, start + length)
    return view(input, Geometry(own.shapes[kept], own.steps[kept], own.starts[kept]))


@answers("transpose", "swapaxes", "swapdims")
def _transpose(func: Any, input: Nested, dim0: int, dim1: int) -> Nested:
    first, second = dimension(input, dim0), dimension(input, dim1)
    if 0 in (first, second) and first != second:
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")
    own = input._geometry

    def turned(one: tuple[int, ...]) -> tuple[int, ...]:
        sizes = list(one)
        sizes[first - 1], sizes[second - 1] = sizes[second - 1], sizes[first - 1]
        return tuple(sizes)

    return view(input, Geometry([*map(turned, own.shapes)], [*map(turned, own.steps)], own.starts))


@answers("mT", "mH")
def _matrix_transpose(func: Any, input: Nested) -> Nested:
    return _transpose(None, input, -2, -1)


@answers("unsqueeze")
def _unsqueeze(func: Any, input: Nested, dim: int) -> Nested:
    place, own = dimension(input, dim, more=1), input._geometry
    if place == 0:
        raise RuntimeError(
            "unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported at the moment if you need this "
            "feature, please open an issue on github describing your use case."
        )
    along = place - 1
    shapes = [(*shape[:along], 1, *shape[along:]) for shape in own.shapes]
    steps = [
        (*step[:along], shape[along] * step[along] if along < len(step) else 1, *step[along:])
        for shape, step in zip(own.shapes, own.steps)
    ]
    return view(input, Geometry(shapes, steps, own.starts))


@answers("squeeze")
def _squeeze(func: Any, input: Nested, dim: Any = None) -> Nested:
    words = "is not supported at the moment if you need this feature, please open an issue on github describing your use case."
    if dim is None:
        if input.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(NO_SIZES)
        raise RuntimeError(
            "squeeze(): For nested tensors, squeeze without the dim argument is not supported at the moment, however you "
            "can use squeeze(Tensor self, int dim) instead if you need this feature, please open an issue on github "
            "describing your use case."
        )
    places = sorted({dimension(input, one) for one in ([dim] if isinstance(dim, int) else dim)}, reverse=True)
    if 0 in places:
        raise RuntimeError(f"squeeze(): For nested tensors, squeezing dimension 0 {words}")
    own = input._geometry
    shapes, steps = own.shapes, own.steps
    for place in places:
        if all(shape[place - 1] == 1 for shape in shapes):
            shapes, steps = _without(shapes, place - 1), _without(steps, place - 1)
    return view(input, Geometry(shapes, steps, own.starts))


@answers("chunk")
def _chunk(func: Any, input: Nested, chunks: int, dim: int = 0) -> tuple[Nested, ...]:
    place = dimension(input, dim)
    if place != input._geometry.rank - 1 or place == 0:
        raise RuntimeError("Chunk for nested tensors is currently only supported for the last dimension.")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = input.size(place)
    if size % chunks:
        raise RuntimeError(
            "Chunk for nested tensors is only supported for nested tensors with trailing dimension divisible by chunks, "
            f"got: {size} % {chunks} != 0"
        )
    return _cut(input, [size // chunks] * chunks)


@answers("split_with_sizes", "split")
def _split(func: Any, input: Nested, split_size: Any, dim: int = 0) -> tuple[Nested, ...]:
    if isinstance(split_size, int):
        raise refusal("split.Tensor", (input,))
    place = dimension(input, dim)
    if place != input._geometry.rank - 1 or place == 0:
        raise RuntimeError("split_with_sizes for nested tensors is currently only supported for the last dimension.")
    size = input.size(place)
    if sum(split_size) != size:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {place}), "
            f"but got split_sizes={list(split_size)}"
        )
    return _cut(input, split_size)


def _cut(input: Nested, sizes: Any) -> tuple[Nested, ...]:
    """Parts of the last dimension."""
    own, begin, made = input._geometry, 0, []
    for size in sizes:
        starts = [start + begin * steps[-1] for start, steps in zip(own.starts, own.steps)]
        made.append(view(input, Geometry([(*shape[:-1], size) for shape in own.shapes], own.steps, starts)))
        begin += size
    return tuple(made)


@answers("view", "reshape", "reshape_as", "_unsafe_view")
def _reshape(func: Any, input: Nested, *sizes: Any) -> Nested:
    name = func.__name__.strip("_")
    if name == "reshape_as":
        if not isinstance(sizes[0], StridedNestedTensor):
            raise RuntimeError("get_nested_tensor_impl requires a NestedTensor.")
        shapes = list(sizes[0]._geometry.shapes)
        wanted = list(shapes[0])
    else:
        wanted = list(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else list(sizes)
        own = input._geometry.shapes
        if not wanted or wanted[0] != len(own):
            raise RuntimeError(f"{name}: For now nested {name} cannot change or infer the implicit batch dimension")
        # -1 in a dimension that exists keeps its size.
        shapes = [
            tuple(shape[at] if size == -1 and at < len(shape) else size for at, size in enumerate(wanted[1:]))
            for shape in own
        ]
    geometry = input._geometry
    steps = []
    for one, shape in zip(samples_of(input), shapes):
        try:
            viewed = one.detach().view(shape)
        except RuntimeError:
            if name == "view" or one.numel() != prod(shape):
                raise RuntimeError(f"shape '{wanted}' is invalid for input of size {one.numel()}") from None
            return pack([sample.reshape(to) for sample, to in zip(samples_of(input), shapes)])
        steps.append(viewed.stride())
        shapes[len(steps) - 1] = tuple(viewed.shape)
    return view(input, Geometry(shapes, steps, geometry.starts))


@answers("cat", "concat", "concatenate")
def _cat(func: Any, tensors: Any, dim: int = 0) -> Nested:
    if not all(isinstance(one, StridedNestedTensor) for one in tensors):
        raise RuntimeError("Expected each tensor in given list to be nested.")
    if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
        raise RuntimeError(NO_SIZES)
    place = dimension(tensors[0], dim)
    if place == 0:
        samples = [sample for one in tensors for sample in samples_of(one)]
        if len({sample.dim() for sample in samples}) > 1:
            sizes = [one.dim() for one in tensors]
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension 0. Expected dimension {sizes[0]} but got another one."
            )
        return pack(samples)
    return pack([torch.cat(parts, place - 1) for parts in zip(*map(samples_of, tensors))])
