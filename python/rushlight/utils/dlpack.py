"""`torch.utils.dlpack`: tensors to and from other libraries."""

from rushlight import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor):
    """The tensor as a DLPack capsule, which one consumer may take."""
    return tensor.__dlpack__()
