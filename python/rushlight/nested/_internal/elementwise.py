"""Elementwise functions of jagged tensors, and tensors that are made like them."""

from __future__ import annotations

import rushlight as torch
from rushlight import _C, Tensor
from rushlight._answers import where_operands
from rushlight._aten_names import aten_name
from rushlight._C import DisableTorchFunctionSubclass

from .nested_tensor import NestedTensor, from_padded, like, padded, size_of, values_of
from .registry import answers, must_be_plain, nested_among, same_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Elementwise operators of the table, without those that torch has for no jagged tensor.
POINTWISE = {
    entry["python_name"]
    for entry in _C._table()
    if entry["implementation"] == "pointwise" and not entry["python_name"].startswith("_")
} - {"addcdiv", "addcmul", "sigmoid_backward", "tanh_backward", "threshold_backward", "logsigmoid"}
# Elementwise functions that are made of other operators.
POINTWISE |= set(
    """angle bernoulli celu clamp clip conj_physical div divide true_divide elu fix float_power gelu isclose mvlgamma
    multiply subtract negative absolute arccos arcsin arctan arctan2 arccosh arcsinh arctanh greater greater_equal less
    less_equal not_equal nan_to_num ndtr polygamma multigammaln positive real imag relu6 resolve_conj resolve_neg round rsub
    selu softsign square tanhshrink threshold masked_fill conj logical_not isreal hardtanh hardswish hardsigmoid silu mish
    softplus softshrink hardshrink leaky_relu alpha_dropout xlogy expit psi gammaln i0 digamma clamp_min clamp_max
    copysign heaviside frac logit maximum minimum""".split()
)
# Python's operators, by their slots.
ELEMENTWISE_SLOTS = set(
    """__rpow__ __rtruediv__ __rdiv__ __rfloordiv__ __rmod__ __mod__ __floordiv__ __truediv__ __add__ __radd__ __mul__ __rmul__
    __sub__ __neg__ __pos__ __abs__ __invert__ __and__ __or__ __xor__ __rand__ __ror__ __rxor__ __lshift__ __rshift__
    __rlshift__ __rrshift__ __lt__ __le__ __gt__ __ge__""".split()
)


def pointwise(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An elementwise function: of the values, if all tensors have the same parts or broadcast to them."""
    first = next(nested_among((*args, *kwargs.values())))
    tensors = [one for one in (*args, *kwargs.values()) if isinstance(one, Tensor)]
    shape = size_of(first)
    stacked = False
    for one in tensors:
        if isinstance(one, NestedTensor):
            if not same_parts(first, one):
                raise _mismatch(name, args, first, one)
        elif one.dim() > first.dim():
            raise RuntimeError("NYI: broadcasting NT with T with larger dim")
        elif one.dim() == first.dim() and any(size != 1 for size in one.shape[: first._ragged_idx + 1]):
            if one.shape[0] not in (1, shape[0]) or first._ragged_idx != 1:
                raise _mismatch(name, args, first, one, sizes=True)
            stacked = True
        elif first._ragged_idx >= first.dim() - len(_without_leading_ones(one).shape):
            raise _mismatch(name, args, first, one, sizes=True)
    writes = (name.endswith("_") and not name.endswith("__")) or kwargs.get("inplace")
    if stacked and not writes:
        return from_padded(_applied(func, args, kwargs, lambda one: padded(one, 0)), first)
    if writes:
        return in_place(func, first, args, kwargs)
    made = _applied(func, args, kwargs, values_of)
    if made is NotImplemented:
        return made  # of Python's operators
    return like(made, first) if isinstance(made, Tensor) else type(made)([like(one, first) for one in made])


def _without_leading_ones(tensor: Tensor) -> Tensor:
    while tensor.dim() and tensor.shape[0] == 1:
        tensor = tensor[0]
    return tensor


def _applied(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], change: Callable[[NestedTensor], Tensor]) -> Any:
    """The function of plain tensors: ``change`` makes one of a jagged tensor. Others lose dimensions of size one."""

    def plain(one: Any) -> Any:
        if isinstance(one, NestedTensor):
            return change(one)
        if change is values_of and isinstance(one, Tensor) and one.dim():
            return _without_leading_ones(one)
        return one

    return func(*map(plain, args), **{key: plain(value) for key, value in kwargs.items()})


def in_place(func: Any, input: NestedTensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NestedTensor:
    with DisableTorchFunctionSubclass():
        if input.is_leaf and input.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this "
                "use case is ambiguous and error-prone, it is forbidden."
            )
        func(*args, **kwargs)
    return input


def _mismatch(name: str, args: Any, first: Any, second: Any, sizes: bool = False) -> RuntimeError:
    overload = aten_name(name, args)
    left, right = (one for one in args if isinstance(one, Tensor)) if len(args) > 1 else (first, second)
    shapes = [one.shape if sizes or not isinstance(one, NestedTensor) else one._size for one in (left, right)]
    return RuntimeError(
        f"cannot call binary pointwise function {overload} with inputs of shapes {shapes[0]} and {shapes[1]}"
    )


@answers("where")
def _where(func: Any, *args: Any, **kwargs: Any) -> Any:
    # The method has the condition second.
    condition, first, second = where_operands(func, args, kwargs)
    if not isinstance(condition, NestedTensor):
        raise ValueError(
            "NestedTensor where_self(condition: jt_all, self: any, other: any): expected condition to be a jagged layout "
            "NestedTensor"
        )
    return pointwise(torch.where, "where", (condition, first, second), {})


@answers("dropout", "dropout_", "native_dropout", "feature_dropout")
def _dropout(func: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("inplace") or func.__name__ == "dropout_":
        return in_place(func, input, (input, *args), kwargs)
    must_be_plain(input, "native_dropout_default(self: jt, float: any, train: any?)")
    made = func(values_of(input), *args, **kwargs)
    return like(made, input) if isinstance(made, Tensor) else tuple(like(one, input) for one in made)


@answers("frexp")
def _frexp(func: Any, input: NestedTensor) -> Any:
    made = func(values_of(input))
    return type(made)([like(one, input) for one in made])


@answers(
    *"zeros_like ones_like empty_like rand_like randn_like full_like randint_like".split(),
)
def _created(func: Any, input: NestedTensor, *args: Any, layout: Any = None, **kwargs: Any) -> Any:
    return like(func(values_of(input), *args, **kwargs), input)


@answers(*"new_empty new_zeros new_ones new_full".split())
def _new(func: Any, input: NestedTensor, *size: Any, **kwargs: Any) -> Tensor:
    if len(size) != 1 or not isinstance(size[0], tuple) or size[0]:
        raise RuntimeError("new_empty() not supported for NJT with shape != ()")
    made: Tensor = func(values_of(input), *size, **kwargs)
    return made


@answers("new_tensor")
def _new_tensor(func: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    return func(values_of(input), *args, **kwargs)
