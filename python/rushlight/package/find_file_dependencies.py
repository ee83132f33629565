"""The modules that a source names where it imports."""

from __future__ import annotations

import ast
from importlib.util import resolve_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def find_files_source_depends_on(src: str, package: str) -> list[tuple[str, str | None]]:
    """The modules that a source imports, each with the name that is imported from it: a function, or a module below it.

    ``import`` statements are found wherever they are in the source, and calls of ``__import__`` with a text.

    Args:
        src: the source.
        package: the package that it belongs to, for relative imports.

    Raises:
        SyntaxError: the text is no source.

    >>> torch.package.find_file_dependencies.find_files_source_depends_on("import math\\nfrom . import part", "pack")
    [('math', None), ('pack', 'part')]
    """
    found: dict[tuple[str, str | None], None] = {}
    for node in ast.walk(ast.parse(src)):
        found.update(dict.fromkeys(_imported(node, package)))
    return list(found)


def _imported(node: ast.AST, package: str) -> Iterator[tuple[str, str | None]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, None) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from _parts(node.module or "", node.level, package, [alias.name for alias in node.names])
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "__import__":
        names = ("name", "globals", "locals", "fromlist", "level")
        given: dict[str | None, ast.expr] = dict(zip(names, node.args))
        given.update((keyword.arg, keyword.value) for keyword in node.keywords)
        try:
            values = {name: ast.literal_eval(given[name]) for name in ("name", "fromlist", "level") if name in given}
        except ValueError:
            return  # only the program knows what is imported
        if isinstance(values.get("name"), str):
            wanted = values.get("fromlist")
            yield from _parts(values["name"], values.get("level", 0), package, list(wanted) if wanted else [None])


def _parts(name: str, level: int, package: str, wanted: list[str | None]) -> Iterator[tuple[str, str | None]]:
    whole = resolve_name("." * level + name, package) if level else name
    return ((whole, None if one == "*" else one) for one in wanted)
