"""Words for errors: the names torch prints for types, and longer texts."""

from __future__ import annotations

from types import FunctionType

import rushlight as torch
from rushlight._names import missing, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["indented", "missing", "name_constructor", "nearest", "typename"]


def typename(value: object) -> str:
    """The name of a value's type as torch's messages write it: ``torch.FloatTensor``, ``int``, ``__main__.Net``."""
    if isinstance(value, torch.Tensor):
        return value.type()
    # A class, or a function, is told by its own name.
    kind: Any = value if hasattr(value, "__qualname__") else type(value)
    home = getattr(kind, "__module__", None)
    if home in ("builtins", None):
        return str(kind.__qualname__)
    package = __package__.partition(".")[0]
    if home.partition(".")[0] == package:
        home = "torch" + home[len(package) :]
    return f"{home}.{kind.__qualname__}"


def name_constructor(cls: type[torch.nn.Module]) -> None:
    """Gives a class that inherits its constructor from a private one a copy under its own name, which errors tell."""
    shared: Any = cls.__init__
    if not shared.__qualname__.startswith("_") or cls.__name__.startswith("_"):
        return
    own: Any = FunctionType(shared.__code__, shared.__globals__, "__init__", shared.__defaults__, shared.__closure__)
    own.__kwdefaults__, own.__annotations__ = shared.__kwdefaults__, shared.__annotations__
    own.__module__, own.__doc__, own.__qualname__ = cls.__module__, shared.__doc__, f"{cls.__qualname__}.__init__"
    cls.__init__ = own  # type: ignore[method-assign]


def indented(text: str, width: int) -> str:
    """All lines but the first moved right by ``width`` blanks."""
    return text.replace("\n", "\n" + " " * width)
