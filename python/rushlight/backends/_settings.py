"""Settings of a module that are changed for a ``with`` block."""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


@contextmanager
def temporary_settings(settings: dict[str, Any], values: dict[str, Any]) -> Iterator[None]:
    """Sets values in the namespace of a module and restores the old ones at the end."""
    before = {name: settings[name] for name in values}
    settings.update(values)
    try:
        yield
    finally:
        settings.update(before)
