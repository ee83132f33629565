"""`torch.cuda.sparse`: the legacy types of sparse tensors on GPUs. Sparse tensors are on the CPU alone, so that these are refused."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "sparse tensors are on the CPU alone",
        """
        class BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
