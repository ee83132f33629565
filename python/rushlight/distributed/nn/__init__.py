"""`torch.distributed.nn`: collective calls that gradients pass through."""

from __future__ import annotations

from rushlight._unsupported import declare
from rushlight.autograd import Function
from rushlight.distributed import ReduceOp, group
from rushlight.distributed.nn import functional
from rushlight.distributed.nn.functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Function",
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "functional",
    "gather",
    "group",
    "reduce",
    "reduce_scatter",
    "scatter",
    *declare(globals(), "there are no remote calls", "class RemoteModule"),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
