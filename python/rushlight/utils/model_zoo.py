"""`torch.utils.model_zoo`: the older name of the download in `torch.hub`."""

from __future__ import annotations

from rushlight._names import missing_from
from rushlight.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]


def __getattr__(name: str) -> object:
    """`tqdm`, for libraries that import it from here: that of the package tqdm."""
    if name == "tqdm":
        return __import__("tqdm").tqdm
    raise missing_from("torch.utils.model_zoo", name, __dir__)


def __dir__() -> list[str]:
    return __all__
