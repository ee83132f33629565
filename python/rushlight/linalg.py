"""`torch.linalg`: linear algebra, from the operator table."""

from rushlight._C import _LinAlgError as LinAlgError
from rushlight._functions import linalg as _operators
from rushlight._functions.linalg import *  # noqa: F403

__all__ = ["LinAlgError"]
__all__ += _operators.__all__
