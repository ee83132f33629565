"""The layers of `torch.ao.nn.quantized.dynamic`."""

from __future__ import annotations

from . import linear, rnn
from .linear import Linear
from .rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "Linear", "RNNCell", "linear", "rnn"]


def __dir__() -> list[str]:
    return __all__
