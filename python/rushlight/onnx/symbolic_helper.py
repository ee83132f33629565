"""`torch.onnx.symbolic_helper`: what libraries put around the functions that describe their operators to the export."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["parse_args"]


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that has the export convert arguments. There is no export, so the function stays as it is.

    >>> from rushlight.onnx.symbolic_helper import parse_args
    >>> @parse_args("v", "f")
    ... def symbolic(g, input, scale):
    ...     return g.op("Scale", input, scale_f=scale)
    """
    return lambda function: function
