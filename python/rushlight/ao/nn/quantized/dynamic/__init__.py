"""`torch.ao.nn.quantized.dynamic`: layers that quantise their inputs in each call."""

from __future__ import annotations

from . import modules
from .modules import GRU, LSTM, GRUCell, Linear, LSTMCell, RNNCell

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "Linear", "RNNCell", "modules"]


def __dir__() -> list[str]:
    return __all__
