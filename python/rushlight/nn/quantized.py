"""`torch.nn.quantized`: the old name of `torch.ao.nn.quantized`."""

from __future__ import annotations

import sys

from rushlight.ao.nn import quantized as _quantized
from rushlight.ao.nn.quantized import *  # noqa: F403
from rushlight.ao.nn.quantized import dynamic, modules

__all__ = list(_quantized.__all__)

# The modules under their old names too.
sys.modules[f"{__name__}.dynamic"] = dynamic
sys.modules[f"{__name__}.modules"] = modules


def __dir__() -> list[str]:
    return __all__
