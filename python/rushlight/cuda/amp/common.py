"""`torch.cuda.amp.common`: whether mixed precision on GPUs is impossible."""

from __future__ import annotations

import rushlight as torch

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU.

    >>> torch.cuda.amp.common.amp_definitely_not_available() != torch.cuda.is_available()
    True
    """
    return not torch.cuda.is_available()


def __dir__() -> list[str]:
    return __all__
