"""Sets the modules that functions and classes report as their own.

Pickles, profiles and `help` identify functions and classes by their module. They must therefore report the module in
which torch has them, even if they are defined in a private file.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def set_module(module: str, *things: Any) -> None:
    """Sets the ``__module__`` of functions and classes to the module from which programs import and unpickle them."""
    for thing in things:
        thing.__module__ = module


def set_public_module(names: dict[str, Any]) -> None:
    """Makes everything public in a module (``globals()``) that is defined in private files belong to the module."""
    for name in names.get("__all__") or names["__dir__"]():
        thing = names.get(name)
        home = getattr(thing, "__module__", None) or ""
        if callable(thing) and home.startswith("rushlight.") and "._" in home and not home.startswith("rushlight._C"):
            set_module(names["__name__"], thing)
