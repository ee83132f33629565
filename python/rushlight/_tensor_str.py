"""`torch._tensor_str`: the text of a tensor's elements, and the options of `set_printoptions` as attributes."""

from __future__ import annotations

from contextlib import contextmanager

from rushlight import _printing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor

# The width of `tensor(`, by which the engine indents.
_INDENT = 7


class _PrintOptions:
    """The current options, as attributes that can be read and set."""

    def __getattr__(self, name: str) -> Any:
        if name not in _printing._options:
            raise AttributeError(f"print options have no attribute {name!r}")
        return _printing._options[name]

    def __setattr__(self, name: str, value: Any) -> None:
        # Without `sci_mode`, `set_printoptions` would reset it.
        _printing.set_printoptions(**{"sci_mode": self.sci_mode, name: value})


PRINT_OPTS = _PrintOptions()


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Sets options of `torch.set_printoptions` for the statements inside.

    >>> with torch._tensor_str.printoptions(precision=1):
    ...     print(torch.tensor(0.25))
    tensor(0.2)
    """
    before = _printing.get_printoptions()
    _printing.set_printoptions(**kwargs)
    try:
        yield
    finally:
        _printing.set_printoptions(**before)


def _tensor_str(self: Tensor, indent: int) -> str:
    """The elements as `repr` shows them, with lines indented by ``indent`` characters."""
    width = PRINT_OPTS.linewidth
    PRINT_OPTS.linewidth = width + _INDENT - indent
    try:
        text = repr(self.detach()).removeprefix("tensor(")
    finally:
        PRINT_OPTS.linewidth = width
    end = text.rfind("]") + 1 or min(place for place in (text.find(","), text.rfind(")")) if place >= 0)
    return text[:end].replace("\n" + " " * _INDENT, "\n" + " " * indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """A text and the facts behind it, in a new line where one is too long, and a closing bracket.

    Args:
        tensor_str: the text so far.
        suffixes: the facts: ``"device='meta'"``.
        indent: the width by which new lines are indented.
        force_newline: whether the first fact begins a line.
    """
    parts, column = [tensor_str], len(tensor_str) - tensor_str.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or column + len(suffix) + 2 > PRINT_OPTS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            column, force_newline = indent + len(suffix), False
        else:
            parts.append(", " + suffix)
            column += len(suffix) + 2
    return "".join(parts) + ")"
