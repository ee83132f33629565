"""`torch.quantization`: the old name of `torch.ao.quantization`."""

from __future__ import annotations

import sys

from rushlight.ao import quantization as _quantization
from rushlight.ao.quantization import *  # noqa: F403
from rushlight.ao.quantization import (
    fake_quantize,
    observer,
    qconfig,
    qconfig_mapping,
    quantization_mappings,
    quantize_fx,
    stubs,
)

__all__ = list(_quantization.__all__)

# The modules under their old names too.
for _module in (fake_quantize, observer, qconfig, qconfig_mapping, quantization_mappings, quantize_fx, stubs):
    sys.modules[f"{__name__}.{_module.__name__.rpartition('.')[2]}"] = _module


def __dir__() -> list[str]:
    return __all__
