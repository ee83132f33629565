"""Settings of oneDNN, which is not used."""

from __future__ import annotations

from ._settings import held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

enabled: bool = True
deterministic: bool = False
allow_tf32: bool = True


def is_available() -> bool:
    """Whether oneDNN is there."""
    return False


def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True) -> Any:
    """The settings inside a ``with`` block."""
    return held(globals(), locals().copy())
