"""`torch.cond` while work is recorded in a graph: both branches are recorded, and each run takes one of them."""

from __future__ import annotations

from contextlib import contextmanager

import rushlight as torch
from rushlight.utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


@contextmanager
def _if_body(pred: torch.Tensor) -> Iterator[None]:
    graph = torch.cuda.CUDAGraph.get_currently_capturing_graph()
    graph.begin_capture_to_if_node(pred)
    try:
        yield
    finally:
        graph.end_capture_to_conditional_node()


def if_else_node(pred: torch.Tensor, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any) -> Any:
    """Records two functions, of which each run takes the one that a value of the GPU names.

    Args:
        pred: one element on the GPU.
        true_fn, false_fn: the functions, with results of the same shapes and dtypes.
        operands: their arguments.

    Returns:
        the results, in the memory of one of the functions.

    Raises:
        ValueError: ``pred`` is not on a GPU.
        RuntimeError: the results differ in structure, shapes or dtypes, or require gradients.
    """
    if not pred.is_cuda:
        raise ValueError("Conditions must be on a cuda device to use conditional node in cuda graphs")
    taken = pred if pred.dtype == torch.bool else pred != 0
    other = torch.logical_not(taken)
    with _if_body(taken):
        # What follows is written into these, which may be operands.
        kept = pytree.tree_map(_own, true_fn(*operands))
    with _if_body(other):
        result = false_fn(*operands)
        leaves, structure = pytree.tree_flatten(kept)
        others, found = pytree.tree_flatten(result)
        if str(structure) != str(found) or list(map(_kind, leaves)) != list(map(_kind, others)):
            raise RuntimeError(
                "Expected true_fn_output and false_fn_output to have the same metadata, but one has "
                f"{list(map(_kind, leaves))} and the other {list(map(_kind, others))}"
            )
        for own, value in zip(leaves, others, strict=True):
            if isinstance(own, torch.Tensor):
                if own.requires_grad or value.requires_grad:
                    raise RuntimeError(
                        "torch.cond has no gradient while a graph is recorded: record it under torch.no_grad()"
                    )
                own.copy_(value)
    return kept


def _own(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


def _kind(leaf: Any) -> Any:
    """What a result must have in common with that of the other function: a number that is no tensor cannot differ."""
    return (tuple(leaf.shape), leaf.dtype, leaf.device) if isinstance(leaf, torch.Tensor) else leaf
