"""The library for quantised operators, of which there is one.

It computes as torch's ``"fbgemm"`` and ``"x86"`` do. Other engines' names are refused.

>>> torch.backends.quantized.engine
'x86'
"""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["engine", "supported_engines"]

engine: str
supported_engines: list[str] = ["x86", "fbgemm"]


class _Quantized(ModuleType):
    """The module, whose ``engine`` is checked when it is set."""

    _engine = "x86"

    @property
    def engine(self) -> str:
        """The name of the library."""
        return self._engine

    @engine.setter
    def engine(self, name: str) -> None:
        if name not in ("qnnpack", "none", "onednn", *supported_engines):
            raise RuntimeError(f"{name} is not a valid value for quantized engine")
        if name not in supported_engines:
            raise RuntimeError(f"quantized engine {name} is not supported")
        self._engine = name


sys.modules[__name__].__class__ = _Quantized


def __dir__() -> list[str]:
    return __all__
