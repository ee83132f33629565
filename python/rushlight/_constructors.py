"""Constructors that several classes share. Each class has a copy under its own name."""

from __future__ import annotations

from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def name_constructor(cls: type[Any]) -> None:
    """Copies an inherited private constructor to the class under the class's name, which error messages show."""
    shared: Any = cls.__init__
    if not shared.__qualname__.startswith("_") or cls.__name__.startswith("_"):
        return
    own: Any = FunctionType(shared.__code__, shared.__globals__, "__init__", shared.__defaults__, shared.__closure__)
    own.__kwdefaults__, own.__annotations__ = shared.__kwdefaults__, shared.__annotations__
    own.__module__, own.__doc__, own.__qualname__ = cls.__module__, shared.__doc__, f"{cls.__qualname__}.__init__"
    cls.__init__ = own
