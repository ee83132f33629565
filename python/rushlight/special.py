"""`torch.special`: special functions, from the operator table."""

from rushlight._functions.special import *  # noqa: F403
from rushlight._functions.special import __all__ as __all__
