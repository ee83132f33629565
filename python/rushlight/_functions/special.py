"""The operators of `torch.special`. The stub is generated."""

from rushlight._C import _functions

globals().update(_functions.get("special", {}))
__all__ = sorted(_functions.get("special", {}))  # noqa: PLE0605
