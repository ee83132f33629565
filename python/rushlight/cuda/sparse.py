"""`torch.cuda.sparse`: old constructors of sparse tensors on GPUs, which are refused. `torch.sparse_coo_tensor` makes these tensors."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "torch deprecated it; use torch.sparse_coo_tensor with device='cuda'",
        """
        class BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
