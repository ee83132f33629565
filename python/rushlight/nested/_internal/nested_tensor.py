"""Tensors of the layout `torch.jagged`: one dimension whose size differs from sample to sample.

A `NestedTensor` is the tensor of its values, in which the samples follow each other along the jagged dimension. So the
engine records its history and its gradient like those of any tensor. Functions see the values with another shape: the
class answers them in ``__torch_function__`` (`ops`), with plain tensors inside.
"""

from __future__ import annotations

from copy import deepcopy

import rushlight as torch
from rushlight import Size, Tensor
from rushlight._answers import answered_by
from rushlight._answers import elements as values_of
from rushlight._C import DisableTorchFunctionSubclass, _disabled_torch_function_impl, _expect_overrides

from .nested_int import NestedInt, size_of_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Raggedness:
    """Where the parts of a jagged dimension begin, and how long they are.

    `offsets` are the beginnings, and behind them the end. `lengths` are given if the parts do not touch.
    """

    __slots__ = ("_bounds", "_counts", "_starts", "lengths", "offsets", "size")

    def __init__(self, offsets: Tensor, lengths: Tensor | None = None, bounds: tuple[int, int] | None = None) -> None:
        self.offsets = offsets
        self.lengths = lengths
        self.size: NestedInt = size_of_parts(offsets if lengths is None else lengths)
        self._bounds = bounds
        self._starts: list[int] | None = None
        self._counts: list[int] | None = None

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    @property
    def starts(self) -> list[int]:
        if self._starts is None:
            self._starts = self.offsets.to(torch.int64).tolist()[:-1]
        return self._starts

    def lengths_tensor(self) -> Tensor:
        return (self.offsets.diff() if self.lengths is None else self.lengths).to(torch.int64)

    @property
    def counts(self) -> list[int]:
        if self._counts is None:
            self._counts = self.lengths_tensor().tolist()
        return self._counts

    @property
    def longest(self) -> int:
        """The largest length."""
        return max(self.counts, default=0)

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest length, which are known from then on."""
        if self._bounds is None:
            self._bounds = min(self.counts, default=0), self.longest
        return self._bounds

    @property
    def known_longest(self) -> int | None:
        """The largest length, if it was given or asked for. `to_padded_tensor` pads to the sum of lengths otherwise."""
        return None if self._bounds is None else self._bounds[1]

    def lies_within(self, rows: int) -> bool:
        """Whether every part is one of so many rows of values."""
        return all(
            start >= 0 and count >= 0 and start + count <= rows for start, count in zip(self.starts, self.counts)
        )

    def check_within(self, rows: int) -> None:
        """Raises RuntimeError unless every part is one of so many rows of values."""
        if not self.lies_within(rows):
            raise RuntimeError(
                "Expected cond to be True, but got False. The offsets and lengths reach beyond the values.\n"
                f"There are {rows} rows of values, parts begin at {self.starts} and have the lengths {self.counts}."
            )

    def rows(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """For each of ``count`` rows of values that belongs to a part: its number in the values, its part, its place in the
        part."""
        self.check_within(count)
        lengths = self.lengths_tensor()
        part = torch.repeat_interleave(torch.arange(len(self), device=lengths.device), lengths)
        first = lengths.cumsum(0) - lengths
        place = torch.arange(part.shape[0], device=lengths.device) - first[part]
        return self.offsets[:-1].to(torch.int64)[part] + place, part, place

    def to(self, device: torch.device) -> Raggedness:
        """The same on another device."""
        if self.offsets.device == device:
            return self
        lengths = None if self.lengths is None else self.lengths.to(device)
        return Raggedness(self.offsets.to(device), lengths, self._bounds)


class NestedTensor(Tensor):
    """A tensor of the layout `torch.jagged`. `torch.nested` makes such tensors."""

    _ragged: Raggedness
    _ragged_idx: int

    def __new__(cls, values: Tensor, offsets: Tensor, *, lengths: Tensor | None = None, **kwargs: Any) -> NestedTensor:
        if isinstance(values, NestedTensor):
            raise AssertionError("values must not be a NestedTensor")
        made = wrap(values.detach(), Raggedness(offsets, lengths), kwargs.get("_ragged_idx", 1))
        return made.requires_grad_(kwargs.get("requires_grad", False))

    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment] # until the class is complete

    @property
    def _values(self) -> Tensor:  # type: ignore[override] # an attribute in torch too
        return values_of(self)

    @property
    def _offsets(self) -> Tensor:
        return self._ragged.offsets

    @property
    def _lengths(self) -> Tensor | None:
        return self._ragged.lengths

    @property
    def _size(self) -> tuple[Any, ...]:
        return tuple(size_of(self))

    def values(self) -> Tensor:
        """The values of all samples, one after the other along the jagged dimension."""
        return values_of(self)

    def offsets(self) -> Tensor:
        """Where the samples begin in the values, and where the last one ends."""
        return self._ragged.offsets

    def lengths(self) -> Tensor | None:
        """The lengths of the samples, if there may be values between them. Otherwise None."""
        return self._ragged.lengths

    @property
    def _min_seqlen(self) -> int:
        return self._ragged.bounds[0]

    @property
    def _max_seqlen(self) -> int:
        return self._ragged.bounds[1]

    def _get_min_seqlen(self) -> int:
        return self._ragged.bounds[0]

    def _get_max_seqlen(self) -> int:
        return self._ragged.bounds[1]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        made = self.grad_fn
        parts = [f"size={tuple(size_of(self))}", f"offsets={self._ragged.offsets}"]
        if made is not None:
            parts.append(f"grad_fn={made}")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        return f"NestedTensor({', '.join(parts)}, contiguous={is_contiguous(self)})"

    def __format__(self, form: str) -> str:
        return format(repr(self), form)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            return Tensor.__deepcopy__(values_of(self), memo)  # raises torch's error
        made = wrap(values_of(self).detach().clone(), self._ragged, self._ragged_idx)
        made.requires_grad_(self.requires_grad)
        memo[id(self)] = made
        if self.grad is not None:
            made.grad = deepcopy(self.grad, memo)
        return made

    def __copy__(self) -> NestedTensor:
        made = wrap(values_of(self).detach(), self._ragged, self._ragged_idx)
        return made.requires_grad_(self.requires_grad)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        ragged = self._ragged
        parts = {
            "values": values_of(self).detach(),
            "offsets": ragged.offsets,
            "lengths": ragged.lengths,
            "_ragged_idx": self._ragged_idx,
            "requires_grad": self.requires_grad,
        }
        return _rebuild_njt, (parts,)


def _answer(cls: type, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from .ops import answer

    return answer(func, args, kwargs)


answered_by(NestedTensor, _answer)


def _rebuild_njt(arguments: dict[str, Any]) -> NestedTensor:
    """The tensor of a pickle, which anyone may have written, in torch's form: the arguments of its constructor by their names.

    Raises:
        RuntimeError: the parts are not those of the values.
    """
    fields: list[Any] = [arguments.get(name) for name in ("values", "offsets", "lengths")]
    values, offsets, lengths = fields
    ragged_idx, requires_grad = arguments.get("_ragged_idx", 1), bool(arguments.get("requires_grad"))
    given = (values, offsets) if lengths is None else (values, offsets, lengths)
    if not (all(isinstance(one, Tensor) and one.layout is torch.strided for one in given) and type(ragged_idx) is int):
        raise RuntimeError("a nested tensor needs values, and offsets and lengths of its parts")
    if not 1 <= ragged_idx <= values.dim() or any(one.dim() != 1 or one.is_floating_point() for one in given[1:]):
        raise RuntimeError("the offsets and lengths of a nested tensor are lists of whole numbers along a dimension")
    ragged, size = Raggedness(offsets, lengths), values.shape[ragged_idx - 1]
    parts = list(zip(ragged.starts, ragged.counts, strict=True))
    if any(start < 0 or count < 0 or start + count > size for start, count in parts):
        raise RuntimeError(f"a part of a nested tensor is out of bounds for {size} values")
    return wrap(values, ragged, ragged_idx).requires_grad_(requires_grad)


def wrap(values: Tensor, ragged: Raggedness, ragged_idx: int = 1) -> NestedTensor:
    """The nested tensor of these values, with their history."""
    _expect_overrides()
    made: NestedTensor = values.as_subclass(NestedTensor)
    made._ragged = ragged
    made._ragged_idx = ragged_idx
    return made


def like(values: Tensor, nested: NestedTensor, ragged_idx: int | None = None) -> NestedTensor:
    """The nested tensor of these values whose parts are those of another one."""
    place = nested._ragged_idx if ragged_idx is None else ragged_idx
    return wrap(values, nested._ragged.to(values.device), place)


def size_of(nested: NestedTensor) -> Size:
    """The shape, with a symbol for the jagged dimension."""
    with DisableTorchFunctionSubclass():
        inner = nested.shape
    place = nested._ragged_idx
    sizes: tuple[Any, ...] = (len(nested._ragged), *inner[: place - 1], nested._ragged.size, *inner[place:])
    return tuple.__new__(Size, sizes)


def is_contiguous(nested: NestedTensor, *format: Any) -> bool:
    """Whether the values are contiguous and belong to a sample each."""
    return nested._ragged.lengths is None and values_of(nested).is_contiguous(*format)


def parts_of(nested: NestedTensor) -> list[Tensor]:
    """The samples: views of the values."""
    values, ragged, along = values_of(nested), nested._ragged, nested._ragged_idx - 1
    ragged.check_within(values.shape[along])
    return [values.narrow(along, start, count) for start, count in zip(ragged.starts, ragged.counts)]


def part_of(nested: NestedTensor, index: int) -> Tensor:
    """One sample: a view of the values."""
    values, ragged, along = values_of(nested), nested._ragged, nested._ragged_idx - 1
    index = range(len(ragged))[index]
    ragged.check_within(values.shape[along])
    return values.narrow(along, ragged.starts[index], ragged.counts[index])


def without_holes(nested: NestedTensor) -> NestedTensor:
    """The same samples, one directly after the other."""
    if nested._ragged.lengths is None:
        return nested
    lengths = nested._ragged.lengths_tensor()
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    values, along = values_of(nested), nested._ragged_idx - 1
    values = values.index_select(along, nested._ragged.rows(values.shape[along])[0])
    return wrap(values, Raggedness(offsets), nested._ragged_idx)


def padded(nested: NestedTensor, fill: float, longest: int | None = None) -> Tensor:
    """The samples stacked, with ``fill`` behind those that are shorter. Rows behind ``longest`` are left out."""
    along, ragged = nested._ragged_idx, nested._ragged
    if ragged.lengths is not None:
        raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes")
    values = values_of(nested).movedim(along - 1, 0)
    if not ragged.lies_within(values.shape[0]):
        return _padded_as_given(values, ragged, fill, longest).movedim(1, along)
    row, part, place = ragged.rows(values.shape[0])
    size = ragged.longest if longest is None else longest
    if size < ragged.longest:
        kept = place < size
        row, part, place = row[kept], part[kept], place[kept]
    rows = values[row]
    made = torch.full((len(ragged), size, *rows.shape[1:]), fill, dtype=rows.dtype, device=rows.device)
    return made.index_put((part, place), rows).movedim(1, along)


def _padded_as_given(values: Tensor, ragged: Raggedness, fill: float, longest: int | None) -> Tensor:
    """`padded` for offsets that the values do not have. As in torch, a part is what a slice of the values finds there, and
    must fill its row unless that ends before."""
    size = values.shape[0] if longest is None else longest
    made = torch.full((len(ragged), size, *values.shape[1:]), fill, dtype=values.dtype, device=values.device)
    for number, (start, count) in enumerate(zip(ragged.starts, ragged.counts)):
        count = min(count, size)
        made[number, :count].copy_(values[start : start + count])
    return made


def from_padded(stacked: Tensor, nested: NestedTensor) -> NestedTensor:
    """The inverse of `padded`: the parts are those of ``nested``."""
    along, whole = nested._ragged_idx, without_holes(nested)
    ragged = whole._ragged
    _, part, place = ragged.rows(values_of(whole).shape[along - 1])
    return wrap(stacked.movedim(along, 1)[part, place].movedim(0, along - 1), ragged, along)


def nested_view_from_values_offsets(
    values: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """The nested tensor of values and offsets. It shares the values."""
    return nested_view_from_values_offsets_lengths(values, offsets, None, ragged_idx, min_seqlen, max_seqlen)


def nested_view_from_values_offsets_lengths(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor | None,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """The same with lengths, where values between the samples belong to none."""
    for place, (name, tensor) in enumerate((("input", values), ("offsets", offsets)), 1):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"_nested_view_from_jagged(): argument '{name}' (position {place}) must be Tensor, not "
                f"{type(tensor).__name__}"
            )
    if offsets.dim() != 1:
        raise AssertionError(f"offsets must be 1D, but got {offsets.dim()}D")
    if not 1 <= ragged_idx <= values.dim():
        raise AssertionError(f"ragged_idx must be between 1 and {values.dim()}, but got {ragged_idx}")
    bounds = None if min_seqlen is None or max_seqlen is None else (int(min_seqlen), int(max_seqlen))
    return wrap(values, Raggedness(offsets, lengths, bounds), ragged_idx)


def jagged_from_list(
    tensors: Sequence[Tensor],
    offsets: Tensor | None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> tuple[NestedTensor, Tensor]:
    """The nested tensor of a list of samples, and its offsets. Offsets of another tensor of the same sizes may be given.

    Raises:
        RuntimeError: there are no samples, or they differ in more than one dimension, in dtype or in device.
    """
    if len(tensors) == 0:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    for name, found in (
        ("dtype", {one.dtype for one in tensors}),
        ("device", {one.device for one in tensors}),
        ("dim", {one.dim() for one in tensors}),
    ):
        if len(found) != 1:
            raise RuntimeError(f"When constructing a nested tensor, all tensors in list must have the same {name}")
    if tensors[0].dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    ragged = [place for place, sizes in enumerate(zip(*(one.shape for one in tensors))) if len({*sizes}) > 1]
    if len(ragged) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout "
            "only allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim."
        )
    along = ragged[0] if ragged else 0
    values = torch.cat(list(tensors), along).to(device=device, dtype=dtype)
    sizes = [one.shape[along] for one in tensors]
    if offsets is None:
        offsets = torch.tensor([0, *sizes], device=values.device).cumsum(0)
    made = wrap(values, Raggedness(offsets, None, (min(sizes), max(sizes))), along + 1)
    return made, offsets


def jagged_from_tensor_and_lengths(
    tensor: Tensor, starts: Tensor, lengths: Tensor
) -> tuple[NestedTensor, Tensor, Tensor | None]:
    """Of each row of a tensor, the elements from a start and of a length, as a view. Returns the offsets and lengths too.

    Raises:
        RuntimeError: they reach beyond their row, into another one.
    """
    batch, size = tensor.shape[:2]
    starts = torch.as_tensor(starts, device=tensor.device).expand(batch).to(torch.int64)
    lengths = torch.as_tensor(lengths, device=tensor.device).expand(batch).to(torch.int64)
    for start, length in zip(starts.tolist(), lengths.tolist()):
        if start < 0 or length < 0 or start + length > size:
            raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    offsets = torch.arange(batch, device=tensor.device) * size + starts
    offsets = torch.cat([offsets, offsets[-1:] + lengths[-1:]])
    made = wrap(tensor.flatten(0, 1), Raggedness(offsets, lengths.contiguous()))
    return made, offsets, lengths
