"""Recurrent layers and their cells."""

from __future__ import annotations

import math
import numbers

import rushlight as torch
from rushlight import _C, Tensor
from rushlight._text import with_shapes
from rushlight._warnings import warn

from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Self


__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

# These are attributes in torch. Pickles contain them, so that torch can load them; loading ignores them.
_COMPUTED = ("_flat_weights_names", "_flat_weights")
# The number of gates of each kind of layer.
_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
_OPERATORS: dict[str, Any] = {
    "RNN_TANH": torch.rnn_tanh,
    "RNN_RELU": torch.rnn_relu,
    "LSTM": torch.lstm,
    "GRU": torch.gru,
}


class RNNBase(Module):
    """The base of recurrent layers: arguments, weights, and the loop over layers and directions.

    Args:
        mode: ``"RNN_TANH"``, ``"RNN_RELU"``, ``"LSTM"`` or ``"GRU"``.
        input_size, hidden_size: the numbers of features of input and state.
        num_layers: the number of layers. Each takes the output of the one before.
        bias: whether each layer has its two biases.
        batch_first: whether inputs and outputs are ``(N, L, *)`` instead of ``(L, N, *)``.
        dropout: the dropout probability between the layers.
        bidirectional: whether to process the sequence in both directions and concatenate the outputs.
        proj_size: the size to which an LSTM projects its hidden state; 0 for no projection.

    The weights are ``weight_ih_l{k}`` ``(gates * hidden_size, input)``, ``weight_hh_l{k}``, ``bias_ih_l{k}``,
    ``bias_hh_l{k}`` and ``weight_hr_l{k}``, with ``_reverse`` for the second direction. Initial values are uniform
    within ``1 / sqrt(hidden_size)``.

    Raises:
        ValueError, TypeError: an argument is out of its range or has the wrong type.
    """

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.dropout = float(dropout)
        _check_dropout(dropout, num_layers)
        _check_types(("bias", bias, bool), ("batch_first", batch_first, bool))
        _check_sizes(input_size, hidden_size, num_layers, proj_size)
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        self.proj_size = proj_size

        gates = _GATES[mode] * hidden_size
        output = proj_size or hidden_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            given = output * self._directions if layer else input_size
            for suffix in ("", "_reverse")[: self._directions]:
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, given), "weight_hh": (gates, output)}
                if bias:
                    shapes.update(bias_ih=(gates,), bias_hh=(gates,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = [f"{name}_l{layer}{suffix}" for name in shapes]
                for name, shape in zip(names, shapes.values()):
                    setattr(self, name, Parameter(torch.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self.flatten_parameters()
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def __getattr__(self, name: str) -> Any:
        # A weight that was deleted is missing, not the list of weights.
        if name == "_flat_weights":
            name = next((weight for weight in self._flat_weights_names if not hasattr(self, weight)), name)
        return super().__getattr__(name)

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def reset_parameters(self) -> None:
        """Initialises all weights."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Moves weights on a GPU into one buffer, in cuDNN's order, so that no call copies them there.

        Nothing else depends on where they lie. Moves and conversions of the module do this themselves. With ``dropout``
        each layer has a buffer.
        """
        names = self._flat_weights_names
        found = [weight for name in names if isinstance(weight := getattr(self, name, None), Parameter)]
        weights = [weight for weight in found if weight.device.type == "cuda"]
        # Weights that are no parameters, or are shared, stay where they are.
        if len({id(weight) for weight in weights}) < len(names):
            return
        parts = self.num_layers if self.dropout else 1
        size, layers = len(weights) // parts, self.num_layers // parts
        for start in range(0, len(weights), size):
            own = tuple(weights[start : start + size])
            settings = (self.mode, self.bias, layers, self.bidirectional, self.proj_size > 0)
            for weight, view in zip(own, _C._cudnn_flatten(own, *settings) or ()):
                weight.data = view

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self.flatten_parameters()
        return self

    def __getstate__(self) -> dict[str, Any]:
        # torch reads these attributes from a pickled module.
        return {**self.__dict__, **{name: getattr(self, name) for name in _COMPUTED}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = {key: value for key, value in state.items() if key not in _COMPUTED}
        # Older pickles do not have it.
        own.setdefault("proj_size", 0)
        super().__setstate__(own)
        self.flatten_parameters()

    # Checks with torch's names, because programs override them.

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises an error unless an input has the dtype of the weights and the right sizes."""
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype and not (torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input: "
                f"input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        dimensions = 3 if batch_sizes is None else 2
        if input.dim() != dimensions:
            raise RuntimeError(f"input must have {dimensions} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            sentence = f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            raise RuntimeError(with_shapes(sentence, self.mode, input.shape, *(w.shape for w in self._flat_weights)))

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape of the hidden state."""
        return self._state_shape(input, batch_sizes, self.proj_size or self.hidden_size)

    def _state_shape(self, input: Tensor, batch_sizes: Tensor | None, size: int) -> tuple[int, int, int]:
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0 if self.batch_first else 1)
        return self.num_layers * self._directions, batch, size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raises an error unless a state has the expected shape."""
        if hx.size() != expected_hidden_size:
            sentence = msg.format(expected_hidden_size, list(hx.size()))
            raise RuntimeError(with_shapes(sentence, self.mode, hx.shape, expected_hidden_size))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises an error unless the shapes of input and state match."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Reorders the sequences of a state."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # The parts of forward that LSTM overrides.

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        return input.new_zeros(self.get_expected_hidden_size(input, batch_sizes))

    def _check_state_dims(self, hx: Any, dimensions: int, batched: str) -> None:
        if hx.dim() != dimensions:
            raise RuntimeError(f"For {batched} input, hx should also be {dimensions}-D but got {hx.dim()}-D tensor")

    def _parts(self, hx: Any) -> tuple[Tensor, ...]:
        return (hx,)

    def _whole(self, parts: Sequence[Tensor]) -> Any:
        return parts[0]

    def _mapped(self, hx: Any, change: Any) -> Any:
        return self._whole([change(part) for part in self._parts(hx)])

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            data, sizes, order, back = input
            hx = self._zeros(data, sizes) if hx is None else self.permute_hidden(hx, order)
            self.check_forward_args(data, hx, sizes)
            output, hx = self._run(data, hx, sizes)
            return PackedSequence(output, sizes, order, back), self.permute_hidden(hx, back)

        if input.dim() not in (2, 3):
            name = "RNN" if self.mode.startswith("RNN") else self.mode
            kind = "tensor " if name == "RNN" else ""
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D {kind}instead")
        batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if hx is not None:
            self._check_state_dims(hx, input.dim(), "batched 3-D" if batched else "unbatched 2-D")
        if not batched:
            input = input.unsqueeze(batch_dim)
            hx = None if hx is None else self._mapped(hx, lambda part: part.unsqueeze(1))
        # There is nothing to reorder, but subclasses that override `permute_hidden` expect the call.
        hx = self._zeros(input, None) if hx is None else self.permute_hidden(hx, None)
        self.check_forward_args(input, hx, None)
        output, hx = self._run(input, hx, None)
        if not batched:
            output, hx = output.squeeze(batch_dim), self._mapped(hx, lambda part: part.squeeze(1))
        return output, self.permute_hidden(hx, None)

    def _run(self, data: Tensor, initial: Any, batch_sizes: Tensor | None) -> tuple[Tensor, Any]:
        """Runs all layers over a sequence or packed data. Returns the output of the last one and the final states."""
        operator = _OPERATORS[self.mode]
        rest = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            output, *parts = operator(data, initial, *rest, self.batch_first)
        else:
            output, *parts = operator(data, batch_sizes, initial, *rest)
        return output, self._whole(parts)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for name, usual in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != usual:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


def _check_dropout(dropout: Any, num_layers: int) -> None:
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
        )


def _check_types(*given: tuple[str, Any, type]) -> None:
    for name, value, kind in given:
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")


def _check_sizes(input_size: int, hidden_size: int, num_layers: int, proj_size: int) -> None:
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        _check_types((name, size, int))
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNN(RNNBase):
    """Layers of ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)`` along a sequence (Elman 1990).

    Args:
        nonlinearity: ``"tanh"`` or ``"relu"``; the fourth argument. The other arguments are those of `RNNBase`.

    Shapes: input ``(L, N, input_size)`` (``(N, L, *)`` with ``batch_first``), ``(L, input_size)`` or a packed sequence;
    state ``(layers * directions, N, hidden_size)``, zeros by default. Returns the output of the last layer and the
    final states.

    Raises:
        ValueError: an argument is out of its range, or the dtypes of input and weights differ.
        RuntimeError: the sizes do not match.

    >>> output, state = torch.nn.RNN(10, 20, 2)(torch.zeros(5, 3, 10))
    >>> output.shape, state.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Layers of long short-term memory along a sequence (Hochreiter and Schmidhuber 1997). Arguments as in `RNNBase`.

    Shapes: input ``(L, N, input_size)`` (``(N, L, *)`` with ``batch_first``), ``(L, input_size)`` or a packed sequence; the
    state is a pair: hidden ``(layers * directions, N, proj_size or hidden_size)`` and cell ``(..., hidden_size)``,
    zeros by default. Returns the output of the last layer and the pair of final states.

    Raises:
        ValueError: an argument is out of its range, or the dtypes of input and weights differ.
        RuntimeError: the sizes do not match.

    >>> output, (hidden, cell) = torch.nn.LSTM(10, 20, bidirectional=True)(torch.zeros(5, 3, 10))
    >>> output.shape, cell.shape
    (torch.Size([5, 3, 40]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape of the cell state."""
        return self._state_shape(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        expected = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        if permutation is None:
            return hx
        return tuple(super(LSTM, self).permute_hidden(part, permutation) for part in hx)

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        return super()._zeros(input, batch_sizes), input.new_zeros(self.get_expected_cell_size(input, batch_sizes))

    def _check_state_dims(self, hx: Any, dimensions: int, batched: str) -> None:
        if not hx[0].dim() == hx[1].dim() == dimensions:
            raise RuntimeError(
                f"For {batched} input, hx and cx should also be {dimensions}-D but got ({hx[0].dim()}-D, "
                f"{hx[1].dim()}-D) tensors"
            )

    def _parts(self, hx: Any) -> tuple[Tensor, ...]:
        return tuple(hx)

    def _whole(self, parts: Sequence[Tensor]) -> Any:
        return tuple(parts)


class GRU(RNNBase):
    """Layers of gated recurrent units along a sequence (Cho et al. 2014). Arguments as in `RNNBase`.

    Shapes and errors as in `RNN`. The reset gate is applied after the matrix product.

    >>> output, state = torch.nn.GRU(10, 20, batch_first=True)(torch.zeros(3, 5, 10))
    >>> output.shape, state.shape
    (torch.Size([3, 5, 20]), torch.Size([1, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """The base of recurrent cells: two matrices and their biases, for ``num_chunks`` gates.

    >>> isinstance(torch.nn.GRUCell(2, 3), torch.nn.RNNCellBase)
    True
    """

    __constants__ = ["input_size", "hidden_size", "bias"]
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih = Parameter(torch.empty((gates, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(torch.empty((gates, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            own = Parameter(torch.empty(gates, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, own)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialises all weights."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _stepped(self, input: Tensor, state: Sequence[Tensor] | None, names: Sequence[str]) -> tuple[Tensor, ...]:
        """Computes the next state. A batch dimension is added to unbatched inputs. ``names`` are used in messages."""
        if input.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for part, name in zip(state or (), names):
            if part.dim() not in (1, 2):
                raise ValueError(f"{type(self).__name__}: Expected {name} to be 1D or 2D, got {part.dim()}D instead")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if state is None:
            state = [input.new_zeros(input.size(0), self.hidden_size)] * len(names)
        elif not batched:
            state = [part.unsqueeze(0) for part in state]
        state = self._step(input, state)
        return tuple(state) if batched else tuple(part.squeeze(0) for part in state)

    def _step(self, input: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        raise NotImplementedError

    @property
    def _weights(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of `RNN`: ``tanh(W_ih x + b_ih + W_hh h + b_hh)``, or with relu.

    Shapes: input ``(N, input_size)`` or ``(input_size)``, state ``(N, hidden_size)`` or ``(hidden_size)``, zeros by default.

    Raises:
        ValueError: the number of dimensions is wrong.
        RuntimeError: the sizes do not match, or the nonlinearity is unknown.

    >>> torch.nn.RNNCell(10, 20)(torch.zeros(3, 10)).shape
    torch.Size([3, 20])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]
    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def _step(self, input: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        operator = torch.rnn_tanh_cell if self.nonlinearity == "tanh" else torch.rnn_relu_cell
        return (operator(input, state[0], *self._weights),)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        (hidden,) = self._stepped(input, None if hx is None else (hx,), ["hidden"])
        return hidden


class LSTMCell(RNNCellBase):
    """One step of `LSTM`. The state is a pair of hidden state and cell state. Shapes and errors as in `RNNCell`.

    >>> hidden, cell = torch.nn.LSTMCell(10, 20)(torch.zeros(3, 10))
    >>> hidden.shape
    torch.Size([3, 20])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def _step(self, input: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        return torch.lstm_cell(input, state, *self._weights)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if isinstance(hx, torch.Tensor) and input.dim() == 2 and hx.dim() > 1:
            raise TypeError(
                "lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor\n"
                "  It is a pair: (hidden state, cell state)."
            )
        if isinstance(hx, torch.Tensor):
            # torch takes the rows apart before it asks for a pair.
            rows = tuple(hx)
            hx = rows[0], rows[1]
        hidden, cell = self._stepped(input, hx, ["hx[0]", "hx[1]"])
        return hidden, cell


class GRUCell(RNNCellBase):
    """One step of `GRU`. Shapes and errors as in `RNNCell`.

    >>> torch.nn.GRUCell(10, 20)(torch.zeros(3, 10)).shape
    torch.Size([3, 20])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def _step(self, input: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        return (torch.gru_cell(input, state[0], *self._weights),)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        (hidden,) = self._stepped(input, None if hx is None else (hx,), ["hidden"])
        return hidden
