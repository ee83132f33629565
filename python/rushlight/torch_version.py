"""`torch.torch_version`: the type of `torch.__version__` in programs that run in torch's place."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["TorchVersion"]

_PARTS = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)(?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_number>\d*))?"
    r"(?P<post>-(?P<dash_number>\d+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_number>\d*))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<dev_number>\d*))?(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.IGNORECASE,
)


def _key(text: str) -> tuple:
    """A tuple that orders versions as PEP 440 does.

    Raises:
        ValueError: the text is no version.
    """
    found = _PARTS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"Invalid version: {text!r}")
    release = [int(part) for part in found["release"].split(".")]
    while release and release[-1] == 0:
        release.pop()
    # A part that is absent comes after alpha, beta and rc, but before post. A development version comes before its version.
    early = {"a": 0, "b": 1}.get((found["pre"] or "")[:1].lower(), 2)
    pre = (early, int(found["pre_number"] or 0))
    if not found["pre"]:
        pre = (-1 if found["dev"] and not found["post"] else 3, 0)
    post = int(found["dash_number"] or found["post_number"] or 0) if found["post"] else -1
    dev = (0, int(found["dev_number"] or 0)) if found["dev"] else (1, 0)
    # Numbers come after words, and longer local versions after shorter ones.
    parts = re.split("[-_.]", found["local"].lower()) if found["local"] else []
    local = [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]
    return int(found["epoch"] or 0), release, pre, post, dev, local


class TorchVersion(str):
    """A string that compares as a version with strings and with tuples of numbers.

    >>> TorchVersion = torch.torch_version.TorchVersion
    >>> TorchVersion("2.13.0") > "2.9", TorchVersion("2.13.0") >= (2, 13)
    (True, True)
    """

    __slots__ = ()

    def _compare(self, other: object, method: str) -> bool:
        own = getattr(str, method)
        if not isinstance(other, str):
            if not isinstance(other, Iterable):
                return own(self, other)
            text = ".".join(map(str, other))
        else:
            text = str(other)
        try:
            return getattr(_key(self), method)(_key(text))
        except ValueError:
            return own(self, other)

    def __eq__(self, other: object) -> bool:
        return self._compare(other, "__eq__")

    def __lt__(self, other: object) -> bool:
        return self._compare(other, "__lt__")

    def __le__(self, other: object) -> bool:
        return self._compare(other, "__le__")

    def __gt__(self, other: object) -> bool:
        return self._compare(other, "__gt__")

    def __ge__(self, other: object) -> bool:
        return self._compare(other, "__ge__")

    __hash__ = str.__hash__


def __dir__() -> list[str]:
    return __all__
