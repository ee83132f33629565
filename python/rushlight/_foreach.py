"""`torch._foreach_*`: one operation on each tensor of a list. Libraries update averages of parameters with them.

Each function calls the operator for one tensor after the other. It checks the lengths of the lists first, so that a call that
fails for that reason changes nothing. The in-place forms return the list of the tensors that they have changed.
"""

from __future__ import annotations

from numbers import Number

import rushlight as torch
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor

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


def _is_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, torch.Tensor) for one in value)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, Number) for one in value)


def _checked(name: str, tensors: Any, *others: Any) -> Sequence[Tensor]:
    """The first argument, if it is a list of tensors that is as long as the other lists."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
        )
    for place, one in enumerate(tensors):
        if not isinstance(one, torch.Tensor):
            raise TypeError(f"expected Tensor as element {place} in argument 0, but got {type(one).__name__}")
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for other in others:
        if _is_tensors(other) and (other or not _is_numbers(other)) and len(other) != len(tensors):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(other)}"
            )
        if _is_numbers(other) and len(other) != len(tensors):
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return tensors


def _unknown(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> TypeError:
    got = [type(one).__name__ for one in args] + [f"{key}={type(one).__name__}" for key, one in options.items()]
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({', '.join(got)})\n"
        "  It takes lists of tensors, and a number, a list of tensors or a list of numbers for each further operand."
    )


def _each(value: Any, count: int) -> Sequence[Any]:
    """One operand for each tensor: the items of a list, or the same operand again and again."""
    return value if isinstance(value, (list, tuple)) else [value] * count


def _unary(operator: str, in_place: bool) -> Callable[..., Any]:
    name = f"_foreach_{operator}" + "_" * in_place
    call = getattr(torch.Tensor, operator + "_" * in_place)

    def foreach(self: Any) -> Any:
        done = [call(one) for one in _checked(name, self)]
        return done if in_place else tuple(done)

    return foreach


def _binary(operator: str, in_place: bool) -> Callable[..., Any]:
    name = f"_foreach_{operator}" + "_" * in_place
    keywords = {*_BINARY[operator]}

    def method(other: Any) -> Callable[..., Any]:
        if operator in _WITH_NUMBER and isinstance(other, torch.Tensor):
            result = getattr(torch, operator)
            return (lambda one, second: one.copy_(result(one, second))) if in_place else result
        return getattr(torch.Tensor, _WITH_NUMBER.get(operator, operator) + "_" * in_place)

    def foreach(*args: Any, **options: Any) -> Any:
        given, left = list(args), dict(options)
        if not given and "self" in left:
            given.append(left.pop("self"))
        if len(given) == 1:
            given += [left.pop(key) for key in keywords & {*left}]
        alpha = left.pop("alpha", None)
        if len(given) != 2 or left:
            raise _unknown(name, args, options)
        tensors, other = given
        if operator == "pow" and isinstance(tensors, (int, float, complex)) and not in_place:
            return tuple(torch.pow(tensors, one) for one in _checked(name, other))
        one_tensor = isinstance(other, torch.Tensor)
        listed = _is_tensors(other) and not _is_numbers(other)
        # A keyword of the one kind does not take a value of the other.
        kinds = {"scalar": isinstance(other, Number) or one_tensor, "other": one_tensor or listed}
        kinds["scalars"] = _is_numbers(other)
        if not any(kinds.values()) or (len(args) < 2 and not any(kinds.get(key, True) for key in options)):
            raise _unknown(name, args, options)
        if one_tensor and operator not in _ONE_TENSOR:
            other = other.item()
        elif one_tensor and other.dim() != 0:
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and {other.numel()} elements."
            )
        if alpha is not None and (operator not in ("add", "sub") or not (listed or one_tensor)):
            raise _unknown(name, args, options)
        more = {} if alpha is None else {"alpha": alpha}
        _checked(name, tensors, other)
        done = [method(second)(one, second, **more) for one, second in zip(tensors, _each(other, len(tensors)))]
        return done if in_place else tuple(done)

    return foreach


def _ternary(operator: str, in_place: bool) -> Callable[..., Any]:
    name = f"_foreach_{operator}" + "_" * in_place
    call = getattr(torch.Tensor, operator + "_" * in_place)

    def foreach(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None) -> Any:
        factors = value if scalars is None else scalars
        if not (_is_tensors(tensor1) and _is_tensors(tensor2)):
            raise _unknown(name, (self, tensor1, tensor2, factors), {})
        if isinstance(factors, torch.Tensor):
            _checked(name, self, tensor1, tensor2)
            if factors.dim() != 1:
                raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {factors.dim()} instead.")
            if len(factors) != len(self):
                raise RuntimeError(
                    f"Expected length of scalars to match input of length {len(self)} but got {len(factors)} instead."
                )
            factors = factors.tolist()
        elif not (isinstance(factors, Number) or _is_numbers(factors)):
            raise _unknown(name, (self, tensor1, tensor2, factors), {})
        _checked(name, self, tensor1, tensor2, factors)
        rows = zip(self, tensor1, tensor2, _each(factors, len(self)))
        done = [call(one, first, second, value=factor) for one, first, second, factor in rows]
        return done if in_place else tuple(done)

    return foreach


def _lerp(in_place: bool) -> Callable[..., Any]:
    name = "_foreach_lerp" + "_" * in_place
    call = torch.Tensor.lerp_ if in_place else torch.Tensor.lerp

    def foreach(self: Any, tensors1: Any, weight: Any = None, *, weights: Any = None) -> Any:
        weight = weights if weight is None else weight
        known = isinstance(weight, (Number, torch.Tensor)) or _is_tensors(weight) or _is_numbers(weight)
        if not (known and _is_tensors(tensors1)):
            raise _unknown(name, (self, tensors1, weight), {})
        if isinstance(weight, torch.Tensor):
            weight = weight.item()
        _checked(name, self, tensors1, weight)
        done = [call(one, end, part) for one, end, part in zip(self, tensors1, _each(weight, len(self)))]
        return done if in_place else tuple(done)

    return foreach


def _foreach_zero_(self: Any) -> list[Tensor]:
    """Sets each tensor to zero."""
    return [one.zero_() for one in _checked("_foreach_zero_", self)]


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> list[Tensor]:
    """Copies each tensor of ``src`` into the tensor at the same place."""
    _checked("_foreach_copy_", self, src)
    return [one.copy_(source, non_blocking) for one, source in zip(self, src)]


def _foreach_clone(self: Any, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    """A copy of each tensor."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(one.clone(**options) for one in _checked("_foreach_clone", self))


