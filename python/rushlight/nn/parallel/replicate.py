"""Copies of a module for several GPUs."""

from __future__ import annotations

import copy

from .scatter_gather import _card

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.nn.modules import Module

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """A copy of a module for each GPU.

    Args:
        network: the module.
        devices: the GPUs.
        detach: accepted; it would affect gradients on GPUs only.

    Raises:
        AssertionError: a parameter is not on a GPU.
        ValueError: a device is not a GPU.

    >>> torch.nn.parallel.replicate(torch.nn.ReLU(), [])
    []
    """
    cards = [_card(device) for device in devices]
    if cards and any(one.device.type == "cpu" for one in (*network.parameters(), *network.buffers())):
        raise AssertionError("Broadcast function not implemented for CPU tensors")
    return [copy.deepcopy(network).to(card) for card in cards]


def __dir__() -> list[str]:
    return __all__
