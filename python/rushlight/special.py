"""`torch.special`: special functions, from the operator table."""

from rushlight import _C

globals().update(_C._functions.get("special", {}))
__all__ = sorted(_C._functions.get("special", {}))
