"""`finfo` and `iinfo`: the limits of dtypes."""

from __future__ import annotations

from rushlight import _C
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RESOLUTIONS = {_C.float16: 1e-3, _C.bfloat16: 1e-2, _C.float32: 1e-6, _C.float64: 1e-15}


def _of_format(exponent: int, fraction: int) -> tuple[float, float, float]:
    """eps, the smallest normal and the greatest number of a format with infinities, by its bits."""
    eps = 2.0**-fraction
    return eps, 2.0 ** (2 - 2 ** (exponent - 1)), (2.0 - eps) * 2.0 ** (2 ** (exponent - 1) - 1)


_LIMITS = {
    _C.float16: _of_format(5, 10),
    _C.bfloat16: _of_format(8, 7),
    _C.float32: _of_format(8, 23),
    _C.float64: _of_format(11, 52),
    _C.float8_e5m2: _of_format(5, 2),
    _C.float8_e4m3fn: (0.125, 2.0**-6, 448.0),
    # torch's eps; the step after 1 is 0.25.
    _C.float8_e5m2fnuz: (0.125, 2.0**-15, 57344.0),
    _C.float8_e4m3fnuz: (0.125, 2.0**-7, 240.0),
    _C.float8_e8m0fnu: (1.0, 2.0**-127, 2.0**127),
}


class _Info:
    """The common base: the dtype, comparison, immutability."""

    __slots__ = ("_dtype",)
    _dtype: _C.dtype
    _shown: tuple[str, ...] = ()

    @property
    def bits(self) -> int:
        return self._dtype.itemsize * 8

    @property
    def dtype(self) -> str:
        return repr(self._dtype).partition(".")[2]

    def __eq__(self, other: object) -> bool:
        return self._dtype == other._dtype if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._dtype))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name):g}" for name in self._shown)
        return f"{type(self).__name__}({fields}, dtype={self.dtype})"


def _checked(name: str, type: Any) -> _C.dtype:
    if not isinstance(type, _C.dtype) and not hasattr(type, "__unsupported__"):
        raise TypeError(f"{name}(): argument 'type' (position 1) must be torch.dtype, not {type.__class__.__name__}")
    return type


class finfo(_Info):
    """The limits of a floating-point dtype. For a complex dtype, those of its parts.

    >>> torch.finfo(torch.float32).eps
    1.1920928955078125e-07
    """

    __slots__ = ()
    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type: _C.dtype | None = None) -> None:
        if type is None:
            type = _C.get_default_dtype()
        if not (_checked("finfo", type).is_floating_point or type.is_complex):
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
            )
        self._dtype = type.to_real()

    @property
    def eps(self) -> float:
        return _LIMITS[self._dtype][0]

    @property
    def max(self) -> float:
        return _LIMITS[self._dtype][2]

    @property
    def min(self) -> float:
        return -self.max if self._dtype.is_signed else self.tiny

    @property
    def smallest_normal(self) -> float:
        return _LIMITS[self._dtype][1]

    tiny = smallest_normal

    @property
    def resolution(self) -> float:
        return _RESOLUTIONS.get(self._dtype, 1.0)


class iinfo(_Info):
    """The limits of an integer dtype.

    >>> torch.iinfo(torch.int8).max
    127
    """

    __slots__ = ()
    _shown = ("min", "max")

    def __init__(self, type: _C.dtype) -> None:
        if _checked("iinfo", type) == _C.bool:
            raise TypeError(f"{type} is not supported by torch.iinfo")
        if type.is_floating_point or type.is_complex:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        self._dtype = type

    @property
    def max(self) -> int:
        return 2 ** (self.bits - self._dtype.is_signed) - 1

    @property
    def min(self) -> int:
        return -self.max - 1 if self._dtype.is_signed else 0


set_module("rushlight", finfo, iinfo)
