"""Copies of a module for several GPUs."""

from __future__ import annotations

import rushlight as torch

from .scatter_gather import _card

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.nn.modules import Module

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """A copy of a module for each GPU. The gradients of the copies' parameters flow to those of the module.

    Args:
        network: the module.
        devices: the GPUs.
        detach: whether no gradients flow.

    Raises:
        AssertionError: a parameter is not on a GPU.
        ValueError: a device is not a GPU.

    >>> torch.nn.parallel.replicate(torch.nn.ReLU(), [])
    []
    """
    cards = [_card(device) for device in devices]
    if cards and any(one.device.type == "cpu" for one in (*network.parameters(), *network.buffers())):
        raise AssertionError("Broadcast function not implemented for CPU tensors")
    parameters = list(network.parameters())
    buffers = list(network.buffers())
    given = _copies(parameters, cards, detach)
    # Statistics of a batch are written into the buffers of the first copy, which are those of the module.
    fixed = _copies(buffers, cards, True)
    modules = list(network.modules())
    places = {id(module): place for place, module in enumerate(modules)}
    replicas: list[Any] = []
    for number in range(len(cards)):
        tensors = {id(old): new for old, new in zip(parameters, given[number])}
        tensors |= {id(old): new for old, new in zip(buffers, fixed[number])}
        copies: list[Any] = [module._replicate_for_data_parallel() for module in modules]
        for module, copied in zip(modules, copies):
            copied._former_parameters = {}
            for name, child in module._modules.items():
                copied._modules[name] = None if child is None else copies[places[id(child)]]
            for name, parameter in module._parameters.items():
                copied._parameters[name] = None
                if parameter is not None:
                    # A result of a copy is no parameter: an attribute, which the module's code finds by its name.
                    del copied._parameters[name]
                    object.__setattr__(copied, name, tensors[id(parameter)])
                    copied._former_parameters[name] = tensors[id(parameter)]
            for name, buffer in module._buffers.items():
                copied._buffers[name] = None if buffer is None else tensors[id(buffer)]
        replicas.append(copies[0])
    return replicas


def _copies(tensors: list[Any], cards: list[Any], detach: bool) -> list[list[Any]]:
    """The tensors on each GPU."""
    from rushlight.cuda import comm

    from ._functions import Broadcast

    if not tensors or not cards:
        return [[] for _ in cards]
    indices = [card.index if card.index is not None else torch.cuda.current_device() for card in cards]
    if detach:
        return [list(group) for group in comm.broadcast_coalesced(tensors, indices)]
    flat = Broadcast.apply(indices, *tensors)
    return [list(flat[place : place + len(tensors)]) for place in range(0, len(flat), len(tensors))]


def __dir__() -> list[str]:
    return __all__
