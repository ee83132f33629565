"""Words for errors: the names torch prints for types, and longer texts."""

from __future__ import annotations

import rushlight as torch
from rushlight._names import missing, nearest

__all__ = ["indented", "missing", "nearest", "typename"]


def typename(value: object) -> str:
    """The name of a value's type as torch's messages write it: ``torch.FloatTensor``, ``int``, ``__main__.Net``."""
    if isinstance(value, torch.Tensor):
        return value.type()
    kind = value if isinstance(value, type) else type(value)
    home = kind.__module__
    if home == "builtins":
        return kind.__qualname__
    package = __package__.partition(".")[0]
    if home.partition(".")[0] == package:
        home = "torch" + home[len(package) :]
    return f"{home}.{kind.__qualname__}"


def indented(text: str, width: int) -> str:
    """All lines but the first moved right by ``width`` blanks."""
    return text.replace("\n", "\n" + " " * width)
