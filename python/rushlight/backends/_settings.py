"""Settings of a module that hold inside a ``with`` block."""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


@contextmanager
def held(settings: dict[str, Any], values: dict[str, Any]) -> Iterator[None]:
    """Puts values into a module's namespace and the former ones back at the end."""
    before = {name: settings[name] for name in values}
    settings.update(values)
    try:
        yield
    finally:
        settings.update(before)
