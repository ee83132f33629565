"""Text for error messages: the names that torch prints for types, and indentation."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["indented", "kind_of", "must_be_tensor", "typename", "with_shapes"]


def typename(value: object) -> str:
    """The name of a value's type as in torch's messages: ``torch.FloatTensor``, ``int``, ``__main__.Net``."""
    if isinstance(value, torch.Tensor):
        return value.type()
    # Classes and functions are shown with their own names.
    kind: Any = value if hasattr(value, "__qualname__") else type(value)
    home = getattr(kind, "__module__", None)
    if home in ("builtins", None):
        return str(kind.__qualname__)
    package = __package__.partition(".")[0]
    if home.partition(".")[0] == package:
        home = "torch" + home[len(package) :]
    return f"{home}.{kind.__qualname__}"


def kind_of(value: object) -> str:
    """The name of a value's type in torch's messages about arguments, with the module for classes written in C."""
    kind = type(value)
    if isinstance(value, (torch.dtype, torch.device)):
        return f"torch.{kind.__name__}"
    made_in_python = kind.__flags__ & 1 << 9
    return kind.__name__ if made_in_python or kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def indented(text: str, width: int) -> str:
    """Indents all lines except the first by ``width`` spaces."""
    return text.replace("\n", "\n" + " " * width)


def with_shapes(sentence: str, function: str, *shapes: Sequence[int]) -> str:
    """A message about shapes that do not fit together, in the form of the engine's for operators that do not broadcast."""
    widths = [0] * max(map(len, shapes))
    for shape in shapes:
        widths[: len(shape)] = [max(width, len(str(size))) for width, size in zip(widths, shape)]
    lines = [sentence, f"  in {function} with shapes:"]
    lines += [f"    ({', '.join(str(size).rjust(width) for size, width in zip(shape, widths))})" for shape in shapes]
    return "\n".join(lines)


def must_be_tensor(function: str, argument: str, position: int, value: object) -> None:
    """Raises the TypeError that operators raise for an argument that is not a tensor."""
    if not isinstance(value, torch.Tensor):
        kind = kind_of(value)
        raise TypeError(f"{function}(): argument '{argument}' (position {position}) must be Tensor, not {kind}")