def _foreach_max(self: Any) -> tuple[Tensor, ...]:
    """The largest element of each tensor."""
    for one in _checked("_foreach_max", self):
        if one.numel() == 0:
            raise RuntimeError(
                "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined."
            )
    return tuple(one.max() for one in self)


def _foreach_mm(self: Any, mat2: Any) -> tuple[Tensor, ...]:
    """The product of each pair of matrices."""
    _checked("_foreach_mm", self, mat2)
    return tuple(one.mm(other) for one, other in zip(self, mat2))


def _foreach_norm(self: Any, ord: Any = 2, dtype: torch.dtype | None = None) -> tuple[Tensor, ...]:
    """The norm of each tensor."""
    for one in _checked("_foreach_norm", self):
        if one.numel() == 0 and ord in (torch.inf, -torch.inf):
            raise RuntimeError(
                "_foreach_norm cannot compute the infinity norm on an empty tensor because the operation does not have an "
                "identity"
            )
    return tuple(torch.linalg.vector_norm(one, ord, dtype=dtype) for one in self)


def _foreach_powsum(self: Any, ord: Any = 2, dtype: torch.dtype | None = None) -> tuple[Tensor, ...]:
    """The sum of the powers of the absolute values of each tensor."""
    tensors = _checked("_foreach_powsum", self)
    return tuple((one if dtype is None else one.to(dtype)).abs().pow(ord).sum() for one in tensors)


def _amp_foreach_non_finite_check_and_unscale_(self: Any, found_inf: Tensor, inv_scale: Tensor) -> None:
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
        made.update({f"{name}{'_' * in_place}": _unary(name, in_place) for name in _UNARY})
        made.update({f"{name}{'_' * in_place}": _binary(name, in_place) for name in _BINARY})
        made.update({f"{name}{'_' * in_place}": _ternary(name, in_place) for name in ("addcdiv", "addcmul")})
        made[f"lerp{'_' * in_place}"] = _lerp(in_place)
    for name, function in made.items():
        function.__name__ = function.__qualname__ = f"_foreach_{name}"
        function.__doc__ = f"`Tensor.{name}` of each tensor of a list."
        globals()[function.__name__] = function
        set_module("rushlight", function)


_make()
set_module(
    "rushlight",
    *(_foreach_zero_, _foreach_copy_, _foreach_clone, _foreach_max, _foreach_mm, _foreach_norm, _foreach_powsum),
    _amp_foreach_non_finite_check_and_unscale_,
)
