"""`torch.jit._get_trace_graph`: the operators that a call runs, as a graph. Libraries that count operations read it."""

from __future__ import annotations

import inspect
from functools import cache

import rushlight as torch
from rushlight._torch_dispatch import OPERATOR_TYPES, function_in_python, overload_of
from rushlight.utils._python_dispatch import TorchDispatchMode

from ._graph import TracingState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_GRID_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")

_tracing: list[TracingState] = []


def current() -> TracingState | None:
    """The trace that is being recorded (`torch._C._get_tracing_state`)."""
    return _tracing[-1] if _tracing else None


def _tuple(number: Any, count: int) -> tuple[Any, ...]:
    return tuple(number) if isinstance(number, (list, tuple)) else (number,) * count


# The operators of torch's traces, from the arguments of the functions: the name, and the inputs in the order of its schema.


def _of_convolution(transposed: bool, args: Any, kwargs: Any) -> tuple[str, list[Any]]:
    def plain(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return input, weight, bias, stride, padding, dilation, 0, groups

    def transpose(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return input, weight, bias, stride, padding, dilation, output_padding, groups

    input, weight, bias, stride, padding, dilation, output_padding, groups = (transpose if transposed else plain)(
        *args, **kwargs
    )
    count = weight.dim() - 2
    if isinstance(padding, str):
        reach = [d * (size - 1) // 2 for d, size in zip(_tuple(dilation, count), weight.shape[2:], strict=True)]
        padding = reach if padding == "same" else 0
    stride, padding, dilation, output_padding = (
        _tuple(part, count) for part in (stride, padding, dilation, output_padding)
    )
    flags = (False, False, torch.backends.cudnn.enabled, True)
    return "_convolution", [input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *flags]


def _plain_convolution(*args: Any, **kwargs: Any) -> tuple[str, list[Any]]:
    return _of_convolution(False, args, kwargs)


def _transposed_convolution(*args: Any, **kwargs: Any) -> tuple[str, list[Any]]:
    return _of_convolution(True, args, kwargs)


def _dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False, *, train: bool = True) -> Any:
    return "dropout", [input, p, training and train]


def _softmax(input: Any, dim: Any = None, *rest: Any, dtype: Any = None, _stacklevel: int = 3) -> Any:
    # `torch.softmax` takes the dtype in third place, and `nn.functional.softmax` in fourth.
    return "softmax", [input, dim, next((one for one in rest if isinstance(one, torch.dtype)), dtype)]


def _log_softmax(*args: Any, **kwargs: Any) -> Any:
    return "log_softmax", _softmax(*args, **kwargs)[1]


def _interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Any:
    count = input.dim() - 2
    sizes = None if size is None else _tuple(size, count)
    scales = None if scale_factor is None else _tuple(scale_factor, count)
    if mode == "area":
        return f"adaptive_avg_pool{count}d", [input, sizes]
    if mode.startswith("nearest"):
        name = "_upsample_nearest_exact" if mode.endswith("exact") else "upsample_nearest"
        return f"{name}{count}d", [input, sizes, scales]
    name = f"upsample_{mode}{ {'linear': '1d', 'trilinear': '3d'}.get(mode, '2d') }"
    return f"_{name}_aa" if antialias else name, [input, sizes, bool(align_corners), scales]


def _grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Any = None
) -> Any:
    places = _GRID_MODES.index(mode), _PADDINGS.index(padding_mode)
    return "grid_sampler", [input, grid, *places, bool(align_corners)]


def _batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    return "batch_norm", [input, weight, bias, running_mean, running_var, training, momentum, eps, True]


def _instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    return "instance_norm", [input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True]


def _einsum(equation: str, *operands: Any) -> Any:
    return "einsum", [equation, list(operands[0] if isinstance(operands[0], (list, tuple)) else operands), None]


#: Functions that are one operator in torch's traces and several ones here, or one with other arguments.
_WHOLE: dict[str, Callable[..., tuple[str, list[Any]]]] = {
    "dropout": _dropout,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "interpolate": _interpolate,
    "grid_sample": _grid_sample,
    "einsum": _einsum,
    "batch_norm": _batch_norm,
    "instance_norm": _instance_norm,
    **{f"conv{n}d": _plain_convolution for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _transposed_convolution for n in (1, 2, 3)},
}


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _bound(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any] | None:
    """The arguments by the names of parameters, in their order."""
    signature = _signature(function)
    if signature is None:
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if name != "out"}


class _Trace(TorchDispatchMode):
    """Records operators in a trace."""

    def __init__(self, state: TracingState) -> None:
        self._state = state

    def _take_whole(self, func: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any] | None:
        written = _WHOLE.get(getattr(func, "__name__", ""))
        if written is not None:
            kind, inputs = written(*args, **kwargs)
            result = func(*args, **kwargs)
            self._state._record(f"aten::{kind}", inputs, result)
            return (result,)
        if function_in_python(func) is not None or not isinstance(func, OPERATOR_TYPES):
            return None
        overload, given, named = overload_of(func, args, kwargs)
        result = func(*args, **kwargs)
        self._record(overload.overloadpacket, given, named, result)
        return (result,)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._record(func.overloadpacket, args, kwargs or {}, result)
        return result

    def _record(self, packet: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        kind = packet._qualified_op_name
        bound = None if packet._function is None else _bound(packet._function, args, kwargs)
        if bound is not None and bound.pop("inplace", False):
            kind += "_"
        inputs = [*args, *kwargs.values()] if bound is None else list(bound.values())
        self._state._record(kind, inputs, result)


def _get_trace_graph(
    f: Callable[..., Any],
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    strict: bool = True,
    _force_outplace: bool = False,
    return_inputs: bool = False,
    _return_inputs_states: bool = False,
) -> tuple[Any, ...]:
    """Calls a function or module, and returns the graph of the operators that it ran, and its result.

    The inputs of the graph are the tensors among the arguments, then the parameters and buffers of a module. Operators
    have the names and arguments that torch's traces have, but indexing is one operator, ``aten::__getitem__``. Sizes are numbers.

    Args:
        f: a function or a module.
        args: a tensor, or a tuple of arguments.
        kwargs: keyword arguments.
        strict, _force_outplace: accepted; they have no effect.
        return_inputs: whether to return the tensors among the arguments too.

    >>> graph, result = torch.jit._get_trace_graph(torch.nn.Linear(2, 3), torch.ones(1, 2))
    >>> [(node.kind(), node.output().type().sizes()) for node in graph.nodes()]
    [('aten::linear', [1, 3])]
    """
    args = args if isinstance(args, tuple) else (args,)
    state = TracingState()
    inputs = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Tensor)]
    parameters: list[Any] = []
    if isinstance(f, torch.nn.Module):
        parameters = list(f.state_dict(keep_vars=True).values())
    for tensor in (*inputs, *parameters):
        if isinstance(tensor, torch.Tensor) and id(tensor) not in state._values:
            state._set(tensor, state.graph._input(tensor))
    _tracing.append(state)
    try:
        with _Trace(state):
            result = f(*args, **(kwargs or {}))
        state.graph._end._inputs = [state._result(result)]
    finally:
        _tracing.pop()
    more = (tuple(inputs),) if return_inputs else ()
    return (state.graph, result, *more)
