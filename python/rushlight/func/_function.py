"""Custom autograd functions inside `vmap`."""

from __future__ import annotations

from typing import NamedTuple

import rushlight as torch
from rushlight import _C
from rushlight.autograd._forward_levels import active_levels, only
from rushlight.autograd._own_tangents import through
from rushlight.autograd._vmap_levels import hidden, lifted
from rushlight.autograd.function import Function, FunctionCtx

from . import _tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.autograd._forward_levels import ForwardLevel


class VmapInfo(NamedTuple):
    """The first argument of a function's ``vmap``: the batch size and the randomness."""

    batch_size: int
    randomness: str


def check_transformable(cls: Any, split: bool, own: bool) -> None:
    """Refuses a function that the transforms around the call cannot run, whatever its arguments are.

    ``split`` means that `setup_context` is separate from `forward`, and ``own`` that there is a custom `vmap`.

    Raises:
        RuntimeError: the function has no separate `setup_context`, or no rule for the samples of a vmap.
    """
    if cls.__module__.partition(".")[0] == "rushlight":
        return  # The library's own functions do the work of operators.
    if not split:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override "
            "the setup_context staticmethod. For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html"
        )
    # A Jacobian by columns runs the function once in torch too, for all of them.
    if not (_C._vmap_levels() or any(level.samples is not None for level in active_levels())):
        return
    if cls.generate_vmap_rule and own:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. "
            "Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. For more details, "
            "please see https://pytorch.org/docs/main/notes/extending.func.html"
        )
    if not (cls.generate_vmap_rule or own):
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            "staticmethod or set generate_vmap_rule=True. For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html"
        )


def mapped(cls: Any, args: tuple[Any, ...]) -> tuple[tuple[Any] | None, tuple[Any, ...]]:
    """The result of a function's own ``vmap`` (in a tuple), or else the arguments to run it with."""
    leaves, around = _tree.flatten(args)
    numbers = {number for x in leaves if isinstance(x, torch.Tensor) for number in _C._vmap_levels_of(x)}
    levels = [(number, size, way) for number, size, way in _C._vmap_levels() if number in numbers]
    if not levels:
        return None, args
    if cls.generate_vmap_rule:
        return None, around([lifted(x) if isinstance(x, torch.Tensor) else x for x in leaves])
    number, size, randomness = levels[-1]
    dims: list[int | None] = []
    for place, x in enumerate(leaves):
        inside = isinstance(x, torch.Tensor) and number in _C._vmap_levels_of(x)
        dims.append(0 if inside else None)
        if inside:
            leaves[place] = _C._remove_batch_dim(x, 0, number, size)
    shown = around(leaves)

    def run() -> Any:
        results = _C._vmap_outside(number, lambda: cls.vmap(VmapInfo(size, randomness), around(dims), *shown))
        return with_samples(results, number, size, f"{cls.__name__}.vmap")

    if cls.jvp is Function.jvp or not _C._are_tangents_enabled():
        return (run(),), args
    inner: list[ForwardLevel] = []
    outer: list[ForwardLevel] = []
    for level in active_levels():
        (inner if level.begins_in(number) else outer).append(level)

    def run_outside() -> Any:
        with only(outer):
            return run()

    def context(result: Any) -> FunctionCtx:
        ctx = FunctionCtx()
        cls.setup_context(ctx, args, result)
        return ctx

    return (through(cls, inner, args, run_outside, context),), args


def with_samples(results: Any, level: int, size: int, name: str) -> Any:
    """The output of a program's rule, batched at a level. ``results`` are what the rule returned.

    Raises:
        RuntimeError: the rule returned no pair of an output and the dimensions of its samples.
        ValueError: these have different structures.
        IndexError: a tensor has no such dimension.
    """
    if not isinstance(results, tuple) or len(results) != 2:
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with the "
            f"output. Got a {type(results)} instead"
        )
    output, out_dims = results
    flat, build = _tree.flatten(output)
    places = _tree.spread(out_dims, output)
    if places is None:
        raise ValueError(
            f"{name}: out_dims has structure {_tree.outline(out_dims)} but outputs has structure {_tree.outline(output)}."
        )
    return build([x if dim is None else hidden(x, dim, level, size) for x, dim in zip(flat, places)])
