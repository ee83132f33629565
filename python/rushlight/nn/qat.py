"""`torch.nn.qat`: the old name of `torch.ao.nn.qat`."""

from __future__ import annotations

from rushlight.ao.nn import qat as _qat
from rushlight.ao.nn.qat import *  # noqa: F403

__all__ = list(_qat.__all__)


def __dir__() -> list[str]:
    return __all__
