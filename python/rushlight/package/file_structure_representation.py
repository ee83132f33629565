"""The files of a package as a tree."""

from __future__ import annotations

from .glob_group import GlobGroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Directory:
    """A folder of a package with what is in it; `str` draws the tree. A file is one without children.

    >>> import io
    >>> tree = torch.package.Directory("parts", True)
    >>> tree.children["one.txt"] = torch.package.Directory("one.txt", False)
    >>> print(tree, end="")
    ─── parts
        └── one.txt
    """

    def __init__(self, name: str, is_dir: bool) -> None:
        self.name = name
        self.is_dir = is_dir
        self.children: dict[str, Directory] = {}

    def has_file(self, filename: str) -> bool:
        """Whether there is a file at a path, whose parts ``/`` separates."""
        found = self
        for part in filename.split("/"):
            if part not in found.children:
                return False
            found = found.children[part]
        return not found.is_dir

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in (f"─── {self.name}", *self._lines("    ")))

    def _lines(self, before: str) -> Iterator[str]:
        own = sorted(self.children.values(), key=lambda child: (not child.is_dir, child.name))
        for child in own:
            last = child is own[-1]
            yield f"{before}{'└' if last else '├'}── {child.name}"
            yield from child._lines(before + ("    " if last else "│   "))


def tree_of(name: str, paths: Iterable[str], include: str | Iterable[str], exclude: str | Iterable[str]) -> Directory:
    """The tree of the paths that match patterns."""
    wanted = GlobGroup(include, exclude=exclude, separator="/")
    tree = Directory(name, True)
    for path in paths:
        if wanted.matches(path):
            *folders, file = path.split("/")
            folder = tree
            for part in folders:
                folder = folder.children.setdefault(part, Directory(part, True))
            folder.children[file] = Directory(file, False)
    return tree
