"""Sequences of different lengths in one tensor: padded to the longest, or packed by time step."""

from __future__ import annotations

import math
from typing import NamedTuple

import rushlight as torch
from rushlight import Tensor
from rushlight._compiled import compiled
from rushlight._text import kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Self


__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences packed by time step, the longest first. The functions of this module create it.

    ``data`` contains the first elements of all sequences, then the second elements of those that have one, and so on.
    ``batch_sizes`` is the number of elements per step. The two index tensors convert between the original order and the
    order by length.

    Raises:
        ValueError: ``batch_sizes`` is not on the CPU.

    >>> packed = pack_sequence([torch.tensor([1.0, 2.0]), torch.tensor([3.0])])
    >>> packed.data, packed.batch_sizes
    (tensor([1., 3., 2.]), tensor([2, 1]))
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            # Both in one pair, in files of torch before 1.1 and in copies of tuples.
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Converts or moves the data. The batch sizes stay on the CPU."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [
            None if places is None else places.to(data.device)
            for places in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """The data on a CUDA device."""
        return self.to(self.data.cuda(*args, **kwargs).device)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """The data on the CPU."""
        return self.to("cpu", *args, **kwargs)

    def double(self) -> Self:
        """The data as float64."""
        return self.to(dtype=torch.float64)

    def float(self) -> Self:
        """The data as float32."""
        return self.to(dtype=torch.float32)

    def half(self) -> Self:
        """The data as float16."""
        return self.to(dtype=torch.float16)

    def long(self) -> Self:
        """The data as int64."""
        return self.to(dtype=torch.int64)

    def int(self) -> Self:
        """The data as int32."""
        return self.to(dtype=torch.int32)

    def short(self) -> Self:
        """The data as int16."""
        return self.to(dtype=torch.int16)

    def char(self) -> Self:
        """The data as int8."""
        return self.to(dtype=torch.int8)

    def byte(self) -> Self:
        """The data as uint8."""
        return self.to(dtype=torch.uint8)

    def pin_memory(self) -> Self:
        """The data in pinned memory."""
        places = (self.sorted_indices, self.unsorted_indices)
        pinned = [None if indices is None else indices.pin_memory() for indices in places]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *pinned)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation.

    >>> invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    inverse = torch.empty_like(permutation)
    places = torch.arange(permutation.numel(), device=permutation.device)
    return inverse.scatter_(0, permutation, places)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs padded sequences ``(T, B, *)``, or ``(B, T, *)`` with ``batch_first``, with the given lengths.

    Without ``enforce_sorted`` the sequences may have any order. They are sorted, and the order is stored.

    Raises:
        RuntimeError: the lengths are not sorted, not positive, longer than the input, or there is not one per sequence.

    >>> pack_padded_sequence(torch.tensor([[1.0, 3.0], [2.0, 0.0]]), [2, 1]).data
    tensor([1., 3., 2.])
    """
    lengths = torch.as_tensor(lengths, dtype=torch.int64)
    order = None
    if not enforce_sorted:
        lengths, order = torch.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    return PackedSequence(*_pack(input, lengths, batch_first), order, None)


@compiled(name="_pack_padded_sequence", overridable=False)
def _pack(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    if batch_first:
        input = input.transpose(0, 1)
    _check_lengths(input, lengths)
    counts = lengths.tolist()
    if counts[0] > input.size(0):
        raise RuntimeError(
            f"Expected the lengths to be at most {input.size(0)}, the size of the input, got {counts[0]}"
        )
    steps = torch.arange(counts[0], device=input.device).unsqueeze(1)
    present = steps < lengths.to(input.device)
    data = input[: counts[0]].reshape(counts[0] * len(counts), *input.shape[2:])
    return data[present.flatten().nonzero().flatten()], present.sum(1).cpu()


def _check_lengths(input: Tensor, lengths: Tensor) -> None:
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.dim() != 1 or lengths.device.type != "cpu":
        kind = lengths.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device} {kind} tensor"
        )
    batch = input.size(1)
    if lengths.size(0) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size(0)} (batch_size={batch})"
        )
    counts = lengths.tolist()
    if counts[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if counts != sorted(counts, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do "
            "not need ONNX exportability."
        )


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Unpacks sequences in their original order, padded to the longest or to ``total_length``. Also returns their lengths.

    Raises:
        ValueError: ``total_length`` is less than the longest sequence.

    >>> pad_packed_sequence(pack_sequence([torch.tensor([1.0, 2.0]), torch.tensor([3.0])]), batch_first=True)
    (tensor([[1., 2.],
            [3., 0.]]), tensor([2, 1]))
    """
    if type(batch_first) is not bool:
        kind = kind_of(batch_first)
        raise TypeError(f"_pad_packed_sequence(): argument 'batch_first' (position 3) must be bool, not {kind}")
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    data, sizes = sequence.data, sequence.batch_sizes
    batch = int(sizes[0])
    present = torch.arange(batch) < sizes.unsqueeze(1)
    places = present.flatten().nonzero().flatten().to(data.device)
    padded = torch.full((longest * batch, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    padded = padded.index_put((places,), data).reshape(longest, batch, *data.shape[1:])
    lengths = present.sum(0)
    if batch_first:
        padded = padded.transpose(0, 1)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Pads sequences ``(L, *)`` to one tensor ``(T, B, *)``, or ``(B, T, *)`` with ``batch_first``. T is the largest L.

    Raises:
        RuntimeError: there are no sequences, the side is not "left" or "right", or sizes after the first differ.

    >>> pad_sequence([torch.tensor([1.0, 2.0]), torch.tensor([3.0])], batch_first=True)
    tensor([[1., 2.],
            [3., 0.]])
    """
    if not hasattr(sequences, "__iter__"):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    return _pad(tuple(sequences), batch_first, padding_value, padding_side)


@compiled(name="pad_sequence", overridable=False)
def _pad(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    first = sequences[0]
    longest = max(sequence.size(0) for sequence in sequences)
    shape = (len(sequences), longest, *first.shape[1:])
    result = torch.full(shape, padding_value, dtype=first.dtype, device=first.device)
    for place, sequence in enumerate(sequences):
        length = sequence.size(0)
        result[place].narrow(0, 0 if padding_side == "right" else longest - length, length).copy_(sequence)
    return result if batch_first else result.transpose(0, 1).contiguous()


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences in a padded tensor, each with its original length.

    >>> unpad_sequence(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([2, 1]), batch_first=True)
    [tensor([1., 2.]), tensor([3.])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    # Copies, as in torch: a change of one leaves the padded tensor as it is.
    each = zip(padded_sequences, lengths.tolist(), strict=True)
    return [sequence[: math.ceil(length)].clone(memory_format=torch.contiguous_format) for sequence, length in each]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences ``(L, *)``; arguments and errors as in `pack_padded_sequence`.

    >>> pack_sequence([torch.tensor([3.0]), torch.tensor([1.0, 2.0])], enforce_sorted=False).sorted_indices
    tensor([1, 0])
    """
    lengths = torch.tensor([sequence.size(0) for sequence in sequences], dtype=torch.int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Unpacks the sequences into a list.

    >>> unpack_sequence(pack_sequence([torch.tensor([1.0, 2.0]), torch.tensor([3.0])]))
    [tensor([1., 2.]), tensor([3.])]
    """
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)


def __dir__() -> list[str]:
    return __all__
