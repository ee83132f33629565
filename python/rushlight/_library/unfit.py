"""Calls of the engine's operators in `torch.ops` that the function refuses: by numbers, or with torch's words about schemas."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.ops import OpOverload

__all__ = ["fitting"]


def fitting(overloads: Sequence[OpOverload], args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpOverload | None:
    """The first overload that takes the arguments, or None if there is none with a known schema.

    Raises:
        RuntimeError: no schema takes them.
    """
    errors: list[str] = []
    for overload in overloads:
        try:
            schema = overload._schema
        except AttributeError:
            continue
        try:
            schema.bind(args, kwargs)
        except RuntimeError as error:
            errors.append(str(error))
        else:
            return overload
    if not errors:
        return None
    head = "Overloaded torch operator invoked from Python failed to match any schema:\n" if len(errors) > 1 else ""
    raise RuntimeError(head + "\n\n".join(errors)) from None
