"""`torch.linalg`: linear algebra, from the operator table."""

from rushlight import _C

globals().update(_C._functions.get("linalg", {}))
LinAlgError = _C._LinAlgError
__all__ = sorted(["LinAlgError", *_C._functions.get("linalg", {})])  # noqa: PLE0605
