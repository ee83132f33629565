"""Operators over lists of tensors, `torch._foreach_add_` and its family, which optimizers of libraries call."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_Number = (int, float, complex, bool)
_Lists = (list, tuple)


def _checked(tensors: Any, name: str) -> Any:
    if not isinstance(tensors, _Lists):
        raise TypeError(f"{name}(): argument 'self' must be tuple of Tensors, not {type(tensors).__name__}")
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return tensors


def _each(value: Any, count: int) -> Any:
    """One value for each tensor: a list's items, or the same number or tensor again and again."""
    if not isinstance(value, _Lists):
        if isinstance(value, torch.Tensor) and value.dim():
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {value.dim()} dimensions and {value.numel()} elements."
            )
        return [value] * count
    if len(value) == count:
        return value
    if value and isinstance(value[0], torch.Tensor):
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(value)}")
    raise RuntimeError("Tensor list must have same number of elements as scalar list.")


def _finish(name: str, tensors: Any, results: list) -> Any:
    """What torch returns: a tuple of new tensors, or the changed list itself."""
    return tensors if name.endswith("_") else tuple(results)


def _unary(name: str, operator: Callable[..., Any]) -> Callable[..., Any]:
    def function(self: Any) -> Any:
        return _finish(name, self, [operator(tensor) for tensor in _checked(self, name)])

    return function


def _binary(name: str, operator: Callable[..., Any]) -> Callable[..., Any]:
    def function(self: Any, *args: Any, alpha: Any = None, **kwargs: Any) -> Any:
        if name == "_foreach_pow" and isinstance(self, _Number):  # the base is a number
            return tuple(torch.pow(self, exponent) for exponent in _checked(*args, name))
        given = [*args, *(kwargs.pop(key) for key in ("other", "scalar", "scalars", "exponent") if key in kwargs)]
        if len(given) != 1 or kwargs:
            raise TypeError(f"{name}() takes two arguments: a list of tensors, and a number, a tensor or a list")
        others = _each(*given, len(_checked(self, name)))
        options = {} if alpha is None else {"alpha": alpha}
        return _finish(name, self, [operator(own, other, **options) for own, other in zip(self, others)])

    return function


def _limit(name: str, operator: str, in_place: str) -> Callable[..., Any]:
    """`maximum` and `minimum`, which accept numbers here."""

    def compute(tensor: Any, other: Any) -> Any:
        if isinstance(other, _Number):
            bound = {"min" if operator == "maximum" else "max": other}
            return getattr(tensor, f"clamp{in_place}")(**bound)
        result = getattr(torch, operator)(tensor, other)
        return tensor.copy_(result) if in_place else result

    return _binary(name, compute)


def _pointwise(name: str, operator: Callable[..., Any]) -> Callable[..., Any]:
    """`addcmul` and `addcdiv`."""

    def function(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None) -> Any:
        count = len(_checked(self, name))
        values = value if scalars is None else scalars
        if isinstance(values, torch.Tensor):  # one number for each tensor
            values = values.tolist()
        parts = zip(self, _each(tensor1, count), _each(tensor2, count), _each(values, count))
        return _finish(name, self, [operator(own, one, two, value=scale) for own, one, two, scale in parts])

    return function


def _lerp(name: str, operator: Callable[..., Any]) -> Callable[..., Any]:
    def function(self: Any, tensors1: Any, weight: Any = None, *, weights: Any = None, scalars: Any = None) -> Any:
        count = len(_checked(self, name))
        scales = next(one for one in (weight, weights, scalars) if one is not None)
        parts = zip(self, _each(tensors1, count), _each(scales, count))
        return _finish(name, self, [operator(own, end, scale) for own, end, scale in parts])

    return function


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    """The norm of every tensor."""
    return tuple(torch.linalg.vector_norm(tensor, ord, dtype=dtype) for tensor in _checked(self, "_foreach_norm"))


def _foreach_max(self: Any) -> Any:
    """The largest element of every tensor."""
    return tuple(tensor.max() for tensor in _checked(self, "_foreach_max"))


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copies each tensor of ``src`` to the tensor at the same place."""
    for target, source in zip(_checked(self, "_foreach_copy_"), _each(src, len(self))):
        target.copy_(source)
    return self


def _make(name: str) -> Callable[..., Any]:
    base, in_place = name.removeprefix("_foreach_"), ""
    if base.endswith("_"):
        base, in_place = base[:-1], "_"
    operator = getattr(torch.Tensor, base + in_place, None)
    if base in ("maximum", "minimum"):
        function = _limit(name, base, in_place)
    elif base in ("add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max"):
        function = _binary(name, operator)
    elif base in ("addcmul", "addcdiv"):
        function = _pointwise(name, operator)
    else:
        function = (_lerp if base == "lerp" else _unary)(name, operator)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`torch.{base}{in_place}` of every tensor of a list."
    return function


for _name in torch._FOREACH:
    if _name not in globals():
        globals()[_name] = _make(_name)
    globals()[_name].__module__ = "rushlight"
