"""`torch.while_loop`: a loop whose condition and body are functions. It runs as Python's own."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight._set_module import set_module
from rushlight.utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["while_loop"]


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple[Any, ...]) -> Any:
    """Calls a function with its own results while another one says so.

    Args:
        cond_fn: takes the values, and returns a bool or a tensor with one.
        body_fn: takes the values, and returns a tuple of as many, with the shapes and dtypes of the first ones.
        carried_inputs: the first values: tensors and numbers, also in lists, tuples and dictionaries.

    Returns:
        the values for which the condition does not hold.

    Raises:
        RuntimeError: an argument is of another kind, or a step returns other values than it got.

    >>> torch.while_loop(lambda x, y: x < 3, lambda x, y: (x + 1, y * 2), (torch.tensor(0), torch.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only consists of tensor, int, "
            f"or float leaves, but got {carried_inputs}"
        )
    values, kind = carried_inputs, _described(tuple(carried_inputs))
    while cond_fn(*values):
        values = body_fn(*values)
        if not isinstance(values, (tuple, list)) or _described(tuple(values)) != kind:
            raise RuntimeError(
                "Expected carried_inputs and body_output to have the same metadata, but a step returned "
                f"{_described(values)} for {kind}"
            )
    return values


def _described(values: Any) -> Any:
    """The structure of the values, and the shape and dtype of each tensor in it."""

    def description(leaf: Any) -> Any:
        return (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else type(leaf)

    leaves, structure = pytree.tree_flatten(values)
    return str(structure), [description(leaf) for leaf in leaves]


set_module("rushlight", while_loop)
