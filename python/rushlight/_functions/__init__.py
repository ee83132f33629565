"""The operators as functions: here what the operator table puts under `torch` itself, in the modules the other namespaces.

The stubs are generated.
"""

from rushlight._C import _functions

globals().update(_functions[""])
__all__ = sorted(name for name in _functions[""] if not name.startswith("_"))  # noqa: PLE0605
