"""The operators of `torch.ops.profiler`: named ranges in a profile, opened and closed by two calls."""

from __future__ import annotations

import itertools

import rushlight as torch
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor

__all__ = ["_record_function_enter", "_record_function_enter_new", "_record_function_exit"]

_numbers = itertools.count()
#: The ranges that tensors stand for.
_open: dict[int, _Range] = {}


class _Range:
    """A range that has begun. It stays in a profile only if there was a profiler when it began."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._began = _C._profile_begin(name)

    def close(self) -> None:
        """Ends the range; a second time it has no effect."""
        began, self._began = self._began, None
        if began is not None:
            _C._profile_end(began, self.name)


def _record_function_enter_new(name: str, args: str | None = None) -> _Range:
    """Begins a named range, which ``_record_function_exit`` ends. ``args`` has no effect.

    >>> handle = torch.ops.profiler._record_function_enter_new("loading", None)
    >>> torch.ops.profiler._record_function_exit._RecordFunction(handle)
    """
    return _Range(name)


def _record_function_enter(name: str, args: str | None = None) -> Tensor:
    """The same with a tensor as handle."""
    number = next(_numbers)
    handle = torch.tensor(list(number.to_bytes(8, "little")), dtype=torch.uint8)
    _open[number] = _Range(name)
    return handle


def _record_function_exit(handle: _Range | Tensor) -> None:
    """Ends a range.

    Raises:
        RuntimeError: the handle is not one of a range that has begun.
    """
    begun: object = handle
    if isinstance(handle, torch.Tensor):
        bytes_of = handle.tolist() if handle.dtype is torch.uint8 and handle.shape == (8,) else []
        begun = _open.pop(int.from_bytes(bytes_of, "little"), None) if bytes_of else None
    if not isinstance(begun, _Range):
        raise RuntimeError("Expected temporary cpp type wrapper")
    begun.close()


#: The overload for handles of `_record_function_enter_new`; other names of overloads begin without an underscore.
_record_function_exit.overloads = ("_RecordFunction",)  # type: ignore[attr-defined]
