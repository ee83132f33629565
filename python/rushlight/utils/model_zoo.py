"""`torch.utils.model_zoo`: the older name of the download in `torch.hub`."""

from __future__ import annotations

from rushlight._missing_names import missing_from
from rushlight.hub import load_state_dict_from_url as load_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

__all__ = ["load_url"]


class _WithoutTqdm:
    """Takes the place of a progress bar where the package tqdm is not installed: counts, and shows nothing."""

    def __init__(self, iterable: Iterable[Any] = (), total: int | None = None, **options: Any) -> None:
        self._iterable = iterable
        self.total = total
        self.n = 0

    def __iter__(self) -> Iterator[Any]:
        for element in self._iterable:
            yield element
            self.n += 1

    def update(self, n: int = 1) -> None:
        self.n += n

    def close(self) -> None:
        pass

    def __enter__(self) -> _WithoutTqdm:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def __getattr__(name: str) -> object:
    """`tqdm`, for libraries that import it from here: that of the package tqdm, or a bar that shows nothing."""
    if name == "tqdm":
        try:
            return __import__("tqdm").tqdm
        except ImportError:
            return _WithoutTqdm
    raise missing_from("torch.utils.model_zoo", name, __dir__)


def __dir__() -> list[str]:
    return __all__
