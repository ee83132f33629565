"""`__torch_dispatch__`: classes of tensors, and modes, that answer the operators of torch's registry.

A handler gets ``torch.ops.aten.add.Tensor`` where ``__torch_function__`` gets ``torch.add``. A call reaches it as follows:
the engine asks ``__torch_function__``; its default, and the disabled form in classes of `_make_wrapper_subclass`, names the
operator of the call (`overload_of`) and calls it; and `torch.ops` asks the classes of the operator's arguments.

Functions that torch composes of operators, softmax for example, are one operator here. Operators that backward runs are
not seen, so that a wrapper requires no gradient.
"""

from __future__ import annotations

import inspect
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

import rushlight as torch
from rushlight import _C, ops
from rushlight._aten_names import aten_name
from rushlight._C import Tensor
from rushlight._loading import load
from rushlight.overrides import answers_operators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["answer", "call", "handlers", "make_wrapper", "overload_of"]

#: Methods that ask for the form of a tensor, and are no operators.
_QUESTIONS = frozenset(
    """size dim stride numel nelement ndimension storage_offset is_contiguous element_size data_ptr untyped_storage storage
    requires_grad_ is_floating_point is_complex is_conj is_neg is_inference is_signed get_device as_subclass retain_grad
    register_hook is_same_size is_shared share_memory_ has_names type __hash__ __len__ __repr__ __format__ __dir__
    __reduce_ex__ __deepcopy__ backward numpy tolist __array__ __dlpack__ __dlpack_device__ result_type can_cast
    is_tensor is_storage is_nonzero""".split()
)
#: Methods that convert, as one operator.
_CONVERSIONS: dict[str, dict[str, Any]] = {
    "cpu": {"device": "cpu"},
    "char": {"dtype": torch.int8},
    "byte": {"dtype": torch.uint8},
    **{
        name: {"dtype": getattr(torch, name)}
        for name in "float double half bfloat16 long int short bool cfloat cdouble".split()
    },
}
#: Python's numbers of one element.
_NUMBERS = {"__int__": int, "__float__": float, "__bool__": bool, "__index__": int, "__complex__": complex}
#: Python's operators, by the functions that do the same.
_PYTHONS = {
    "__radd__": "add",
    "__rmul__": "mul",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "item": "_local_scalar_dense",
    "pin_memory": "_pin_memory",
}


def _leaves(arguments: Iterable[Any]) -> Iterable[Any]:
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            yield from argument
        else:
            yield argument


def handlers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[type]:
    """The classes among the arguments that answer operators, subclasses before their bases."""
    found: list[type] = []
    for argument in _leaves((*args, *kwargs.values())):
        kind = type(argument)
        if kind is not Tensor and isinstance(argument, Tensor) and kind not in found and answers_operators(kind):
            place = next((place for place, other in enumerate(found) if issubclass(kind, other)), len(found))
            found.insert(place, kind)
    return found


