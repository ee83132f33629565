"""Nested tensors of the layout `torch.strided`: samples of any sizes, one after the other in a buffer.

A `StridedNestedTensor` is its buffer, with the sizes, strides and beginnings of the samples. Views have the same buffer.
The functions that it takes part in are in `ops`.
"""

from __future__ import annotations

from math import prod

import rushlight as torch
from rushlight import Tensor
from rushlight._answers import answered_by
from rushlight._answers import elements as buffer_of
from rushlight._C import _disabled_torch_function_impl, _expect_overrides
from rushlight._utils import _rebuild_nested_tensor
from rushlight._warnings import warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Sizes = tuple[int, ...]


class Geometry:
    """The sizes of the samples, their strides, and where they begin in the buffer."""

    __slots__ = ("shapes", "starts", "steps")

    def __init__(self, shapes: Sequence[Sizes], steps: Sequence[Sizes], starts: Sequence[int]) -> None:
        self.shapes, self.steps, self.starts = list(shapes), list(steps), list(starts)

    @classmethod
    def packed(cls, shapes: Sequence[Sizes]) -> Geometry:
        """Samples without gaps, each of them row by row."""
        starts, end = [], 0
        for shape in shapes:
            starts.append(end)
            end += prod(shape)
        return cls(shapes, [_row_major(shape) for shape in shapes], starts)

    def is_packed(self) -> bool:
        end = 0
        for shape, steps, start in zip(self.shapes, self.steps, self.starts):
            dense = all(step == wanted or size == 1 for size, step, wanted in zip(shape, steps, _row_major(shape)))
            if start != end or not (dense or 0 in shape):
                return False
            end += prod(shape)
        return True

    def places_as(self, other: Geometry) -> bool:
        """Whether elements of the same index have the same place in both buffers."""
        return (self.shapes, self.steps, self.starts) == (other.shapes, other.steps, other.starts)

    @property
    def rank(self) -> int:
        """The number of dimensions of the nested tensor."""
        return len(self.shapes[0]) + 1 if self.shapes else 1


def _row_major(shape: Sizes) -> Sizes:
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(size, 1)
    return tuple(reversed(steps))


class StridedNestedTensor(Tensor):
    """A nested tensor of the layout `torch.strided`. `torch.nested` makes such tensors."""

    _geometry: Geometry

    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment] # until the class is complete

    def __getattr__(self, name: str) -> Any:
        # In torch, the class is `Tensor`.
        raise AttributeError(f"'Tensor' object has no attribute '{name}'")

    def values(self) -> Tensor:
        """The buffer: the elements of all samples."""
        return buffer_of(self)

    def _nested_tensor_size(self) -> Tensor:
        return torch.tensor(self._geometry.shapes, dtype=torch.int64)

    def _nested_tensor_strides(self) -> Tensor:
        return torch.tensor(self._geometry.steps, dtype=torch.int64)

    def _nested_tensor_storage_offsets(self) -> Tensor:
        return torch.tensor(self._geometry.starts, dtype=torch.int64)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        samples = [one.detach().requires_grad_(self.requires_grad) for one in samples_of(self)]
        inside = ",\n".join("  " + str(one).replace("\n", "\n  ") for one in samples)
        made = self.grad_fn
        ending = (
            f", grad_fn=<{made.name()}>" if made is not None else ", requires_grad=True" if self.requires_grad else ""
        )
        return f"nested_tensor([\n{inside}\n]{ending})"

    def __format__(self, form: str) -> str:
        return format(repr(self), form)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise refusal("new_empty")

    def __copy__(self) -> StridedNestedTensor:
        made = wrap(buffer_of(self).detach(), self._geometry)
        return made.requires_grad_(self.requires_grad)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        parts = (
            buffer_of(self).detach(),
            self._nested_tensor_size(),
            self._nested_tensor_strides(),
            self._nested_tensor_storage_offsets(),
        )
        # torch's function takes these alone.
        return _rebuild_nested_tensor, (*parts, True) if self.requires_grad else parts


