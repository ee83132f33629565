"""Quantisation that rewrites a model's code, which rushlight does not have."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "models are quantised by the classes of their modules, with torch.ao.quantization.prepare and convert",
        "convert_fx convert_to_reference_fx fuse_fx prepare_fx prepare_qat_fx",
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
