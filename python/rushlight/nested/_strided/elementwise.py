"""Elementwise functions of strided nested tensors, and tensors that are made like them."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor
from rushlight._answers import where_operands
from rushlight._aten_names import aten_name
from rushlight._C import DisableTorchFunctionSubclass

from .registry import answers, like, packed
from .tensor import NO_SIZES, Geometry, StridedNestedTensor, buffer_of, pack, refusal, samples_of, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tensor import StridedNestedTensor as Nested


@answers(
    *"abs cos gelu isinf isnan isneginf isposinf logical_not neg negative relu sgn silu sin sqrt tanh absolute".split()
)
def _unary(func: Any, input: Nested, *args: Any, **kwargs: Any) -> Nested:
    if kwargs.pop("inplace", False):
        return in_place(func, input, *args, inplace=True, **kwargs)
    return like(func(buffer_of(input), *args, **kwargs), input)


@answers(*"abs_ gelu_ logical_not_ neg_ relu_ sgn_ silu_ tanh_ zero_ fill_ normal_".split())
def in_place(func: Any, input: Nested, *args: Any, **kwargs: Any) -> Nested:
    if not input._geometry.is_packed():
        raise RuntimeError("NestedTensor must be contiguous to get buffer.")
    with DisableTorchFunctionSubclass():
        func(input, *args, **kwargs)
    return input


@answers(*"add sub mul div subtract multiply divide true_divide __add__ __sub__ __mul__ __truediv__".split())
def _binary(func: Any, input: Any, other: Any, **kwargs: Any) -> Any:
    nested, first, second = _operands(func.__name__, input, other)
    made = func(first, second, **kwargs)
    return like(made, nested) if isinstance(made, Tensor) else made  # NotImplemented, of Python's operators


@answers(*"add_ mul_ __iadd__ __imul__".split())
def _binary_in_place(func: Any, input: Any, other: Any, **kwargs: Any) -> Nested:
    nested, _, second = _operands(func.__name__.strip("_i"), input, other)
    return in_place(func, nested, second, **kwargs)


def _operands(name: str, input: Any, other: Any) -> tuple[Nested, Any, Any]:
    """A nested operand without gaps, and both as plain tensors or numbers.

    Raises:
        RuntimeError: the samples have other sizes, or one is a plain tensor of several elements.
    """
    name = name.strip("_")
    name = {"subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "truediv": "div"}.get(
        name, name
    )
    for one, words in ((input, "a non-nested self and nested other"), (other, "a nested self and non-nested other")):
        if isinstance(one, Tensor) and not isinstance(one, StridedNestedTensor) and (one.is_nested or one.numel() != 1):
            if one.is_nested:
                raise RuntimeError(NO_SIZES)
            raise RuntimeError(f"Expected both self and other to be nested, but got {words}")
    nested = [one for one in (input, other) if isinstance(one, StridedNestedTensor)]
    if len({tuple(one._geometry.shapes) for one in nested}) > 1:
        raise RuntimeError(f"{name} does not support broadcasting when given a NestedTensor")
    if not nested[0]._geometry.places_as(nested[-1]._geometry):
        nested = [input, other] = [packed(input), packed(other)]

    def plain(one: Any) -> Any:
        if isinstance(one, StridedNestedTensor):
            return buffer_of(one)
        # A number as a tensor keeps the dtype of the buffer, as a tensor of no dimension.
        return one.reshape(()) if isinstance(one, Tensor) else one

    return nested[0], plain(input), plain(other)


@answers("eq", "gt", "ge", "greater", "greater_equal")
def _compared(func: Any, input: Nested, other: Any) -> Nested:
    name = aten_name(func.__name__.strip("_"), (input, other))
    if name == "eq.Tensor" and isinstance(other, StridedNestedTensor):
        raise RuntimeError("eq does not support nested tensor as other value.")
    if name.endswith(".Tensor") and not name.startswith("eq"):
        raise refusal(name)
    nested, first, second = _operands("eq", input, other)
    return like(func(first, second), nested)


@answers("masked_fill")
def _masked_fill(func: Any, input: Any, mask: Any, value: Any) -> Nested:
    if isinstance(value, Tensor):
        raise refusal("masked_fill.Tensor")
    for one, words in ((input, "a non-nested self and nested other"), (mask, "a nested self and non-nested other")):
        if not isinstance(one, StridedNestedTensor):
            raise RuntimeError(f"Expected both self and other to be nested, but got {words}")
    nested, first, second = _operands("masked_fill", input, mask)
    return like(func(first, second, value), nested)


@answers("where")
def _where(func: Any, *args: Any, **kwargs: Any) -> Nested:
    condition, first, second = where_operands(func, args, kwargs)
    for name, one, wanted in (("condition", condition, True), ("self", first, False), ("other", second, True)):
        if isinstance(one, StridedNestedTensor) is not wanted:
            raise RuntimeError(f"{name} must {'' if wanted else 'not '}be nested")
    return pack([torch.where(one, first, other) for one, other in zip(samples_of(condition), samples_of(second))])


@answers("dropout", "dropout_", "native_dropout")
def _dropout(func: Any, input: Nested, *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("inplace") or func.__name__ == "dropout_":
        return in_place(func, input, *args, **kwargs)
    own = packed(input)
    made = func(buffer_of(own), *args, **kwargs)
    return like(made, own) if isinstance(made, Tensor) else tuple(like(one, own) for one in made)


@answers("ones_like", "zeros_like", "empty_like", "randn_like")
def _created(func: Any, input: Nested, *args: Any, **kwargs: Any) -> Nested:
    own = Geometry.packed(input._geometry.shapes)
    return wrap(func(buffer_of(packed(input)), *args, **kwargs), own)
