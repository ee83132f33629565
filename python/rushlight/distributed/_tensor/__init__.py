"""The former name of `torch.distributed.tensor`."""

from rushlight.distributed.tensor import *  # noqa: F403
from rushlight.distributed.tensor import __all__ as __all__
