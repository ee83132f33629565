"""The operators of `torch.linalg`. The stub is generated."""

from rushlight._C import _functions

globals().update(_functions.get("linalg", {}))
__all__ = sorted(_functions.get("linalg", {}))  # noqa: PLE0605
