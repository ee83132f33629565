"""`torch._foreach_*`: one operation on each tensor of a list. Libraries update averages of parameters with them.

Each function calls the operator for one tensor after the other. It checks the lengths of the lists first, so that a call that
fails for that reason changes nothing. The in-place forms return the list of the tensors that they have changed.
"""

from __future__ import annotations

from contextlib import nullcontext

import rushlight as torch
from rushlight import _C
from rushlight._compiled import compiled
from rushlight._modes import _Mode
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor

_OF_THREE = [
    f"Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, {last}"
    for last in ("Scalar[] scalars", "Tensor scalars", "Scalar value=1")
]
_OF_LERP = [
    f"Tensor[] self, Tensor[] tensors1, {last}" for last in ("Scalar weight", "Scalar[] weight", "Tensor[] weights")
]
_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt "
    "sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
#: For each function of two operands: the name of the second one, as a number, as tensors, and as numbers.
_BINARY = {
    **dict.fromkeys(
        ["add", "sub", "mul", "div", "clamp_max", "clamp_min", "maximum", "minimum"], ("scalar", "other", "scalars")
    ),
    "pow": ("exponent", "exponent", "exponent"),
}
_ONE_TENSOR = ("add", "mul", "div")
#: The operator that takes a number where the operator of the name takes none.
_WITH_NUMBER = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _of_two(operator: str, in_place: bool) -> list[str]:
    """torch's signatures of a function of two operands."""
    scalar, other, scalars = _BINARY[operator]
    alpha = ", *, Scalar alpha=1" if operator in ("add", "sub") else ""
    rest = [f"Scalar[] {scalars}", *[f"Tensor {other}{alpha}"] * (operator in _ONE_TENSOR), f"Tensor[] {other}{alpha}"]
    # The number is tried last where torch's product is.
    kinds = [*rest, f"Scalar {scalar}"] if operator in ("mul", "div") else [f"Scalar {scalar}", *rest]
    base = ["Scalar self, Tensor[] exponent"] if operator == "pow" and not in_place else []
    return [*base, *(f"Tensor[] self, {kind}" for kind in kinds)]


def _checked(tensors: Sequence[Tensor], *others: Any) -> Sequence[Tensor]:
    """The first list, if it is as long as the others."""
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for other in others:
        if not isinstance(other, (list, tuple)) or len(other) == len(tensors):
            continue
        if other and not isinstance(other[0], torch.Tensor):
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(other)}")
    return tensors


def _each(value: Any, count: int) -> Sequence[Any]:
    """One operand for each tensor: the items of a list, or the same operand again and again."""
    return value if isinstance(value, (list, tuple)) else [value] * count


class changing_captured(_Mode):
    """Inside the block, the function of a transform may change tensors from outside in place: torch does not look for them in lists.
    This is still refused if an operand depends on what is differentiated, because the change would carry derivatives out."""

    __slots__ = ("_operands", "_running")

    def __init__(self, *operands: Any) -> None:
        self._operands = operands

    def __enter__(self) -> None:
        self._running = _C._transforms()
        if self._running and not _depends(self._operands):
            _C._set_transforms(0)

    def __exit__(self, *exception: object) -> None:
        _C._set_transforms(self._running)


def _depends(operands: Any) -> bool:
    from rushlight.autograd._tangents import tangents_visible
    from rushlight.utils._tensors import tensors_in

    with tangents_visible():
        return any(one.requires_grad for one in tensors_in(operands))


def _calls(in_place: bool, *operands: Any) -> Any:
    """The block in which the tensors of a list are handled one by one."""
    return changing_captured(*operands) if in_place else nullcontext()


def _unary(operator: str, in_place: bool) -> Callable[..., Any]:
    call = getattr(torch.Tensor, operator + "_" * in_place)

    def foreach(self: Any) -> Any:
        with _calls(in_place):
            done = [call(one) for one in _checked(self)]
        return done if in_place else tuple(done)

    return foreach


def _binary(operator: str, in_place: bool) -> Callable[..., Any]:
    def method(other: Any) -> Callable[..., Any]:
        if operator in _WITH_NUMBER and isinstance(other, torch.Tensor):
            result = getattr(torch, operator)
            return (lambda one, second: one.copy_(result(one, second))) if in_place else result
        return getattr(torch.Tensor, _WITH_NUMBER.get(operator, operator) + "_" * in_place)

    def foreach(self: Any, *operand: Any, **named: Any) -> Any:
        more = {"alpha": named.pop("alpha")} if "alpha" in named else {}
        (other,) = (*operand, *named.values())
        if operator == "pow" and not isinstance(self, (list, tuple)):
            return tuple(torch.pow(self, one) for one in _checked(other))
        if isinstance(other, torch.Tensor):
            if operator not in _ONE_TENSOR:
                other = other.item()
            elif other.dim() != 0:
                raise RuntimeError(
                    f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and {other.numel()} elements."
                )
        _checked(self, other)
        with _calls(in_place, other):
            done = [method(second)(one, second, **more) for one, second in zip(self, _each(other, len(self)))]
        return done if in_place else tuple(done)

    return foreach


