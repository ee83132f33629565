"""`torch.utils.dlpack`: tensors to and from other libraries."""

from rushlight import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor):
    """The tensor as a DLPack capsule, which one consumer may take; `from_dlpack` takes tensors without one.

    >>> torch.from_dlpack(torch.utils.dlpack.to_dlpack(torch.arange(3)))
    tensor([0, 1, 2])
    """
    return tensor.__dlpack__()


def __dir__() -> list[str]:
    return __all__
