"""Recurrent layers with weights of 8 bits: LSTM, GRU and their cells.

The products with the weights are those of `linear_dynamic`: the whole sequence is quantised at once for the first
weight of a layer, and the hidden state in each step for the second. All else is computed in single precision.
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor, nn
from rushlight import _quantized_ops as ops
from rushlight.nn.utils.rnn import PackedSequence

from ...modules.linear import quantized_weight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "PackedParameter", "RNNBase", "RNNCell", "RNNCellBase"]

#: The hidden state of a cell: one tensor, or two for LSTM.
State = tuple


class CellParams:
    """Both weights of a layer in one direction."""

    def __init__(self, input: ops.LinearPackedParams, hidden: ops.LinearPackedParams, dtype: Any) -> None:
        self.packed, self.dtype = (input, hidden), dtype

    def times(self, place: int, x: Tensor) -> Tensor:
        """The product with the input's weight (place 0) or the hidden state's (place 1)."""
        if self.dtype is torch.float16:
            return ops.linear_dynamic_fp16(x, self.packed[place])
        return ops.linear_dynamic(x, self.packed[place], reduce_range=True)

    def __deepcopy__(self, memo: Any) -> CellParams:
        input, hidden = self.packed
        return CellParams(input.__deepcopy__(memo), hidden.__deepcopy__(memo), self.dtype)


def _lstm_step(gates: Tensor, products: Tensor, state: State) -> State:
    into, forget, new, out = (gates + products).chunk(4, 1)
    cell = forget.sigmoid() * state[1] + into.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


def _gru_step(gates: Tensor, products: Tensor, state: State) -> State:
    reset, update, new = gates.chunk(3, 1)
    of_reset, of_update, of_new = products.chunk(3, 1)
    new = (new + of_new * (reset + of_reset).sigmoid()).tanh()
    return ((state[0] - new) * (update + of_update).sigmoid() + new,)


_STEPS: dict[str, Callable[[Tensor, Tensor, State], State]] = {
    "LSTM": _lstm_step,
    "GRU": _gru_step,
    "RNN_TANH": lambda gates, products, state: ((gates + products).tanh(),),
    "RNN_RELU": lambda gates, products, state: ((gates + products).relu(),),
}


def _run(
    mode: str, params: CellParams, input: Tensor, sizes: list[int], first: State, reverse: bool
) -> tuple[Tensor, State]:
    """One layer in one direction. `input` has all steps one after the other, of as many sequences as `sizes` say."""
    gates = list(params.times(0, input).split(sizes))
    order = list(range(len(sizes)))
    state: State = tuple(part[: sizes[0]] for part in first)
    if reverse:
        order.reverse()
        state = tuple(part[: sizes[-1]] for part in first)
    outputs: list[Any] = [None] * len(sizes)
    ended: list[State] = []
    for step in order:
        held, wanted = state[0].shape[0], sizes[step]
        if wanted < held:  # some sequences have ended
            ended.append(tuple(part[wanted:] for part in state))
            state = tuple(part[:wanted] for part in state)
        elif wanted > held:  # backwards, some begin
            state = tuple(torch.cat([part, own[held:wanted]]) for part, own in zip(state, first))
        state = _STEPS[mode](gates[step], params.times(1, state[0]), state)
        outputs[step] = state[0]
    for rest in reversed(ended):
        state = tuple(torch.cat(parts) for parts in zip(state, rest))
    return torch.cat(outputs), state


class PackedParameter(nn.Module):
    """A `CellParams` as part of a module's state."""

    def __init__(self, param: CellParams) -> None:
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        self.param = state_dict[prefix + "param"]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest[1:])


def _dtype_of(mod: Any) -> tuple[Any, Callable[[], Any]]:
    """The dtype of a module's weights after quantisation, and the factory of the observer."""
    from rushlight.ao.quantization.qconfig import default_dynamic_qconfig

    qconfig = getattr(mod, "qconfig", None)
    factory = qconfig.weight if qconfig is not None and qconfig.weight is not None else default_dynamic_qconfig.weight
    dtype = factory().dtype
    if dtype not in (torch.qint8, torch.float16):
        raise AssertionError(f"The only supported dtypes for dynamic quantized LSTM are qint8 and float16 got: {dtype}")
    return dtype, factory


