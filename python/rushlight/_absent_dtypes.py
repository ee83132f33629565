"""Dtypes of torch that no tensor of rushlight has. Programs name them to ask whether a tensor has one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class AbsentDtype:
    """A dtype that operators refuse. It is unequal to the dtype of every tensor."""

    __slots__ = ("_name", "is_complex", "is_floating_point", "is_signed", "itemsize")
    __absent__ = True

    def __init__(self, name: str, itemsize: int, is_floating_point: bool, is_signed: bool) -> None:
        self._name = name
        self.itemsize = itemsize
        self.is_floating_point = is_floating_point
        self.is_complex = False
        self.is_signed = is_signed

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> Any:
        return self._name

    def to_real(self) -> AbsentDtype:
        return self


float8_e4m3fn = AbsentDtype("float8_e4m3fn", 1, True, True)
float8_e4m3fnuz = AbsentDtype("float8_e4m3fnuz", 1, True, True)
float8_e5m2 = AbsentDtype("float8_e5m2", 1, True, True)
float8_e5m2fnuz = AbsentDtype("float8_e5m2fnuz", 1, True, True)
float8_e8m0fnu = AbsentDtype("float8_e8m0fnu", 1, True, False)
qint8 = AbsentDtype("qint8", 1, False, True)
qint32 = AbsentDtype("qint32", 4, False, True)
quint8 = AbsentDtype("quint8", 1, False, False)
quint4x2 = AbsentDtype("quint4x2", 1, False, False)
quint2x4 = AbsentDtype("quint2x4", 1, False, False)

#: The largest and smallest value, the distance from 1 to the next value, and the smallest normal value.
LIMITS = {
    float8_e4m3fn: (448.0, -448.0, 0.125, 2.0**-6),
    float8_e4m3fnuz: (240.0, -240.0, 0.125, 2.0**-7),
    float8_e5m2: (57344.0, -57344.0, 0.25, 2.0**-14),
    float8_e5m2fnuz: (57344.0, -57344.0, 0.125, 2.0**-15),
    float8_e8m0fnu: (2.0**127, 2.0**-127, 1.0, 2.0**-127),
}

__all__ = [name for name, value in list(globals().items()) if isinstance(value, AbsentDtype)]


def __dir__() -> list[str]:
    return __all__
