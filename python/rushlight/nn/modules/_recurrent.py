"""The arithmetic of recurrent layers, out of operators: a step of each kind, and steps along a sequence.

The state is a tuple of tensors ``(B, H)``: the hidden state, and for LSTM the cell's too.
"""

from __future__ import annotations

import rushlight as torch

from .. import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rushlight import Tensor

    State = tuple[Tensor, ...]
    Step = Callable[[Tensor, State, Tensor, Tensor | None, Tensor | None], State]


def tanh_step(gates: Tensor, state: State, weight: Tensor, bias: Tensor | None, project: Tensor | None) -> State:
    """``tanh(gates + W h + b)``."""
    return (torch.tanh(gates + F.linear(state[0], weight, bias)),)


def relu_step(gates: Tensor, state: State, weight: Tensor, bias: Tensor | None, project: Tensor | None) -> State:
    """``relu(gates + W h + b)``."""
    return (torch.relu(gates + F.linear(state[0], weight, bias)),)


def lstm_step(gates: Tensor, state: State, weight: Tensor, bias: Tensor | None, project: Tensor | None) -> State:
    """Hochreiter and Schmidhuber 1997, with gates in the order input, forget, cell, output."""
    hidden, cell = state
    enter, keep, fresh, leave = (gates + F.linear(hidden, weight, bias)).chunk(4, -1)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(fresh)
    hidden = torch.sigmoid(leave) * torch.tanh(cell)
    return (hidden if project is None else F.linear(hidden, project)), cell


def gru_step(gates: Tensor, state: State, weight: Tensor, bias: Tensor | None, project: Tensor | None) -> State:
    """Cho et al. 2014, with gates in the order reset, update, new; the reset gate after the matrix."""
    (hidden,) = state
    reset, update, fresh = gates.chunk(3, -1)
    from_reset, from_update, from_fresh = F.linear(hidden, weight, bias).chunk(3, -1)
    fresh = torch.tanh(fresh + torch.sigmoid(reset + from_reset) * from_fresh)
    return ((hidden - fresh) * torch.sigmoid(update + from_update) + fresh,)


STEPS: dict[str, Step] = {"RNN_TANH": tanh_step, "RNN_RELU": relu_step, "LSTM": lstm_step, "GRU": gru_step}


def along(
    step: Step, gates: Iterable[Tensor], initial: State, weights: Sequence[Tensor | None], reverse: bool
) -> tuple[list[Tensor], State]:
    """The hidden states after all steps, and the last state of each sequence.

    The gates of a step have a row for each sequence that is so long; the longest sequences come first. Backwards,
    sequences join with their initial state as they begin.
    """
    gates = list(gates)
    outputs = []
    ended: list[State] = []
    state = initial
    if reverse:
        gates.reverse()
        state = _rows(initial, 0, gates[0].size(0))
    for given in gates:
        before, now = state[0].size(0), given.size(0)
        if now < before:
            ended.append(_rows(state, now, before))
            state = _rows(state, 0, now)
        elif now > before:
            state = _joined([state, _rows(initial, before, now)])
        state = step(given, state, *weights)  # type: ignore[arg-type] # the recurrent matrix is there
        outputs.append(state[0])
    if reverse:
        outputs.reverse()
    if ended:
        state = _joined([state, *reversed(ended)])
    return outputs, state


def _rows(state: State, start: int, end: int) -> State:
    return tuple(part[start:end] for part in state)


def _joined(states: Sequence[State]) -> State:
    return tuple(torch.cat(parts) for parts in zip(*states))