def _packed(weight: Tensor, bias: Tensor | None, dtype: Any, factory: Callable[[], Any]) -> ops.LinearPackedParams:
    if dtype is torch.float16:
        return ops.linear_prepack_fp16(weight.float(), bias)
    observer = factory()
    observer(weight)
    return ops.linear_prepack(quantized_weight(weight, observer), bias)


class RNNBase(nn.Module):
    """The base of the layers: the options of `torch.nn.LSTM`, and the packed weights of all layers and directions."""

    _FLOAT_MODULE: Any = nn.RNNBase
    _version = 2

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
        dtype: Any = torch.qint8,
    ) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, float(dropout), bidirectional
        self.dtype, self.version, self.training = dtype, 2, False
        if mode not in _STEPS:
            raise ValueError("Unrecognized RNN mode: " + mode)
        rows = {"LSTM": 4, "GRU": 3}.get(mode, 1) * hidden_size
        directions = 2 if bidirectional else 1
        packs = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * directions
            for _ in range(directions):
                packs.append(CellParams(self._random(rows, width), self._random(rows, hidden_size), dtype))
        self._all_weight_values = nn.ModuleList([PackedParameter(pack) for pack in packs])

    def _random(self, rows: int, width: int) -> ops.LinearPackedParams:
        weight, bias = torch.randn(rows, width).to(torch.float), torch.randn(rows) if self.bias else None
        if self.dtype is torch.float16:
            return ops.linear_prepack_fp16(weight, bias)
        return ops.linear_prepack(torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8), bias)

    def _get_name(self) -> str:
        return "DynamicQuantizedRNN"

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        shown = {
            "num_layers": (self.num_layers, 1),
            "bias": (self.bias, True),
            "batch_first": (self.batch_first, False),
            "dropout": (self.dropout, 0.0),
            "bidirectional": (self.bidirectional, False),
        }
        return text + "".join(f", {name}={value}" for name, (value, usual) in shown.items() if value != usual)

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Checks the number of dimensions and of features."""
        wanted = 2 if batch_sizes is not None else 3
        if input.dim() != wanted:
            raise RuntimeError(f"input must have {wanted} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _states(self, batch: int, like: Tensor, given: Any, order: Any) -> State:
        count = self.num_layers * (2 if self.bidirectional else 1)
        shape = count, batch, self.hidden_size
        if given is None:
            zeros = torch.zeros(shape, dtype=like.dtype)
            return (zeros, zeros) if self.mode == "LSTM" else (zeros,)
        states = tuple(given) if self.mode == "LSTM" else (given,)
        for state in states:
            if tuple(state.shape) != shape:
                raise RuntimeError(f"Expected hidden size {shape}, got {tuple(state.shape)}")
        return states if order is None else tuple(state.index_select(1, order) for state in states)

    def forward(self, input: Any, hx: Any = None) -> Any:
        packed = isinstance(input, PackedSequence)
        data: Any
        sizes: Any
        data, sizes, order, back = input if packed else (input, None, None, None)
        self.check_input(data, sizes)
        if not packed:
            data = data.transpose(0, 1) if self.batch_first else data
            steps, batch = data.shape[:2]
            counts = [batch] * steps
            flat = data.reshape(steps * batch, -1)
        else:
            counts = sizes.tolist()
            batch, flat = counts[0], data
        states = self._states(batch, data, hx, order)
        flat, ends = self._layers(flat, counts, states)
        hidden = ends if back is None else tuple(end.index_select(1, back) for end in ends)
        if packed:
            result: Any = PackedSequence(flat, sizes, order, back)
        else:
            result = flat.view(len(counts), batch, -1)
            result = result.transpose(0, 1) if self.batch_first else result
        return result, hidden if self.mode == "LSTM" else hidden[0]

    def _layers(self, flat: Tensor, sizes: list[int], states: State) -> tuple[Tensor, State]:
        directions = 2 if self.bidirectional else 1
        ends = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                place = layer * directions + direction
                params: Any = self._all_weight_values[place]
                first = tuple(state[place] for state in states)
                output, end = _run(self.mode, params.param, flat, sizes, first, direction == 1)
                outputs.append(output)
                ends.append(end)
            flat = torch.cat(outputs, 1) if directions == 2 else outputs[0]
            if self.dropout and self.training and layer + 1 < self.num_layers:
                flat = nn.functional.dropout(flat, self.dropout)
        return flat, tuple(torch.stack(parts) for parts in zip(*ends))

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer with the weights of another one, which may have a configuration (``qconfig``)."""
        dtype, factory = _dtype_of(mod)
        kind = {"LSTM": LSTM, "GRU": GRU}.get(mod.mode)
        if kind is None:
            raise NotImplementedError("Only LSTM/GRU is supported for QuantizedRNN for now")
        options = mod.num_layers, mod.bias, mod.batch_first, mod.dropout, mod.bidirectional, dtype
        made = kind(mod.input_size, mod.hidden_size, *options)
        packs = []
        for layer in range(mod.num_layers):
            for direction in ("", "_reverse") if mod.bidirectional else ("",):
                halves = []
                for half in ("ih", "hh"):
                    end = f"_{half}_l{layer}{direction}"
                    bias = getattr(mod, "bias" + end) if mod.bias else None
                    halves.append(_packed(getattr(mod, "weight" + end), bias, dtype, factory))
                packs.append(PackedParameter(CellParams(halves[0], halves[1], dtype)))
        made._all_weight_values = nn.ModuleList(packs)
        return made

    def get_weight(self) -> dict[str, Tensor]:
        """The quantised weights by their names."""
        return self._named(0)

    def get_bias(self) -> dict[str, Tensor]:
        """The biases by their names."""
        return self._named(1) if self.bias else {}

    def _named(self, part: int) -> dict[str, Any]:
        found = {}
        directions = ("", "_reverse") if self.bidirectional else ("",)
        packs: Any = iter(self._all_weight_values)
        for layer in range(self.num_layers):
            for direction in directions:
                pair = next(packs).param.packed
                for half, packed in zip(("ih", "hh"), pair):
                    found[f"{('weight', 'bias')[part]}_{half}_l{layer}{direction}"] = packed.unpack()[part]
        return found


