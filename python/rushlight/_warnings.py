"""Warnings that stand at the user's line, however deep in this package their cause is found."""

from __future__ import annotations

import sys
import warnings

from rushlight._C import is_warn_always_enabled
from rushlight._homes import at_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_PACKAGE = __name__.partition(".")[0]


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the innermost line outside of this package; in a thread that runs nothing else, at its first line."""
    frame = sys._getframe(1)
    while _is_ours(frame) and frame.f_back is not None:
        frame = frame.f_back
    names = frame.f_globals
    registry = names.setdefault("__warningregistry__", {})
    module = names.get("__name__") or "<string>"
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry)


_told: set[str] = set()


def warn_once(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns as `warn` does, of each thing once in a process; each time after `torch.set_warn_always(True)`."""
    if message not in _told or is_warn_always_enabled():
        _told.add(message)
        warn(message, category)


class AmbiguousReduction(UserWarning):
    """A call that names no dimension, and so takes all of several; see `torch.utils.backcompat.ambiguous_reduction`.

    >>> issubclass(torch.AmbiguousReduction, UserWarning)
    True
    """


at_home(_PACKAGE, AmbiguousReduction)


def warn_of_reduction(message: str) -> None:
    """Warns of an ambiguous reduction; what this package's own lines leave out is no slip of the user's."""
    if not _is_ours(sys._getframe(1)):
        warn(message, AmbiguousReduction)


def _is_ours(frame: FrameType) -> bool:
    # Decorators and context managers of the standard library stand between two lines of ours.
    name = str(frame.f_globals.get("__name__"))
    return name.partition(".")[0] == _PACKAGE or name in ("contextlib", "functools")
