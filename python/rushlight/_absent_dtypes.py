"""Dtypes of torch that pack several integers in a byte, which no tensor of rushlight has. Programs name them to ask."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class AbsentDtype:
    """A dtype that operators refuse. It is unequal to the dtype of every tensor."""

    __slots__ = ("_name", "is_complex", "is_floating_point", "is_signed", "itemsize")
    __absent__ = True

    def __init__(self, name: str, itemsize: int, is_signed: bool) -> None:
        self._name = name
        self.itemsize = itemsize
        self.is_floating_point = False
        self.is_complex = False
        self.is_signed = is_signed

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> Any:
        return self._name

    def to_real(self) -> AbsentDtype:
        return self


quint4x2 = AbsentDtype("quint4x2", 1, False)
quint2x4 = AbsentDtype("quint2x4", 1, False)

__all__ = [name for name, value in list(globals().items()) if isinstance(value, AbsentDtype)]


def __dir__() -> list[str]:
    return __all__