class LSTM(RNNBase):
    """An LSTM with weights of 8 bits, with the options and results of `torch.nn.LSTM`.

    >>> model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.LSTM(3, 4)))
    >>> model
    Sequential(
      (0): DynamicQuantizedLSTM(3, 4)
    )
    >>> output, (hidden, cell) = model(torch.ones(5, 2, 3))
    >>> output.shape, hidden.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    _FLOAT_MODULE: Any = nn.LSTM

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__("LSTM", *args, **keywords)

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTM"


class GRU(RNNBase):
    """A GRU with weights of 8 bits, with the options and results of `torch.nn.GRU`.

    >>> torch.ao.nn.quantized.dynamic.GRU(3, 4)(torch.ones(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """

    _FLOAT_MODULE: Any = nn.GRU

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__("GRU", *args, **keywords)

    def _get_name(self) -> str:
        return "DynamicQuantizedGRU"


class RNNCellBase(nn.Module):
    """The base of the cells: both packed weights."""

    mode = "RNN_TANH"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, num_chunks: int = 4, dtype: Any = torch.qint8
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias, self.weight_dtype = input_size, hidden_size, bias, dtype
        rows = num_chunks * hidden_size
        weights = [torch.randn(rows, width).to(torch.float) for width in (input_size, hidden_size)]
        self.bias_ih, self.bias_hh = (torch.randn(rows).to(torch.float) if bias else None for _ in range(2))
        packs = []
        for weight, own in zip(weights, (self.bias_ih, self.bias_hh)):
            if dtype is torch.float16:
                packs.append(ops.linear_prepack_fp16(weight, own))
            else:
                packs.append(ops.linear_prepack(torch.quantize_per_tensor(weight, 1, 0, torch.qint8), own))
        self._packed_weight_ih, self._packed_weight_hh = packs

    def _get_name(self) -> str:
        return "DynamicQuantizedRNNBase"

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text + (f", nonlinearity={nonlinearity}" if nonlinearity != "tanh" else "")

    def _step(self, input: Tensor, state: State) -> State:
        if input.size(1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)}, expected {self.input_size}")
        params = CellParams(self._packed_weight_ih, self._packed_weight_hh, self.weight_dtype)
        return _STEPS[self.mode](params.times(0, input), params.times(1, state[0]), state)

    def _zeros(self, input: Tensor) -> Tensor:
        return torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The cell with the weights of another one, which may have a configuration (``qconfig``)."""
        dtype, factory = _dtype_of(mod)
        kind: Any = {nn.LSTMCell: LSTMCell, nn.GRUCell: GRUCell, nn.RNNCell: RNNCell}.get(type(mod))
        if kind is None:
            raise NotImplementedError("Only LSTMCell, GRUCell and RNNCell are supported for QuantizedRNN for now")
        more = {"nonlinearity": mod.nonlinearity} if kind is RNNCell else {}
        made = kind(mod.input_size, mod.hidden_size, bias=mod.bias, dtype=dtype, **more)
        if mod.bias:
            made.bias_ih, made.bias_hh = mod.bias_ih, mod.bias_hh
        made._packed_weight_ih = _packed(mod.weight_ih, made.bias_ih, dtype, factory)
        made._packed_weight_hh = _packed(mod.weight_hh, made.bias_hh, dtype, factory)
        return made

    def get_weight(self) -> dict[str, Tensor]:
        """The quantised weights by their names."""
        return {
            "weight_ih": self._packed_weight_ih.unpack()[0],
            "weight_hh": self._packed_weight_hh.unpack()[0],
        }

    def get_bias(self) -> dict[str, Any]:
        """The biases by their names."""
        return {"bias_ih": self._packed_weight_ih.unpack()[1], "bias_hh": self._packed_weight_hh.unpack()[1]}

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "_packed_weight_ih"] = self._packed_weight_ih
        destination[prefix + "_packed_weight_hh"] = self._packed_weight_hh

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        self._packed_weight_ih = state_dict.pop(prefix + "_packed_weight_ih")
        self._packed_weight_hh = state_dict.pop(prefix + "_packed_weight_hh")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest[1:])


