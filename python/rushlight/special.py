"""Special functions, as the engine's table lists them."""

from rushlight import _C

globals().update(_C._functions["special"])
__all__ = sorted(_C._functions["special"])  # noqa: PLE0605
