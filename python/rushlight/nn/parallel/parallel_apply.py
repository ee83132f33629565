"""Runs modules in parallel, each in its own thread."""

from __future__ import annotations

import contextlib

import rushlight as torch
from rushlight.utils._tensors import tensors_in

from .scatter_gather import _card

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Callable[..., Any]],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """The outputs of the modules for their inputs, in order. The threads use the modes of the caller.

    Args:
        modules: modules or functions.
        inputs: a tuple of arguments for each module, or its only argument.
        kwargs_tup: keyword arguments for each module.
        devices: a GPU for each module; by default inputs stay where they are.

    Raises:
        AssertionError: the arguments have different lengths.
        RuntimeError: a GPU is given, and there is none.

    >>> halves = torch.arange(4.0).chunk(2)
    >>> torch.nn.parallel.parallel_apply([torch.nn.ReLU(), torch.neg], halves)
    [tensor([0., 1.]), tensor([-2., -3.])]
    """
    from concurrent.futures import ThreadPoolExecutor

    for what, given in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if given is not None and len(given) != len(modules):
            raise AssertionError(
                f"The number of modules {len(modules)} is not equal to the number of {what} {len(given)}"
            )
    cards = [None] * len(modules) if devices is None else [_card(device) for device in devices]
    records = torch.is_grad_enabled()
    narrow = [(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)) for kind in ("cpu", "cuda")]

    def run(module: Callable[..., Any], arguments: Any, keywords: dict[str, Any], card: torch.device | None) -> Any:
        if not isinstance(arguments, (tuple, list)):
            arguments = (arguments,)
        if card is None:
            first = next(iter(tensors_in(arguments)), None)
            card = first.device if first is not None and first.is_cuda else None
        else:
            arguments = [one.to(card) if isinstance(one, torch.Tensor) else one for one in arguments]
        with torch.set_grad_enabled(records), contextlib.ExitStack() as modes:
            for kind, dtype, enabled in narrow:
                modes.enter_context(torch.autocast(kind, dtype, enabled))
            modes.enter_context(torch.cuda.device(card))
            return module(*arguments, **keywords)

    with ThreadPoolExecutor(max(1, len(modules))) as threads:
        return list(threads.map(run, modules, inputs, kwargs_tup or [{} for _ in modules], cards))


def __dir__() -> list[str]:
    return __all__