def _ternary(operator: str, in_place: bool) -> Callable[..., Any]:
    call = getattr(torch.Tensor, operator + "_" * in_place)

    def foreach(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None) -> Any:
        factors = value if scalars is None else scalars
        if isinstance(factors, torch.Tensor):
            _checked(self, tensor1, tensor2)
            if factors.dim() != 1:
                raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {factors.dim()} instead.")
            if len(factors) != len(self):
                raise RuntimeError(
                    f"Expected length of scalars to match input of length {len(self)} but got {len(factors)} instead."
                )
            factors = factors.tolist()
        _checked(self, tensor1, tensor2, factors)
        rows = zip(self, tensor1, tensor2, _each(factors, len(self)))
        with _calls(in_place, tensor1, tensor2):
            done = [call(one, first, second, value=factor) for one, first, second, factor in rows]
        return done if in_place else tuple(done)

    return foreach


def _lerp(in_place: bool) -> Callable[..., Any]:
    call = torch.Tensor.lerp_ if in_place else torch.Tensor.lerp

    def foreach(self: Any, tensors1: Any, weight: Any = None, *, weights: Any = None) -> Any:
        weight = weights if weight is None else weight
        if isinstance(weight, torch.Tensor):
            weight = weight.item()
        _checked(self, tensors1, weight)
        with _calls(in_place, tensors1, weight):
            done = [call(one, end, part) for one, end, part in zip(self, tensors1, _each(weight, len(self)))]
        return done if in_place else tuple(done)

    return foreach


@compiled()
def _foreach_zero_(self: Sequence[Tensor]) -> list[Tensor]:
    """Sets each tensor to zero."""
    with changing_captured():
        return [one.zero_() for one in _checked(self)]


@compiled()
def _foreach_copy_(self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False) -> list[Tensor]:
    """Copies each tensor of ``src`` into the tensor at the same place."""
    _checked(self, src)
    with changing_captured(src):
        return [one.copy_(source, non_blocking) for one, source in zip(self, src)]


@compiled("Tensor[] self, *, MemoryFormat memory_format=None")
def _foreach_clone(self: Sequence[Tensor], *, memory_format: Any = None) -> tuple[Tensor, ...]:
    """A copy of each tensor."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(one.clone(**options) for one in _checked(self))


@compiled()
def _foreach_max(self: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The largest element of each tensor."""
    for one in _checked(self):
        if one.numel() == 0:
            raise RuntimeError(
                "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined."
            )
    return tuple(one.max() for one in self)


@compiled()
def _foreach_mm(self: Sequence[Tensor], mat2: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The product of each pair of matrices."""
    _checked(self, mat2)
    return tuple(one.mm(other) for one, other in zip(self, mat2))


@compiled()
def _foreach_norm(self: Sequence[Tensor], ord: complex = 2, dtype: torch.dtype | None = None) -> tuple[Tensor, ...]:
    """The norm of each tensor."""
    for one in _checked(self):
        if one.numel() == 0 and ord in (torch.inf, -torch.inf):
            raise RuntimeError(
                "_foreach_norm cannot compute the infinity norm on an empty tensor because the operation does not have an "
                "identity"
            )
    return tuple(torch.linalg.vector_norm(one, ord, dtype=dtype) for one in self)


@compiled()
def _foreach_powsum(self: Sequence[Tensor], ord: complex = 2, dtype: torch.dtype | None = None) -> tuple[Tensor, ...]:
    """The sum of the powers of the absolute values of each tensor."""
    tensors = _checked(self)
    return tuple((one if dtype is None else one.to(dtype)).abs().pow(ord).sum() for one in tensors)


@compiled()
def _amp_foreach_non_finite_check_and_unscale_(self: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    """Multiplies each gradient by ``inv_scale``, and sets ``found_inf`` to 1 if a gradient has an element that is not finite."""
    if inv_scale.numel() != 1:
        raise RuntimeError("inv_scale must be a 1-element tensor.")
    if found_inf.numel() != 1:
        raise RuntimeError("found_inf must be a 1-element tensor.")
    with torch.no_grad():
        for one in self:
            if not one.isfinite().all():
                found_inf.fill_(1.0)
            one.mul_(inv_scale.to(one.device))


def _make() -> None:
    made = {}
    for in_place in (False, True):
        mark = "_" * in_place
        made.update({f"{name}{mark}": (_unary(name, in_place), ["Tensor[] self"]) for name in _UNARY})
        made.update({f"{name}{mark}": (_binary(name, in_place), _of_two(name, in_place)) for name in _BINARY})
        made.update({f"{name}{mark}": (_ternary(name, in_place), _OF_THREE) for name in ("addcdiv", "addcmul")})
        made[f"lerp{mark}"] = _lerp(in_place), _OF_LERP
    for name, (function, signatures) in made.items():
        function.__name__ = function.__qualname__ = f"_foreach_{name}"
        function.__doc__ = f"`Tensor.{name}` of each tensor of a list."
        globals()[function.__name__] = made_public = compiled(*signatures)(function)
        set_module("rushlight", made_public)


_make()
set_module(
    "rushlight",
    *(_foreach_zero_, _foreach_copy_, _foreach_clone, _foreach_max, _foreach_mm, _foreach_norm, _foreach_powsum),
    _amp_foreach_non_finite_check_and_unscale_,
)
