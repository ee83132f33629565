"""Functions of `torch` in Python: questions about dtypes, objects and settings, and what is told in terms of a method."""

from __future__ import annotations

import rushlight as torch
from rushlight import _C
from rushlight._loading import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Size, Tensor, device, dtype


def typename(obj: object) -> str:
    """The name of an object's type as torch's messages write it.

    >>> torch.typename(torch.zeros(1)), torch.typename(3)
    ('torch.FloatTensor', 'int')
    """
    return load("rushlight.nn._text").typename(obj)


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating-point numbers.

    >>> torch.is_floating_point(torch.zeros(1)), torch.is_floating_point(torch.tensor([1]))
    (True, False)
    """
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers.

    >>> torch.is_complex(torch.tensor([1j]))
    True
    """
    return input.is_complex()


def is_signed(input: Tensor) -> bool:
    """Whether the elements may be negative: of all dtypes but the unsigned ones and bool.

    >>> torch.is_signed(torch.tensor([1])), torch.is_signed(torch.tensor([True]))
    (True, False)
    """
    return input.is_signed()


def is_conj(input: Tensor) -> bool:
    """Whether the elements are conjugates of what is stored, computed where they are read.

    >>> torch.is_conj(torch.tensor([1j])), torch.is_conj(torch.tensor([1j]).conj())
    (False, True)
    """
    return input.is_conj()


def is_neg(input: Tensor) -> bool:
    """Whether the elements are negatives of what is stored, computed where they are read, as imaginary parts of conjugates are.

    >>> torch.is_neg(torch.tensor([1j]).imag), torch.is_neg(torch.tensor([1j]).conj().imag)
    (False, True)
    """
    return input.is_neg()


def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode.

    >>> with torch.inference_mode():
    ...     made = torch.ones(1)
    >>> torch.is_inference(made), torch.is_inference(torch.ones(1))
    (True, False)
    """
    return input.is_inference()


def is_nonzero(input: Tensor) -> bool:
    """The truth of the one element.

    Raises:
        RuntimeError: there is no element, or more than one.

    >>> torch.is_nonzero(torch.tensor([0.5])), torch.is_nonzero(torch.tensor(0))
    (True, False)
    """
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both tensors have the same sizes.

    >>> torch.is_same_size(torch.zeros(2, 1), torch.zeros(1, 2))
    False
    """
    return input.is_same_size(other)


def is_storage(obj: object) -> bool:
    """Whether an object is a storage.

    >>> torch.is_storage(torch.zeros(1).untyped_storage()), torch.is_storage(torch.zeros(1))
    (True, False)
    """
    return isinstance(obj, _C.UntypedStorage)


def numel(input: Tensor) -> int:
    """The number of elements.

    >>> torch.numel(torch.zeros(2, 3))
    6
    """
    return input.numel()


def get_device(input: Tensor) -> int:
    """The number of the card, or -1 on the host.

    >>> torch.get_device(torch.zeros(1))
    -1
    """
    return input.get_device()


def detach(input: Tensor) -> Tensor:
    """The same elements, in the same memory, without history.

    >>> x = torch.ones(1, requires_grad=True)
    >>> torch.detach(x * 2).requires_grad
    False
    """
    return input.detach()


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether values of one dtype may be written into tensors of another.

    >>> torch.can_cast(torch.float32, torch.int32)
    False
    """
    return _C._can_cast(from_, to)


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that holds both.

    >>> torch.promote_types(torch.int8, torch.uint8)
    torch.int16
    """
    return _C._promote_types(type1, type2)