def answer(overload: Any, kinds: list[type], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of the first class that answers an operator.

    Raises:
        TypeError: none does.
    """
    for kind in kinds:
        result = kind.__torch_dispatch__(overload, tuple(kinds), args, kwargs)  # type: ignore[attr-defined]
        if result is not NotImplemented:
            return result
    listed = ", ".join(map(repr, kinds))
    raise TypeError(
        f"Multiple dispatch failed for '{overload}'; all __torch_dispatch__ handlers returned NotImplemented:\n  {listed}"
    )


def overload_of(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """The operator for a public function and its arguments, and the operator's arguments; None if it is no operator."""
    if not isinstance(func, (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)):
        return None
    name = func.__name__
    if name in _QUESTIONS or name in ("__get__", "__set__"):
        return None
    if name in _CONVERSIONS:
        return ops.aten._to_copy.default, args, {**_CONVERSIONS[name], **kwargs}
    if name == "contiguous":
        return (ops.aten.clone.default, args, {"memory_format": torch.contiguous_format, **kwargs})
    plain = _PYTHONS.get(name, name)
    args = _packed(func, args)
    base, _, overload = aten_name(plain, args, kwargs).partition(".")
    packet = getattr(ops.aten, base, None)
    if packet is None:
        # One that torch composes of others, under its own name.
        packet, overload = getattr(ops.aten, plain, None), "default"
    return None if packet is None else (getattr(packet, overload), args, kwargs)


def _narrowed(tensor: Tensor, dim: int, start: Any, length: int) -> Any:
    start = int(start) % tensor.size(dim) if start else 0
    return ops.aten.slice.Tensor(tensor, dim, start, start + length)


def _reshaped(tensor: Tensor, *shape: Any) -> Any:
    sizes = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else list(shape)
    tensor = tensor if tensor.is_contiguous() else ops.aten.clone.default(tensor, memory_format=torch.contiguous_format)
    return tensor.view(sizes)


def _chunked(tensor: Tensor, chunks: int, dim: int = 0) -> Any:
    return ops.aten.split.Tensor(tensor, max(1, -(-tensor.size(dim) // chunks)), dim)


def _product(left: Tensor, right: Tensor) -> Any:
    names = {(2, 2): "mm", (2, 1): "mv", (1, 1): "dot"}
    return getattr(ops.aten, names.get((left.dim(), right.dim()), "matmul")).default(left, right)


#: Functions that are others, with the arguments of these.
_COMPOSED: dict[str, Callable[..., Any]] = {
    "narrow": _narrowed,
    "reshape": _reshaped,
    "chunk": _chunked,
    "matmul": _product,
    "__matmul__": _product,
}


def _packed(func: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers that may be given one by one as the list that they are in the operator."""
    try:
        parameters = list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):
        return args
    for place, parameter in enumerate(parameters):
        if (
            parameter.kind is parameter.VAR_POSITIONAL
            and len(args) > place
            and not isinstance(args[place], (list, tuple))
        ):
            return (*args[:place], list(args[place:]))
    return args


def call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """The result of a public function whose arguments answer operators."""
    kwargs = kwargs or {}
    owner = getattr(func, "__self__", None)
    if inspect.isgetsetdescriptor(owner) or isinstance(owner, property):
        return _attribute(owner, func, args)
    name = getattr(func, "__name__", "")
    if name == "__getitem__":
        return _item(args[0], args[1])
    if name in _NUMBERS:
        return _NUMBERS[name](ops.aten._local_scalar_dense.default(*args))
    if name == "to":
        return _converted(*args, **kwargs)
    if name == "contiguous" and args[0].is_contiguous():
        return args[0]
    if name in _COMPOSED:
        return _COMPOSED[name](*args, **kwargs)
    found = overload_of(func, args, kwargs)
    if found is not None:
        overload, args, kwargs = found
        result = overload(*args, **kwargs)
        if overload.overloadpacket.__name__.endswith("_") and isinstance(args[0], Tensor):
            return args[0]
        if type(result) is list:
            return tuple(result)
        # Several results have the class of the function's.
        several = getattr(torch.return_types, name, None) if type(result) is tuple else None
        return result if several is None else several(result)
    inner = getattr(func, "__wrapped__", None)
    if isinstance(inner, FunctionType):
        # A function in Python: its operators are asked for.
        return inner(*args, **kwargs)
    if isinstance(func, FunctionType):
        raise NotImplementedError(
            f"{func.__module__.replace('rushlight', 'torch')}.{name} is not divided into operators for __torch_dispatch__: "
            "call it with the tensors inside, or answer it in __torch_function__"
        )
    return Tensor.__torch_dispatch__(func, (), args, kwargs)


def _attribute(owner: Any, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    device = args[0].__dict__.get("_wrapper_device")
    name = getattr(owner, "__name__", "")
    if device is not None and func.__name__ == "__get__":
        if name == "device":
            return device
        if name in ("is_cpu", "is_cuda", "is_meta"):
            return device.type == name[3:]
    if name in ("T", "mT", "H", "mH") and func.__name__ == "__get__":
        dims = list(range(args[0].dim()))
        order = dims[::-1] if name in ("T", "H") else [*dims[:-2], dims[-1], dims[-2]]
        turned = ops.aten.permute.default(args[0], order)
        return turned.conj() if name in ("H", "mH") else turned
    return Tensor.__torch_dispatch__(func, (), args)


def _converted(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    copy = kwargs.pop("copy", False)
    device, dtype, _, memory_format = load("rushlight.nn.modules._convert").parse_to(*args, **kwargs)
    options = {
        **({"dtype": dtype} if dtype is not None and (dtype != tensor.dtype or copy) else {}),
        **({"device": device} if device is not None and (device != tensor.device or copy) else {}),
        **({} if memory_format is None else {"memory_format": memory_format}),
    }
    return ops.aten._to_copy.default(tensor, **options) if options or copy else tensor


def _item(tensor: Any, index: Any) -> Any:
    """``tensor[index]`` by operators: selections and slices first, then an index of tensors."""
    parts = list(index) if isinstance(index, tuple) else [index]
    count = sum(1 for part in parts if part is not None and part is not Ellipsis and not isinstance(part, bool))
    dim, result = 0, tensor
    taken: list[Tensor | None] = []
    for part in parts:
        if part is Ellipsis:
            dim += tensor.dim() - count
            taken += [None] * (dim - len(taken))
        elif part is None:
            result = ops.aten.unsqueeze.default(result, dim)
            dim += 1
        elif isinstance(part, slice):
            if part != slice(None):
                stop = 2**63 - 1 if part.stop is None else part.stop
                result = ops.aten.slice.Tensor(result, dim, part.start or 0, stop, part.step or 1)
            dim += 1
        elif isinstance(part, int) and not isinstance(part, bool):
            result = ops.aten.select.int(result, dim, part)
        else:
            taken += [None] * (dim - len(taken))
            taken.append(part if isinstance(part, Tensor) else torch.tensor(part))
            dim += 1
    if taken and any(part is not None for part in taken):
        return ops.aten.index.Tensor(result, taken)
    if result is tensor and isinstance(index, slice):
        return ops.aten.slice.Tensor(tensor, 0, 0, 2**63 - 1)
    return ops.aten.alias.default(result) if result is tensor else result


def make_wrapper(
    cls: type,
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
    **_: Any,
) -> Any:
    """`Tensor._make_wrapper_subclass`: a tensor without elements that tells a form and a device."""
    if not answers_operators(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    if requires_grad:
        raise NotImplementedError(
            "_make_wrapper_subclass: a wrapper requires no gradient, because __torch_dispatch__ sees no operators of backward"
        )
    if cls.__torch_function__ is _C._disabled_torch_function_impl:  # type: ignore[attr-defined]
        cls.__torch_function__ = classmethod(_function)  # type: ignore[attr-defined]
        _C._expect_overrides()
    options = {"dtype": dtype, "device": "meta"}
    data = torch.empty(size, **options) if strides is None else torch.empty_strided(size, strides, **options)
    made: Any = Tensor._make_subclass(cls, data)
    made.__dict__["_wrapper_device"] = torch.device("cpu" if device is None else device)
    return made


def _function(
    cls: type, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """The ``__torch_function__`` of a wrapper that has disabled its own: operators alone are asked for."""
    return call(func, args, kwargs)
