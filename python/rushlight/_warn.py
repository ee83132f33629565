"""Warnings that point at the user's line."""

from __future__ import annotations

import os
import sys
import warnings

_HERE = os.path.dirname(__file__) + os.sep


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the line that called into the package, however many of its own functions lie in between."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
