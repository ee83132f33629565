"""Errors for names that do not exist, which propose the nearest one that does."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The existing name that ``name`` was most likely meant to be, or None."""

    def folded(word: str) -> str:
        return word.replace("_", "").lower()

    pool = [word for word in names if name.startswith("_") or not word.startswith("_")]
    for word in pool:
        if folded(word) == folded(name):
            return word
    from difflib import get_close_matches

    found = get_close_matches(name, pool, 1, 0.75)
    if found:
        return found[0]
    return next((word for word in pool if name.lower() in _abbreviations(word)), None)


def _abbreviations(name: str) -> list[str]:
    """``name`` with two or more of its first words as their initials: ``bce_with_logits``."""
    words = [word for word in name.lower().split("_") if word]
    heads = ("".join(word[0] for word in words[:count]) for count in range(2, len(words) + 1))
    return ["_".join((head, *words[count:])) for count, head in enumerate(heads, 2)]


class MissingName(AttributeError):
    """An AttributeError that looks for the nearest name only when it is printed, so that ``hasattr`` stays cheap."""

    names: Callable[[], Iterable[str]]

    def __str__(self) -> str:
        near = nearest(self.name or "", self.names())
        return self.args[0] if near is None else f"{self.args[0]}\nDid you mean '{near}'?"

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return AttributeError, (str(self),)


# What programs see and print is an AttributeError.
MissingName.__module__, MissingName.__qualname__, MissingName.__name__ = "builtins", "AttributeError", "AttributeError"


def missing(sentence: str, name: str, names: Callable[[], Iterable[str]]) -> MissingName:
    """The error for a name that does not exist; ``names`` tells which do."""
    # `obj` is given so that the interpreter does not add a second proposal of its own.
    error = MissingName(sentence, name=name, obj=None)
    error.names = names
    return error
