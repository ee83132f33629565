"""`torch.ao.pruning`: masks over weights that training keeps up to date, and schedules of how much they cover."""

from __future__ import annotations

from .scheduler.base_scheduler import BaseScheduler
from .scheduler.cubic_scheduler import CubicSL
from .scheduler.lambda_scheduler import LambdaSL
from .sparsifier.base_sparsifier import BaseSparsifier
from .sparsifier.nearly_diagonal_sparsifier import NearlyDiagonalSparsifier
from .sparsifier.utils import FakeSparsity, fqn_to_module, get_arg_info_from_tensor_fqn, module_to_fqn
from .sparsifier.weight_norm_sparsifier import WeightNormSparsifier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "BaseScheduler",
    "BaseSparsifier",
    "CubicSL",
    "FakeSparsity",
    "LambdaSL",
    "NearlyDiagonalSparsifier",
    "WeightNormSparsifier",
    "fqn_to_module",
    "get_arg_info_from_tensor_fqn",
    "module_to_fqn",
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
