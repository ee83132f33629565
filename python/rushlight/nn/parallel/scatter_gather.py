"""Splits batches among GPUs and joins results, for `DataParallel`."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["gather", "scatter", "scatter_kwargs"]


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Splits tensors into a part for each GPU. Other values are copied to all of them.

    Raises:
        RuntimeError: a tensor is given, and there are no GPUs.
        ValueError: a device is not a GPU.

    >>> torch.nn.parallel.scatter([1, "a"], [0, 1])
    [[1, 'a'], [1, 'a']]
    """
    cards = [_card(target) for target in target_gpus]

    def parts(value: Any) -> list[Any]:
        if isinstance(value, torch.Tensor):
            if not cards:
                raise RuntimeError("Expected at least one device to scatter to")
            from ._functions import Scatter

            return list(Scatter.apply([torch.cuda.device(card).idx for card in cards], None, dim, value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return [type(value)(*part) for part in zip(*map(parts, value))]
        if isinstance(value, (tuple, list)) and value:
            return [type(value)(part) for part in zip(*map(parts, value))]
        if isinstance(value, dict) and value:
            return [type(value)(part) for part in zip(*map(parts, value.items()))]
        return [value for _ in cards]

    return parts(inputs)


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """`scatter` for positional and keyword arguments. Both results have the same length.

    >>> torch.nn.parallel.scatter_gather.scatter_kwargs((1,), {"flag": True}, [0])
    (((1,),), ({'flag': True},))
    """
    places = scatter(inputs, target_gpus, dim) if inputs else []
    names = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(places), len(names))
    return (
        (*places, *[()] * (count - len(places))),
        (*names, *[{} for _ in range(count - len(names))]),
    )


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Joins the results of several GPUs: tensors are concatenated, containers are joined element by element.

    Raises:
        AssertionError: a tensor is not on a GPU.
        ValueError: the dictionaries have different sizes.

    >>> torch.nn.parallel.gather([None, None], "cpu") is None
    True
    """
    first = outputs[0]
    if isinstance(first, torch.Tensor):
        if any(one.device.type == "cpu" for one in outputs):
            raise AssertionError("Gather function not implemented for CPU tensors")
        from ._functions import Gather

        return Gather.apply(target_device, dim, *outputs)
    if first is None:
        return None
    if isinstance(first, dict):
        if not all(len(one) == len(first) for one in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([one[key] for one in outputs], target_device, dim)) for key in first)
    members = [gather(part, target_device, dim) for part in zip(*outputs)]
    return type(first)(*members) if hasattr(first, "_fields") else type(first)(members)


def _card(device: Any) -> torch.device:
    found = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if found.type == "cpu":
        raise ValueError(f"Expected a non cpu device, but got: {device}")
    return found


def __dir__() -> list[str]:
    return __all__
