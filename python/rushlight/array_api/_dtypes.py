"""The standard's functions of dtypes, and information about the namespace."""

from __future__ import annotations

from collections import namedtuple

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KINDS = {
    "bool": (torch.bool,),
    "signed integer": (torch.int8, torch.int16, torch.int32, torch.int64),
    "unsigned integer": (torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    "real floating": (torch.float32, torch.float64),
    "complex floating": (torch.complex64, torch.complex128),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def _category(dtype: Any) -> int:
    """The position of a dtype or of the type of a number in the order bool, int, float, complex."""
    if not isinstance(dtype, torch.dtype):
        return [bool, int, float, complex].index(dtype)
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else int(dtype is not torch.bool)


def with_number(dtype: torch.dtype, number: complex) -> torch.dtype:
    """The dtype of an operation of an array and a Python number: the array's, unless the number is of a higher kind."""
    kind = type(number) if type(number) in (bool, int, float, complex) else float
    if _category(kind) <= _category(dtype):
        return dtype
    if kind is complex:
        return torch.complex128 if dtype is torch.float64 else torch.complex64
    return torch.get_default_dtype() if kind is float else torch.int64


def astype(x: torch.Tensor, dtype: torch.dtype, /, *, copy: bool = True, device: Any = None) -> torch.Tensor:
    """Casts to another dtype."""
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


def can_cast(from_: torch.dtype | torch.Tensor, to: torch.dtype, /) -> bool:
    """Whether the standard allows promotion from one dtype to the other."""
    given = from_.dtype if isinstance(from_, torch.Tensor) else from_
    return torch.promote_types(given, to) is to


finfo_object = namedtuple("finfo_object", "bits eps max min smallest_normal dtype")
iinfo_object = namedtuple("iinfo_object", "bits max min dtype")


def finfo(type: torch.dtype | torch.Tensor, /) -> Any:
    """The limits of a floating-point dtype. For a complex dtype, those of its parts."""
    dtype = type.dtype if isinstance(type, torch.Tensor) else type
    own = torch.finfo(dtype)
    real = dtype.to_real() if dtype.is_complex else dtype
    return finfo_object(own.bits, own.eps, own.max, own.min, own.smallest_normal, real)


def iinfo(type: torch.dtype | torch.Tensor, /) -> Any:
    """The limits of an integer dtype."""
    dtype = type.dtype if isinstance(type, torch.Tensor) else type
    own = torch.iinfo(dtype)
    return iinfo_object(own.bits, own.max, own.min, dtype)


def isdtype(dtype: torch.dtype, kind: Any) -> bool:
    """Whether a dtype is of a kind: a name, a dtype, or a tuple of them.

    >>> torch.ones(1).__array_namespace__().isdtype(torch.int8, "integral")
    True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"unrecognized data type kind: {kind!r}; known are {', '.join(map(repr, _KINDS))}")
        return dtype in _KINDS[kind]
    return dtype == kind


def result_type(*arrays_and_dtypes: Any) -> torch.dtype:
    """The result dtype of tensors, dtypes and numbers. Zero-dimensional tensors have no lower priority."""
    found = None
    numbers = []
    for one in arrays_and_dtypes:
        if isinstance(one, torch.Tensor):
            one = one.dtype
        if not isinstance(one, torch.dtype):
            numbers.append(one)
        else:
            found = one if found is None else torch.promote_types(found, one)
    if found is None:
        raise ValueError("result_type needs at least one array or dtype")
    for number in numbers:
        found = with_number(found, number)
    return found


class _Info:
    """The capabilities of the namespace, in the standard's terms."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and data-dependent shapes are supported; at most 64 dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> torch.device:
        """The default device of new arrays."""
        return torch.get_default_device()

    def devices(self) -> list[torch.device]:
        """All devices."""
        return [torch.device("cpu"), *(torch.device("cuda", n) for n in range(torch.cuda.device_count()))]

    def default_dtypes(self, *, device: Any = None) -> dict[str, torch.dtype]:
        """The default dtypes of new arrays."""
        real = torch.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": torch.complex128 if real is torch.float64 else torch.complex64,
            "integral": torch.int64,
            "indexing": torch.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, torch.dtype]:
        """The dtypes of a kind, or all dtypes, by name."""
        known = _KINDS["bool"] + _KINDS["numeric"]
        return {str(one).removeprefix("torch."): one for one in known if kind is None or isdtype(one, kind)}


def __array_namespace_info__() -> _Info:
    """The capabilities of the namespace."""
    return _Info()
