"""The operators as functions: those of `torch` in this file, those of other namespaces in the modules of this package.

The stubs are generated.
"""

from rushlight._C import _functions

globals().update(_functions[""])
__all__ = sorted(name for name in _functions[""] if not name.startswith("_"))  # noqa: PLE0605
