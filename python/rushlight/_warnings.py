"""Warnings that stand at the user's line, however deep in this package their cause is found."""

from __future__ import annotations

import sys
import warnings

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


def _is_ours(frame: FrameType) -> bool:
    # Decorators and context managers of the standard library stand between two lines of ours.
    name = str(frame.f_globals.get("__name__"))
    return name.partition(".")[0] == _PACKAGE or name in ("contextlib", "functools")
