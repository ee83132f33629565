"""The operators as functions: what the operator table puts under `torch.` itself. The stub is generated."""

from ._C import _functions

globals().update(_functions[""])
__all__ = [name for name in _functions[""] if not name.startswith("_")]