def result_type(tensor1: Tensor | complex, tensor2: Tensor | complex) -> dtype:
    """The dtype in which two operands meet.

    >>> torch.result_type(torch.tensor([1]), 1.5)
    torch.float32
    """
    return _C._result_type(tensor1, tensor2)


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape in which tensors of these shapes meet.

    >>> torch.broadcast_shapes((2,), (3, 1))
    torch.Size([3, 2])
    """
    meeting: list[int] = []  # from the last dimension to the first
    for place, shape in enumerate(shapes):
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        for back, size in enumerate(reversed(sizes)):
            if size < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension ({size}): ({size})")
            if back == len(meeting):
                meeting.append(size)
            elif meeting[back] == 1:
                meeting[back] = size
            elif size not in (1, meeting[back]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {size} at {-1 - back}! Mismatching argument at index "
                    f"{place} had {sizes}; but expected shape should be broadcastable to {meeting[::-1]}"
                )
    return torch.Size(meeting[::-1])


def _chosen(values: Tensor, places: Tensor, counts: Tensor, return_inverse: bool, return_counts: bool) -> Any:
    """The results that were asked for."""
    results = (values, *([places] if return_inverse else []), *([counts] if return_counts else []))
    return results if len(results) > 1 else values


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements in order, or the different slices along ``dim``; on request where each went, and how often each occurs.

    >>> torch.unique(torch.tensor([3, 1, 1]))
    tensor([1, 3])
    """
    if dim is None:
        found = _C._unique2(input, sorted, return_inverse, return_counts)
    else:
        found = _C._unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _chosen(*found, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements (or the slices along ``dim``) without those that equal the one before.

    >>> torch.unique_consecutive(torch.tensor([3, 1, 1, 3]))
    tensor([3, 1, 3])
    """
    found = _C._unique_consecutive(input, return_inverse, return_counts, dim)
    return _chosen(*found, return_inverse, return_counts)


def get_default_device() -> device:
    """The device on which this thread makes new tensors.

    >>> with torch.device("meta"):
    ...     torch.zeros(2, 3).device
    device(type='meta')
    """
    return _C._default_device() or torch.device("cpu")


def set_default_device(device: device | str | int | None) -> None:
    """Says where this thread makes new tensors; ``None`` takes it back. ``with torch.device(...)`` says it for a block.

    Raises:
        RuntimeError: the name of no device.

    >>> torch.set_default_device("meta")
    >>> torch.zeros(2).device
    device(type='meta')
    >>> torch.set_default_device(None)
    """
    _C._set_default_device(None if device is None else torch.device(device))


def get_num_interop_threads() -> int:
    """The number of operators that run at once on behalf of one call: one.

    >>> torch.get_num_interop_threads()
    1
    """
    return 1


def set_num_interop_threads(num: int) -> None:
    """Nothing to set: one operator runs at a time.

    Raises:
        RuntimeError: a number that is not positive.

    >>> torch.set_num_interop_threads(2)
    """
    if num <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


_strict: dict[str, Any] = {"deterministic": False, "warn_only": False, "matmul": "highest"}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted; nothing changes: results are the same bits from run to run and for any number of threads.

    >>> torch.use_deterministic_algorithms(True, warn_only=True)
    >>> torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    (True, True)
    >>> torch.use_deterministic_algorithms(False)
    """
    _strict.update(deterministic=bool(mode), warn_only=bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was asked for.

    >>> torch.are_deterministic_algorithms_enabled()
    False
    """
    return _strict["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was asked to warn only.

    >>> torch.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _strict["warn_only"]


def get_float32_matmul_precision() -> str:
    """The precision of matrix products of float32, as `set_float32_matmul_precision` was told.

    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    return _strict["matmul"]


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted; on the host products of float32 are always full float32.

    Args:
        precision: ``"highest"``, ``"high"`` or ``"medium"``.

    Raises:
        ValueError: another word.

    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"{precision} is not a valid precision: 'highest', 'high' or 'medium'")
    _strict["matmul"] = precision


def compiled_with_cxx11_abi() -> bool:
    """Always true, for programs that build extensions by it.

    >>> torch.compiled_with_cxx11_abi()
    True
    """
    return True


__all__ = [
    "are_deterministic_algorithms_enabled",
    "broadcast_shapes",
    "can_cast",
    "compiled_with_cxx11_abi",
    "detach",
    "get_default_device",
    "get_device",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_complex",
    "is_conj",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_floating_point",
    "is_inference",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_storage",
    "numel",
    "promote_types",
    "result_type",
    "set_default_device",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
    "typename",
    "unique",
    "unique_consecutive",
    "use_deterministic_algorithms",
]
