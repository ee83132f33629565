"""`torch.nn.intrinsic`: the old name of `torch.ao.nn.intrinsic`."""

from __future__ import annotations

import sys

from rushlight.ao.nn import intrinsic as _intrinsic
from rushlight.ao.nn.intrinsic import *  # noqa: F403
from rushlight.ao.nn.intrinsic import qat, quantized

__all__ = list(_intrinsic.__all__)

# The modules under their old names too.
sys.modules[f"{__name__}.qat"] = qat
sys.modules[f"{__name__}.quantized"] = quantized


def __dir__() -> list[str]:
    return __all__
