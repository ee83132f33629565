"""`torch.utils.dlpack`: exchange of tensors with other libraries."""

import enum

from rushlight import from_dlpack, strided
from rushlight._compiled import compiled

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


@compiled("Tensor data, *, int[]? dl_device=None, bool? copy=None", name="_to_dlpack")
def to_dlpack(data, *, dl_device=None, copy=None):
    """The tensor as a DLPack capsule for one consumer, without its history. `from_dlpack` also accepts tensors directly.

    Raises:
        BufferError: DLPack has no such elements, or no such device.
        RuntimeError: the tensor is sparse.
        TypeError: an argument is of the wrong type.

    >>> torch.from_dlpack(torch.utils.dlpack.to_dlpack(torch.arange(3)))
    tensor([0, 1, 2])
    """
    if data.layout is not strided:
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage\n"
            "  Export the indices and the values, or tensor.to_dense()."
        )
    return data.detach().__dlpack__(dl_device=dl_device, copy=copy)


def __dir__() -> list[str]:
    return __all__
