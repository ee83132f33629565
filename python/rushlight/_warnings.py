"""Warnings that are reported at the user's line, not at a line of this package."""

from __future__ import annotations

import sys
import warnings

from rushlight._C import is_warn_always_enabled
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_PACKAGE = __name__.partition(".")[0]


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the innermost frame outside of this package. If there is none, at the outermost frame of the thread."""
    frame = sys._getframe(1)
    while _is_ours(frame) and frame.f_back is not None:
        frame = frame.f_back
    names = frame.f_globals
    registry = names.setdefault("__warningregistry__", {})
    module = names.get("__name__") or "<string>"
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry)


def announce(message: str) -> None:
    """Warns beside an error that is about to be raised. Where warnings are errors too, the message goes to stderr."""
    try:
        warn(message)
    except Warning as warning:
        print(f"{type(warning).__name__}: {warning}", file=sys.stderr)


def warn_unpinned() -> None:
    """Warns that memory is not page-locked, because there is no GPU."""
    warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.")


_told: set[str] = set()


def warn_once(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns like `warn`, but only once per message and process. After `torch.set_warn_always(True)` it always warns."""
    if message not in _told or is_warn_always_enabled():
        _told.add(message)
        warn(message, category)


class AmbiguousReduction(UserWarning):
    """A call reduces several dimensions because it has no `dim`; see `torch.utils.backcompat.ambiguous_reduction`.

    >>> issubclass(torch.AmbiguousReduction, UserWarning)
    True
    """


set_module(_PACKAGE, AmbiguousReduction)


def warn_of_reduction(message: str) -> None:
    """Warns about an ambiguous reduction in the user's code. Calls within this package are not reported."""
    if not _is_ours(sys._getframe(1)):
        warn(message, AmbiguousReduction)


def _is_ours(frame: FrameType) -> bool:
    # Frames of the standard library's decorators and context managers can be between two frames of this package.
    name = str(frame.f_globals.get("__name__"))
    return name.partition(".")[0] == _PACKAGE or name in ("contextlib", "functools")
