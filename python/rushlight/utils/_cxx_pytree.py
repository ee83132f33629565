"""`torch.utils._cxx_pytree`: the same functions as `torch.utils._pytree`. torch has a faster version in C++ here."""

from ._pytree import *  # noqa: F403
from ._pytree import __all__ as __all__