class RNNCell(RNNCellBase):
    """A cell with weights of 8 bits, with the options and results of `torch.nn.RNNCell`.

    >>> torch.ao.nn.quantized.dynamic.RNNCell(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        dtype: Any = torch.qint8,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {nonlinearity}")
        self.mode = f"RNN_{nonlinearity.upper()}"

    def _get_name(self) -> str:
        return "DynamicQuantizedRNNCell"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        state: Tensor = self._step(input, (self._zeros(input) if hx is None else hx,))[0]
        return state


class LSTMCell(RNNCellBase):
    """A cell with weights of 8 bits, with the options and results of `torch.nn.LSTMCell`.

    >>> torch.ao.nn.quantized.dynamic.LSTMCell(3, 4)(torch.ones(2, 3))[1].shape
    torch.Size([2, 4])
    """

    mode = "LSTM"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = torch.qint8) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, dtype=dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLSTMCell"

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        if hx is None:
            zeros = self._zeros(input)
            hx = zeros, zeros
        return self._step(input, tuple(hx))


class GRUCell(RNNCellBase):
    """A cell with weights of 8 bits, with the options and results of `torch.nn.GRUCell`.

    >>> torch.ao.nn.quantized.dynamic.GRUCell(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    mode = "GRU"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = torch.qint8) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedGRUCell"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        state: Tensor = self._step(input, (self._zeros(input) if hx is None else hx,))[0]
        return state


def __dir__() -> list[str]:
    return __all__
