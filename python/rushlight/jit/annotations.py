"""`torch.jit.annotations`: types for annotations, which programs import from here."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035 # the names that torch has

from rushlight.nn._dispatch import BroadcastingList1 as BroadcastingList1
from rushlight.nn._dispatch import BroadcastingList2 as BroadcastingList2
from rushlight.nn._dispatch import BroadcastingList3 as BroadcastingList3

__all__ = ["Any", "Dict", "List", "Optional", "Tuple", "Union"]


def __dir__() -> list[str]:
    return __all__
