"""The former name of `torch.distributed.device_mesh`."""

from rushlight.distributed.device_mesh import *  # noqa: F403
from rushlight.distributed.device_mesh import __all__ as __all__
