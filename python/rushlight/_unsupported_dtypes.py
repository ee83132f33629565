"""Dtypes of torch for packed numbers and for bits, which no tensor of rushlight has. Programs name them to ask."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class UnsupportedDtype:
    """A dtype that operators refuse. It is unequal to the dtype of every tensor."""

    __slots__ = ("_name", "is_complex", "is_floating_point", "is_signed", "itemsize")
    __unsupported__ = True

    def __init__(self, name: str, itemsize: int, is_signed: bool, is_floating_point: bool = False) -> None:
        self._name = name
        self.itemsize = itemsize
        self.is_floating_point = is_floating_point
        self.is_complex = False
        self.is_signed = is_signed

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> Any:
        return self._name

    def _refusal(self) -> NotImplementedError:
        """The error of a call that asks for a tensor of this dtype, in the words of torch's kernels."""
        name = self._name.replace("uint", "UInt") if "uint" in self._name else self._name
        name = f"Q{name[1:]}" if name.startswith("q") else name[0].upper() + name[1:]
        return NotImplementedError(
            f"\"empty\" not implemented for '{name}'\n  No tensor has this dtype: keep the bits in tensors of torch.uint8."
        )

    def to_real(self) -> UnsupportedDtype:
        return self


quint4x2 = UnsupportedDtype("quint4x2", 1, False)
quint2x4 = UnsupportedDtype("quint2x4", 1, False)
int1, int2, int3, int4, int5, int6, int7 = (UnsupportedDtype(f"int{bits}", 1, True) for bits in range(1, 8))
uint1, uint2, uint3, uint4, uint5, uint6, uint7 = (UnsupportedDtype(f"uint{bits}", 1, False) for bits in range(1, 8))
bits8, bits1x8, bits2x4, bits4x2 = (
    UnsupportedDtype(name, 1, False) for name in ("bits8", "bits1x8", "bits2x4", "bits4x2")
)
bits16 = UnsupportedDtype("bits16", 2, False)
bit = uint1
float4_e2m1fn_x2 = UnsupportedDtype("float4_e2m1fn_x2", 1, True, True)

__all__ = [name for name, value in list(globals().items()) if isinstance(value, UnsupportedDtype)]


def __dir__() -> list[str]:
    return __all__
