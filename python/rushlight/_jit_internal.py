"""Private names of TorchScript's compiler that libraries use. Nothing is compiled, so that marks have no effect."""

from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar, Union  # noqa: UP035 # as programs import them

from rushlight.jit import _as_it_is
from rushlight.nn._dispatch import BroadcastingList1, BroadcastingList2, BroadcastingList3, boolean_dispatch

__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Callable",
    "Dict",
    "List",
    "Optional",
    "Tuple",
    "TypeVar",
    "Union",
    "boolean_dispatch",
]

_copy_to_script_wrapper = export = _as_it_is
