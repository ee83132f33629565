"""Names of torch's profiler for devices and for traces that are not recorded."""

from __future__ import annotations

from enum import Enum

from rushlight._set_module import set_module
from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class DeviceType(Enum):
    """The types of devices of an event.

    >>> torch.profiler.DeviceType.CPU.value
    0
    """

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


__all__ = [
    "DeviceType",
    *declare(globals(), "the calls of operators are not written to a file", "class ExecutionTraceObserver"),
]

set_module("rushlight.profiler", *(globals()[name] for name in __all__))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
