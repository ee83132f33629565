"""Functions and classes of torch for what rushlight does not support: devices, compilers, file formats.

Programs import these names and ask them whether they are available, without a guard. A module declares its names in a
text, and `declare` makes them:

    device_count() = 0        a function that returns this value
    set_device(device)        a function that raises the error that the module's `_refuse` makes for its name
    synchronize() : wait      the same, with another text for `_refuse`
    class Event(timing=False) a class that cannot be instantiated, for the same reason
    error ExportError(OSError)  an exception, which is never raised
    trace replay              several functions that are refused with any arguments
    class Graph Node          several such classes

A module without `_refuse` raises NotImplementedError with the reason, and what it refuses has the attribute ``__unsupported__``,
so that lists of what exists can leave it out. A module whose names belong to another one says so: ``_PUBLIC = "torch"``.
"""

from __future__ import annotations

import re

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_LINE = re.compile(r"(class |error )?((\w+)\(.*?\))(?: = (.+)| : (.+))?")
_WORDS = re.compile(r"(class )?(\w+(?: \w+)*)")


def declare(namespace: dict[str, Any], because: str, text: str) -> list[str]:
    """Makes the names of a text in a module.

    Args:
        namespace: the module's ``globals()``. It may have ``_refuse(text)``, which returns or raises an error.
        because: why there is nothing behind the names, for docstrings and errors: ``"there is no such device"``.
        text: the names, as described above.

    Returns:
        the names.
    """
    public = namespace.get("_PUBLIC") or namespace["__name__"].replace("rushlight", "torch", 1)
    namespace.setdefault("_refuse", lambda name: NotImplementedError(f"{public}.{name} is not available: {because}."))
    # Refusals of a module with `_refuse` are those of torch on a machine without the device.
    unsupported = namespace["_refuse"].__module__ == __name__
    parts, names = [], []
    for line in _single(text):
        found = _LINE.fullmatch(line)
        assert found is not None, line
        kind, signature, name, value, torch_name = found.groups()
        names.append(name)
        refusal = f"raise _refuse({(torch_name or name)!r})"
        if kind == "error ":
            doc = f"An exception that is never raised, because {because}."
            parts.append(f"class {signature}:\n    {doc!r}\n")
        elif kind == "class ":
            inside = signature.removeprefix(f"{name}(")
            inside = inside if inside == ")" else f", {inside}"
            doc = f"Cannot be instantiated, because {because}."
            parts.append(
                f"class {name}:\n    {doc!r}\n    __unsupported__ = {unsupported}\n    def __init__(self{inside}:\n        {refusal}\n"
            )
        elif value is None:
            doc = f"Refuses every call, because {because}."
            parts.append(f"def {signature}:\n    {doc!r}\n    {refusal}\n{name}.__unsupported__ = {unsupported}\n")
        else:
            doc = f"{'Has no effect' if value == 'None' else f'Returns ``{value}``'}, because {because}."
            if not re.search(r"[(,] ?[a-z_]+[,)]", signature):
                doc += f"\n\n>>> {public}.{name}()\n" + ("" if value == "None" else f"{value}\n")
            parts.append(f"def {signature}:\n    {doc!r}\n    return {value}\n")
    # Annotations stay texts. The statement that says so would leave its name in the module.
    lazily = annotations.compiler_flag
    exec(compile("".join(parts), f"<names of {public}>", "exec", lazily, dont_inherit=True), namespace)
    set_module(public.replace("torch", "rushlight", 1), *(namespace[name] for name in names))
    return names


def _single(text: str) -> Iterator[str]:
    """The lines of a text, with one line for each name."""
    for line in filter(None, map(str.strip, text.splitlines())):
        words = _WORDS.fullmatch(line)
        if words is None:
            yield line
        else:
            for word in words[2].split():
                yield f"{words[1] or ''}{word}(*args, **kwargs)"
