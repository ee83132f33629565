"""`torch.utils.dlpack`: exchange of tensors with other libraries."""

import enum

from rushlight import from_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers of device types, as in `__dlpack_device__`.

    >>> kind, number = torch.ones(1).__dlpack_device__()
    >>> torch.utils.dlpack.DLDeviceType(kind).name, number
    ('kDLCPU', 0)
    """

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def to_dlpack(tensor):
    """The tensor as a DLPack capsule for one consumer. `from_dlpack` also accepts tensors directly.

    >>> torch.from_dlpack(torch.utils.dlpack.to_dlpack(torch.arange(3)))
    tensor([0, 1, 2])
    """
    return tensor.__dlpack__()


def __dir__() -> list[str]:
    return __all__
