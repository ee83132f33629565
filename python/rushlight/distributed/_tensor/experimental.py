"""The former name of `torch.distributed.tensor.experimental`."""

from rushlight.distributed.tensor.experimental import *  # noqa: F403
from rushlight.distributed.tensor.experimental import __all__ as __all__
