"""`ShapeProp`: notes the shape and dtype of every result of a graph."""

from __future__ import annotations

from typing import NamedTuple

import rushlight as torch
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node, map_aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: torch.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: torch.Tensor, include_contiguity: bool = True) -> TensorMetadata:
    formats = [torch.contiguous_format]
    formats += [torch.channels_last] if result.dim() == 4 else [torch.channels_last_3d] if result.dim() == 5 else []
    dense = include_contiguity and result.layout is torch.strided
    kept = (form for form in formats if dense and result.is_contiguous(memory_format=form))
    stride = tuple(result.stride()) if result.layout is torch.strided else ()
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, stride, next(kept, None), False, {})


class ShapeProp(Interpreter):
    """Runs a graph module, and notes what each result is like in ``meta["tensor_meta"]`` of its node.

    >>> from rushlight.fx.passes.shape_prop import ShapeProp
    >>> gm = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 3)))
    >>> result = ShapeProp(gm).propagate(torch.ones(5, 2))
    >>> gm.graph.find_nodes(op="call_module")[0].meta["tensor_meta"].shape
    torch.Size([5, 3])
    """

    def run_node(self, n: Node) -> Any:
        """Runs a node and notes its result."""
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        tensors = []

        def note(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                tensors.append(leaf)
                return _extract_tensor_metadata(leaf)
            return leaf

        meta = map_aggregate(result, note)
        if tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the module.

        Args:
            args: its arguments.

        Returns:
            its result.
        """
        return super().run(*args)


def __dir__() -> list[str]:
    return __all__
