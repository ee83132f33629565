"""Where functions and classes say that they live.

Pickles, profiles and `help` name them by their module, so they live where programs (and torch's files) have them, also where a
file of its own holds their text.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def at_home(module: str, *things: Any) -> None:
    """Lets functions and classes bear the name of the module that programs import and unpickle them from."""
    for thing in things:
        thing.__module__ = module


def adopt(names: dict[str, Any]) -> None:
    """What a module (these are its ``globals()``) shows to users, and private files hold, lives in the module."""
    for name in names.get("__all__") or names["__dir__"]():
        thing = names.get(name)
        home = getattr(thing, "__module__", None) or ""
        if callable(thing) and home.startswith("rushlight.") and "._" in home and not home.startswith("rushlight._C"):
            at_home(names["__name__"], thing)
