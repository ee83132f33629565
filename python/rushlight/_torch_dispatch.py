"""`__torch_dispatch__`: classes of tensors, and modes, that handle the operators of torch's registry.

A handler gets ``torch.ops.aten.add.Tensor`` where ``__torch_function__`` gets ``torch.add``. A call reaches it as follows:
`rushlight.overrides` passes the public function to `decompose`, if a mode is active or an argument's class handles operators;
`decompose` calls the function's operators in `torch.ops`; and each of these calls `handle`.

Handlers run below autograd: the engine records the operator and takes the handler's result as its own. An operator that the engine
composes of others is decomposed if it is recorded. What backward runs, the engine passes to `rushlight._engine_calls`.
A class whose tensors have elements is the exception: its handler runs above autograd, and does not see backward.
"""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from functools import cache, partial
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

import rushlight as torch
from rushlight import _C, ops
from rushlight._aten_functions import FUNCTIONS, SEVERAL_OPERATORS
from rushlight._aten_names import PYTHON_OPERATORS, own_name
from rushlight._C import Tensor, _handles_operators
from rushlight._decompositions import ATTRIBUTES, DECOMPOSITIONS
from rushlight._library.results import checked, checked_by_name
from rushlight._overridable import OVERRIDABLE_MARK
from rushlight._override_order import (
    active_dispatch_modes,
    handling_classes,
    leaves,
    without_dispatch_modes,
    without_handlers,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["decompose", "handle", "_make_wrapper_subclass"]

aten = ops.aten

#: Methods that tell shape, dtype, place and the like, or have no operator in torch.
_METADATA = frozenset(
    """size dim stride numel nelement ndimension storage_offset is_contiguous element_size data_ptr untyped_storage storage
    requires_grad_ is_floating_point is_complex is_conj is_neg is_inference is_signed get_device as_subclass retain_grad
    register_hook _is_view is_same_size is_shared share_memory_ has_names __hash__ __len__ __repr__ __format__ __dir__
    __reduce_ex__ numpy tolist __array__ __dlpack__ __dlpack_device__ result_type can_cast
    is_tensor is_storage""".split()
)
#: Functions and methods whose operators have other names.
_RENAMED = {
    **PYTHON_OPERATORS,
    "__iter__": "unbind",
    "concat": "cat",
    "concatenate": "cat",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "swapaxes_": "transpose_",
    "swapdims_": "transpose_",
    "pin_memory": "_pin_memory",
}


#: Functions that torch composes of operators in every case.
_COMPOSED_BY_TORCH = frozenset(
    "linear conv1d conv2d conv3d scaled_dot_product_attention cross_entropy matmul nll_loss".split()
)


#: Operators whose results share memory with an operand and have no history.
_WITHOUT_HISTORY = frozenset({"detach", "lift_fresh"})
#: Operators without a derivative, and those that the engine does not run as operators.
_NOT_RECORDED = frozenset(
    "_local_scalar_dense equal is_same_size allclose set_ resize_ resize_as_ requires_grad_".split()
)


def handle(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """The result of the handlers of an operator, which is recorded as the operator's. None if there is no handler.

    Raises:
        TypeError: all handlers return NotImplemented.
    """
    classes, modes = handling_classes(args, kwargs), active_dispatch_modes()
    if not classes and not modes:
        return None
    operands = [one for one in leaves((*args, *kwargs.values())) if isinstance(one, Tensor)]
    has_elements = not modes and not any(map(_C._is_wrapper, operands))
    if overload._operator is not None or has_elements:
        return (_first_result(overload, classes, modes, args, kwargs),)
    requires_grad = kwargs.get("requires_grad", False)
    if "requires_grad" in kwargs:
        kwargs = {name: value for name, value in kwargs.items() if name != "requires_grad"}

    def compute() -> Any:
        return _first_result(overload, classes, modes, args, kwargs)

    name = overload.overloadpacket.__name__
    function = overload.overloadpacket._function
    if name in _COMPOSED_BY_TORCH:
        result = _C._handling_parts(function, args, kwargs)
    elif name in _WITHOUT_HISTORY:
        result = _C._below_autograd(compute, (), {})
    elif name in _NOT_RECORDED or not _C._is_recorded(operands):
        result = _C._as_views(operands, _C._below_autograd(compute, (), {}))
    elif isinstance(function, FunctionType) and not _calls_one_operator(name):
        result = _C._handling_parts(function, args, kwargs)
    else:
        given = _with_places(args) if name in _INDEXED else args
        result = _recorded(function, operands[0], given, kwargs, compute)
    if requires_grad:
        result.requires_grad_()
    return (result,)


def _recorded(
    function: Any, operand: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any], compute: Callable[[], Any]
) -> Any:
    """The results of a handler, recorded as those of the operator. None among several stands for a tensor, which no
    derivative can read."""
    missing: list[int] = []

    def complete() -> Any:
        found = compute()
        if not isinstance(found, (tuple, list)) or all(one is not None for one in found):
            return found
        missing.extend(place for place, one in enumerate(found) if one is None)
        return [torch.empty(0, dtype=torch.int64, device="meta") if one is None else one for one in found]

    result = _C._with_supplier(function, operand, args, kwargs, complete)
    if missing:
        result = tuple(None if place in missing else one for place, one in enumerate(result))
    return result


def _calls_one_operator(name: str) -> bool:
    """Whether the function in Python of an operator of torch calls one operator of the engine."""
    return name in FUNCTIONS and name not in SEVERAL_OPERATORS


#: Operators that take a list of indices, which may be masks.
_INDEXED = frozenset({"index", "index_put", "index_put_"})


def _with_places(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments that are recorded for masks without elements among the indices: places instead."""
    indices: list[Any] = []
    for one in args[1]:
        is_mask = one is not None and one.dtype == torch.bool and _C._is_wrapper(one)
        indices.extend(aten.unbind.int(aten.nonzero.default(one), 1) if is_mask else [one])
    return (args[0], indices, *args[2:])


def _first_result(
    overload: Any, classes: list[type], modes: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of the first handler of an operator: the innermost mode, and then the classes."""
    refused = []
    registered = {} if overload._operator is None else overload._operator.handlers
    for count in range(len(modes), 0, -1):
        mode = modes[count - 1]
        kind = type(mode)
        handler = partial(registered[kind], mode) if kind in registered else mode.__torch_dispatch__
        with without_dispatch_modes(count - 1):
            result = handler(overload, tuple(classes), args, kwargs)
        if result is not NotImplemented:
            return _checked(overload, result)
        refused.append(f"mode object {mode!r}")
    with without_dispatch_modes(0) if modes else nullcontext():
        for kind in classes:
            handler = partial(registered[kind], kind) if kind in registered else kind.__torch_dispatch__
            result = handler(overload, tuple(classes), args, kwargs)
            if result is not NotImplemented:
                return _checked(overload, result)
            refused.append(f"tensor subclass {kind!r}")
    listed = "\n".join(f"  - {one}" for one in refused)
    raise TypeError(
        f"Multiple dispatch failed for 'torch._ops.{overload}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n{listed}"
    )


def _checked(overload: Any, result: Any) -> Any:
    """What a handler has returned, if it fits the operator."""
    if overload._operator is not None:
        return checked(overload.name(), overload._schema.result_types, result)
    schema = getattr(overload, "_schema", None)
    several = None if schema is None else len(schema.result_types) > 1
    return checked_by_name(overload.overloadpacket.__name__, result, several)


def _namespace(func: Callable[..., Any]) -> str:
    """The namespace of a public function behind ``torch``, with a point: ``linalg.``; empty for a method."""
    if not isinstance(func, (BuiltinFunctionType, FunctionType)):
        return ""
    _, _, rest = (func.__module__ or "").partition(".")
    return f"{rest}." if rest in ("nn.functional", "linalg", "fft", "special") else ""


def _decomposition(func: Callable[..., Any]) -> Callable[..., Any] | None:
    name, space = getattr(func, "__name__", ""), _namespace(func)
    if space:
        return DECOMPOSITIONS.get(space + name)
    if isinstance(func, MethodDescriptorType) and f"Tensor.{name}" in DECOMPOSITIONS:
        return DECOMPOSITIONS[f"Tensor.{name}"]
    return DECOMPOSITIONS.get(name)


#: Types of public functions that are operators.
OPERATOR_TYPES = (FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)


@cache
def _parameters(func: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):
        return None


@cache
def _packet(func: Callable[..., Any], name: str) -> Any:
    """The operator for a public function. It takes the function's own arguments."""
    found = getattr(ops.aten, name, None)
    if found is None:
        return ops.OpOverloadPacket("aten", name, func)
    if _namespace(func) == "nn.functional.":
        # `torch` may have another function of this name, with other arguments.
        own, other = _parameters(func), _parameters(found._function)
        if own is None or other is None or [one.name for one in own] != [one.name for one in other]:
            return ops.OpOverloadPacket("aten", name, func)
    return found


def function_in_python(func: Callable[..., Any]) -> FunctionType | None:
    """The function behind a public one whose operators are handled one by one; None for an operator."""
    inner = getattr(func, "__wrapped__", None)
    return inner if isinstance(inner, FunctionType) else None


def overload_of(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The operator for a public function and its arguments, and the operator's arguments."""
    name, space = func.__name__, _namespace(func)
    plain = _RENAMED.get(name, name)
    args = _packed(func, args)
    if space in ("linalg.", "fft.", "special."):
        return _packet(func, space.replace(".", "_") + plain).default, args, kwargs
    if kwargs.get("inplace") is False:
        # In torch the function chooses between two operators.
        kwargs = {key: value for key, value in kwargs.items() if key != "inplace"}
    base, _, overload = own_name(plain, args, kwargs).partition(".")
    return getattr(_packet(func, base), overload), args, kwargs


def _packed(func: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers that may be given one by one as the list that they are in the operator."""
    for place, parameter in enumerate(_parameters(func) or ()):
        if (
            parameter.kind is parameter.VAR_POSITIONAL
            and len(args) > place
            and not isinstance(args[place], (list, tuple, Tensor))
        ):
            return (*args[:place], list(args[place:]))
    return args


def decompose(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """The result of a public function, by operators that a mode or the classes of arguments handle."""
    kwargs = kwargs or {}
    owner = getattr(func, "__self__", None)
    if inspect.isgetsetdescriptor(owner) or isinstance(owner, property):
        return _attribute(owner, func, args)
    name = getattr(func, "__name__", "")
    if name in _METADATA:
        if name in ("numpy", "tolist") and _handles_operators(type(args[0])):
            got = f", got {type(args[0]).__name__}" if name == "tolist" else "."
            raise RuntimeError(f".{name}() is not supported for tensor subclasses{got}")
        if name == "tolist" and args[0].is_cuda:
            # The operator by which torch reads the elements.
            args = (aten._to_copy.default(args[0], device="cpu"),)
        return without_handlers(func, args, kwargs)
    modes = active_dispatch_modes()
    if modes:
        with without_dispatch_modes(len(modes) - 1):
            whole = modes[-1]._take_whole(func, args, kwargs)
        if whole is not None:
            return whole[0]
    composed = _decomposition(func)
    if composed is not None:
        result = composed(*args, **kwargs)
        if result is not NotImplemented:
            return result
    inner = function_in_python(func)
    if inner is not None:
        # The operators of a function in Python are handled one by one.
        return inner(*args, **kwargs)
    if isinstance(func, FunctionType) and not getattr(func, OVERRIDABLE_MARK, False):
        raise NotImplementedError(
            f"{func.__module__.replace('rushlight', 'torch')}.{name} is not decomposed into operators for __torch_dispatch__: "
            "call it with the tensors inside, or handle it in __torch_function__"
        )
    if not isinstance(func, OPERATOR_TYPES):
        return without_handlers(func, args, kwargs)
    overload, args, kwargs = overload_of(func, args, kwargs)
    result = overload(*args, **kwargs)
    if isinstance(kwargs.get("out"), Tensor):
        return kwargs["out"]
    if overload.overloadpacket.__name__.endswith("_") and args and isinstance(args[0], Tensor):
        return args[0]
    if type(result) is list:
        return tuple(result)
    # Several results have the class of the function's.
    several = getattr(torch.return_types, name, None) if type(result) is tuple else None
    return result if several is None else several(result)


def _attribute(owner: Any, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    name = getattr(owner, "__name__", "")
    if func.__name__ == "__get__":
        if name in ATTRIBUTES:
            return ATTRIBUTES[name](args[0])
    return without_handlers(func, args, {})


def _make_wrapper_subclass(
    cls: Any,
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: Any = None,
    storage_size: int | None = None,
) -> Any:
    """`Tensor._make_wrapper_subclass`: a tensor without elements that tells a form and a device."""
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your class "
            "inherits from Tensor."
        )
    if not _handles_operators(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    if cls.__torch_function__ is _C._disabled_torch_function_impl:
        cls.__torch_function__ = classmethod(_function)  # type: ignore[method-assign, assignment]
        _C._expect_overrides()
    if dispatch_sizes_strides_policy not in (None, "strides", "sizes"):
        raise ValueError(
            f"Unknown sizes_strides_policy: {dispatch_sizes_strides_policy}; expected 'strides' or 'sizes'"
        )
    _check_form(size, dtype, layout)
    data = _meta_tensor(size, strides, storage_offset, dtype, storage_size)
    if requires_grad and not (data.is_floating_point() or data.is_complex()):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return _C._make_wrapper(cls, data, torch.device("cpu" if device is None else device), requires_grad)


def _check_form(size: Any, dtype: Any, layout: Any) -> None:
    """Raises torch's TypeError for arguments of `_make_wrapper_subclass` of another type."""
    refused = None
    if not isinstance(size, (tuple, list)):
        refused = f"'size' (position 2) must be tuple of ints, not {type(size).__name__}"
    elif bad := [place for place, one in enumerate(size) if not hasattr(one, "__index__")]:
        kind = type(size[bad[0]]).__name__
        refused = f"'size' (position 2) must be tuple of ints, but found element of type {kind} at pos {bad[0]}"
    elif not isinstance(dtype, (torch.dtype, type(None))):
        refused = f"'dtype' must be torch.dtype, not {type(dtype).__name__}"
    elif not isinstance(layout, (torch.layout, type(None))):
        refused = f"'layout' must be torch.layout, not {type(layout).__name__}"
    if refused is not None:
        raise TypeError(f"_make_wrapper_subclass(): argument {refused}")


def _meta_tensor(
    size: Sequence[int],
    strides: Sequence[int] | None,
    storage_offset: int | None,
    dtype: Any,
    storage_size: int | None,
) -> Tensor:
    """A tensor without elements of a form, which has its own storage."""
    options = {"dtype": dtype, "device": "meta"}
    if strides is None:
        if storage_offset:
            raise RuntimeError("setting storage offset without stride not supported")
        data = torch.empty(size, **options)
        strides, storage_offset = data.stride(), 0
    elif len(strides) != len(size):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(strides)})"
        )
    else:
        data = torch.empty_strided(size, strides, **options)
    if not storage_offset and storage_size is None:
        return data
    offset = storage_offset or 0
    nbytes = data.untyped_storage().nbytes() + offset * data.element_size() if storage_size is None else storage_size
    storage = torch.UntypedStorage(nbytes, device="meta")
    return torch.empty(0, **options).set_(storage, offset, size, strides)


def _function(
    cls: type, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """The ``__torch_function__`` of a wrapper that has disabled its own: operators alone are handled."""
    return decompose(func, args, kwargs)
