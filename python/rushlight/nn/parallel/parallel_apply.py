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
    """The outputs of the modules for their inputs, in order. The threads use the modes and the streams of the caller.

    Args:
        modules: modules or functions.
        inputs: a tuple of arguments for each module, or its only argument.
        kwargs_tup: keyword arguments for each module.
        devices: a GPU for each module; by default inputs stay where they are.

    Raises:
        AssertionError: the arguments have different lengths.
        RuntimeError: a GPU is given, and there is none.
        Exception: that of a module; its message names the module and its GPU.

    >>> halves = torch.arange(4.0).chunk(2)
    >>> torch.nn.parallel.parallel_apply([torch.nn.ReLU(), torch.neg], halves)
    [tensor([0., 1.]), tensor([-2., -3.])]
    """
    from concurrent.futures import ThreadPoolExecutor

    from rushlight._utils import ExceptionWrapper

    for what, given in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if given is not None and len(given) != len(modules):
            raise AssertionError(
                f"The number of modules {len(modules)} is not equal to the number of {what} {len(given)}"
            )
    cards = [None] * len(modules) if devices is None else [_card(device) for device in devices]
    records = torch.is_grad_enabled()
    narrow = [(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)) for kind in ("cpu", "cuda")]

    listed = [one if isinstance(one, (tuple, list)) else (one,) for one in inputs]
    homes = [_home(arguments) if card is None else card for card, arguments in zip(cards, listed)]
    streams = [None if home is None else torch.cuda.current_stream(home) for home in homes]

    def run(place: int, keywords: dict[str, Any]) -> Any:
        module, arguments, card = modules[place], listed[place], cards[place]
        with torch.set_grad_enabled(records), contextlib.ExitStack() as modes:
            for kind, dtype, enabled in narrow:
                modes.enter_context(torch.autocast(kind, dtype, enabled))
            # The stream of the caller, whose work makes the inputs, and which goes on with the outputs.
            modes.enter_context(torch.cuda.stream(streams[place]))
            if card is not None:
                arguments = [one.to(card) if isinstance(one, torch.Tensor) else one for one in arguments]
            try:
                return module(*arguments, **keywords)
            except Exception:
                home = homes[place]
                return ExceptionWrapper(where=f"in replica {place} on device {-1 if home is None else home.index}")

    with ThreadPoolExecutor(max(1, len(modules))) as threads:
        results = list(threads.map(run, range(len(modules)), kwargs_tup or [{} for _ in modules]))
    for result in results:
        if isinstance(result, ExceptionWrapper):
            result.reraise()
    return results


def _home(arguments: Sequence[Any]) -> torch.device | None:
    """The GPU of the first tensor, if it is on one."""
    first = next(iter(tensors_in(arguments)), None)
    return first.device if first is not None and first.is_cuda else None


def __dir__() -> list[str]:
    return __all__
