"""Copies of a module for cards."""

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
    """A copy of a module for each card.

    Args:
        network: the module.
        devices: the cards.
        detach: accepted: only gradients that come back from cards would ask.

    Raises:
        AssertionError: parameters that are on no card.
        ValueError: a device that is no card.

    >>> torch.nn.parallel.replicate(torch.nn.ReLU(), [])
    []
    """
    cards = [_card(device) for device in devices]
    if cards and any(one.device.type == "cpu" for one in (*network.parameters(), *network.buffers())):
        raise AssertionError("Broadcast function not implemented for CPU tensors")
    return [copy.deepcopy(network).to(card) for card in cards]


def __dir__() -> list[str]:
    return __all__
