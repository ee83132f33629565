"""Sets of names that are given by patterns."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class GlobGroup:
    """The names that match one of some patterns, and none of others. In a pattern ``*`` is any text within a part of a
    name, and ``**`` is any number of parts.

    Args:
        include, exclude: a pattern, or several.
        separator: what parts the names.

    Raises:
        ValueError: ``**`` is not a whole part.

    >>> group = torch.package.GlobGroup("torch.**", exclude="torch.nn.*")
    >>> group.matches("torch.optim.adam"), group.matches("torch.nn.functional")
    (True, False)
    """

    def __init__(
        self, include: str | Iterable[str], *, exclude: str | Iterable[str] = (), separator: str = "."
    ) -> None:
        self._texts = f"include={include}, exclude={exclude}"
        self.separator = separator
        self.include = self._compiled(include)
        self.exclude = self._compiled(exclude)

    def __repr__(self) -> str:
        return f"GlobGroup({self._texts})"

    def matches(self, candidate: str) -> bool:
        """Whether a name is in the set."""
        name = self.separator + candidate
        return any(one.fullmatch(name) for one in self.include) and not any(one.fullmatch(name) for one in self.exclude)

    def _compiled(self, patterns: str | Iterable[str]) -> list[re.Pattern[str]]:
        given = [patterns] if isinstance(patterns, str) else patterns
        return [re.compile("".join(map(self._part, one.split(self.separator)))) for one in given]

    def _part(self, part: str) -> str:
        between = re.escape(self.separator)
        if part == "**":
            return f"({between}[^{between}]+)*"
        if "**" in part:
            raise ValueError("** can only appear as an entire path segment")
        return between + f"[^{between}]*".join(map(re.escape, part.split("*")))
