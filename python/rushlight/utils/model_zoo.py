"""`torch.utils.model_zoo`: the older name of the download in `torch.hub`."""

from __future__ import annotations

from rushlight.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]


def __dir__() -> list[str]:
    return __all__
