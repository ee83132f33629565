"""The parameters of torch's kernels in Triton for block-sparse matrices, which rushlight does not have."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [*declare(globals(), "there are no kernels in Triton", "get_meta minimize update")]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