def _answer(cls: type, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from .ops import answer

    return answer(func, args, kwargs)


answered_by(StridedNestedTensor, _answer)


#: Operators whose derivative asks for the sizes first, so that torch refuses them with another error.
_ASKING = {"expand", "index.Tensor", "max.dim", "mean.dim", "min.dim", "slice.Tensor", "sort", "split.Tensor", "topk"}
NO_SIZES = "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."


def refusal(operator: str, args: Sequence[Any] = ()) -> NotImplementedError | RuntimeError:
    """The error of an operator that has no form for such tensors, among the arguments of which they are."""
    if operator in _ASKING and torch.is_grad_enabled():
        if any(isinstance(one, Tensor) and one.requires_grad for one in args):
            return RuntimeError(NO_SIZES)
    return NotImplementedError(
        f"Could not run 'aten::{operator}' with arguments from the 'NestedTensorCPU' backend. The layout torch.strided of "
        "nested tensors supports few functions.\nThe layout torch.jagged supports more. Otherwise, use unbind() or "
        "to_padded_tensor()."
    )


def wrap(buffer: Tensor, geometry: Geometry) -> StridedNestedTensor:
    """The nested tensor of a buffer, with its history."""
    _expect_overrides()
    warn_once(
        "The PyTorch API of nested tensors is in prototype stage and will change in the near future. We recommend specifying "
        "layout=torch.jagged when constructing a nested tensor, as this layout receives active development, has better "
        "operator coverage, and works with torch.compile."
    )
    made: StridedNestedTensor = buffer.as_subclass(StridedNestedTensor)
    made._geometry = geometry
    return made


def sample_of(nested: StridedNestedTensor, index: int) -> Tensor:
    """One sample: a view of the buffer."""
    return _sample(buffer_of(nested), nested._geometry, index)


def samples_of(nested: StridedNestedTensor) -> list[Tensor]:
    """The samples: views of the buffer."""
    buffer, geometry = buffer_of(nested), nested._geometry
    return [_sample(buffer, geometry, index) for index in range(len(geometry.shapes))]


def _sample(buffer: Tensor, geometry: Geometry, index: int) -> Tensor:
    shape, steps, start = geometry.shapes[index], geometry.steps[index], geometry.starts[index]
    if steps == _row_major(shape):
        return buffer.narrow(0, start, prod(shape)).view(shape)
    return buffer.as_strided(shape, steps, start + buffer.storage_offset())


def pack(
    samples: Sequence[Tensor], dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> StridedNestedTensor:
    """The nested tensor of samples, which are copied with their history, in the dtype of the first.

    Raises:
        RuntimeError: a sample is nested, or has another number of dimensions.
    """
    for index, one in enumerate(samples):
        if one.is_nested:
            raise RuntimeError("We do not accept nested tensors as input to nested tensors")
        if one.dim() != samples[0].dim():
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{one.dim()} for Tensor at index {index} and dimension {samples[0].dim()} for Tensor at index 0."
            )
    geometry = Geometry.packed([tuple(one.shape) for one in samples])
    if not samples:
        return wrap(torch.empty(0, dtype=dtype, device=device), geometry)
    kind = dtype or samples[0].dtype
    return wrap(torch.cat([one.to(device=device, dtype=kind).reshape(-1) for one in samples]), geometry)


def nested_tensor_of_list(
    samples: Any, dtype: torch.dtype | None, device: torch.device | str | None, requires_grad: bool
) -> StridedNestedTensor:
    """`nested_tensor`: a leaf with copies of the samples."""
    if not isinstance(samples, list):
        raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
    plain = [one.detach() if isinstance(one, Tensor) else torch.tensor(one, dtype=dtype) for one in samples]
    made = pack(plain, dtype, device)
    if not requires_grad:
        return made
    leaf: StridedNestedTensor = Tensor._make_subclass(StridedNestedTensor, buffer_of(made), True)
    leaf._geometry = made._geometry
    return leaf


def view_from_buffer(buffer: Tensor, sizes: Tensor, strides: Tensor, offsets: Tensor) -> StridedNestedTensor:
    """`_nested_view_from_buffer`: the nested tensor of a buffer, with the sizes, strides and beginnings as tensors.

    Raises:
        RuntimeError: a sample reaches beyond the buffer, or its sizes, strides and beginning do not fit each other.
    """
    if not sizes.dim() == strides.dim() == 2 or not sizes.shape == strides.shape or offsets.shape != sizes.shape[:1]:
        raise RuntimeError(
            f"sizes and strides are matrices of one shape with a row for each offset, not of {tuple(sizes.shape)}, "
            f"{tuple(strides.shape)} and {tuple(offsets.shape)}"
        )
    shapes = [tuple(one) for one in sizes.tolist()] if sizes.numel() else [()] * sizes.shape[0]
    steps = [tuple(one) for one in strides.tolist()] if strides.numel() else [()] * strides.shape[0]
    starts = offsets.tolist()
    for shape, step, start in zip(shapes, steps, starts):
        last = start + sum((size - 1) * one for size, one in zip(shape, step))
        if min((*shape, *step, start), default=0) < 0 or (0 not in shape and last >= buffer.numel()):
            raise RuntimeError(
                f"setStorage: sizes {list(shape)}, strides {list(step)}, storage offset {start} are out of bounds for a "
                f"buffer of {buffer.numel()} elements"
            )
    return wrap(buffer, Geometry(shapes, steps, starts))


def from_padded(stacked: Tensor, sizes: Tensor) -> StridedNestedTensor:
    """`_nested_from_padded`: of each row of a tensor, the part with the given sizes."""
    parts = [one[tuple(map(slice, size))] for one, size in zip(stacked, sizes.tolist())]
    return pack(parts)


def is_left_aligned(mask: Tensor) -> bool:
    """`_nested_tensor_from_mask_left_aligned`: whether in each row of a mask no true element follows a false one."""
    return bool((mask.to(torch.int8).diff() <= 0).all())


def from_mask(stacked: Tensor, mask: Tensor, mask_check: bool = True) -> StridedNestedTensor:
    """`_nested_tensor_from_mask`: of each row of a tensor, the elements where the mask is true. They come first.

    Raises:
        RuntimeError: the shapes do not match, the mask is not boolean, or a true element follows a false one.
    """
    if mask.dtype != torch.bool:
        raise RuntimeError(f"Expected mask to be of ScalarType Bool, but got {mask.dtype} instead.")
    if mask.dim() != 2 or stacked.dim() != 3 or stacked.shape[:2] != mask.shape:
        raise RuntimeError("Mask size should match input size")
    if mask_check and not is_left_aligned(mask):
        raise RuntimeError("Mask must be left-aligned without gaps")
    lengths = mask.sum(-1).tolist()
    rows = stacked.shape[2]
    return wrap(stacked[mask].reshape(-1), Geometry.packed([(length, rows) for length in lengths]))
