"""A decorator with which programs say whether a function of theirs will stay as it is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """Returns a decorator that returns its argument."""
    return lambda function: function
