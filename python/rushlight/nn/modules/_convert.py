"""The conversion of `Module.to`, which applies to each tensor of a module, and how its result replaces a parameter."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor, __future__
from rushlight._text import kind_of
from rushlight._warnings import warn

from ..parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def converter(*args: Any, **kwargs: Any) -> Callable[[Tensor], Tensor]:
    """The function that converts a tensor according to the arguments of `Module.to`."""
    place, dtype = _sorted(args, kwargs)
    if dtype is not None:
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype.is_complex:
            warn(
                "Complex modules are a new feature under active development whose design may change, and some "
                "modules might not work as expected when using complex tensors as parameters or buffers.",
            )
    memory_format = place.pop("memory_format", None)

    def convert(tensor: Tensor) -> Tensor:
        wanted = dict(place)
        if dtype is not None and (tensor.is_floating_point() or tensor.is_complex()):
            wanted["dtype"] = dtype
        if memory_format is not None and tensor.dim() in (4, 5):
            wanted["memory_format"] = memory_format
        try:
            return tensor.to(**wanted) if wanted else tensor
        except NotImplementedError as error:
            if tensor.is_meta:
                sentence, _, rest = str(error).partition("\n")
                raise NotImplementedError(
                    f"{sentence} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving "
                    f"module from meta to a different device.\n{rest}".rstrip()
                ) from None
            raise

    return convert


def converted(parameter: Parameter, fn: Callable[[Tensor], Tensor], name: str) -> Parameter:
    """The parameter after a conversion by ``fn``, together with its gradient.

    It stays the same object, because optimizers and other modules refer to it, unless `torch.__future__` asks for a new
    one, or the elements of the parameter begin or cease to exist (``"meta"``).
    """
    grad = parameter.grad
    with torch.no_grad():
        data = fn(parameter)
        new_grad = None if grad is None else fn(grad).requires_grad_(grad.requires_grad)
    if __future__.get_swap_module_params_on_conversion():
        if data is not parameter:
            _swap(parameter, data, new_grad, name)
        return parameter
    if data.is_meta == parameter.is_meta and not __future__.get_overwrite_module_params_on_conversion():
        # The gradient is taken off meanwhile, because it must fit the parameter at any time.
        parameter.grad = None
        parameter.data = data
        if grad is not None and new_grad is not None:
            grad.data = new_grad
            parameter.grad = grad
        return parameter
    parameter = Parameter(data, parameter.requires_grad)
    parameter.grad = new_grad
    return parameter


def _swap(parameter: Parameter, data: Tensor, new_grad: Tensor | None, name: str) -> None:
    """Exchanges a parameter's contents with those of its converted copy, and likewise its gradient's."""
    grad = parameter.grad
    new = data if isinstance(data, Parameter) else Parameter(data, parameter.requires_grad)
    try:
        torch.utils.swap_tensors(parameter, new)
    except RuntimeError as error:
        raise RuntimeError(f"_apply(): Couldn't swap {name}") from error
    if grad is None or new_grad is None:
        return
    if new_grad is not grad:
        try:
            torch.utils.swap_tensors(grad, new_grad)
        except RuntimeError as error:
            raise RuntimeError(f"_apply(): Couldn't swap {name}.grad") from error
    parameter.grad = grad


_FORMS = """
 * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
 * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
 * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
"""


#: The dtypes for which Python's types of numbers stand.
_DTYPES = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}


def _read(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with dtypes in place of types. As in torch, a number is a tensor on the CPU; an integer is the number of a device
    unless `non_blocking` follows."""
    args = tuple(_DTYPES.get(value, value) if isinstance(value, type) else value for value in args)
    if not args or not isinstance(args[0], (bool, int, float, complex)):
        return args
    kind = next(kind for kind in (bool, int, float, complex) if isinstance(args[0], kind))
    if kind is int and not (args[1:] and isinstance(args[1], bool)):
        return args
    return torch.tensor(args[0], dtype=_DTYPES[kind]), *args[1:]


def _sorted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], torch.dtype | None]:
    """Splits the arguments of `Module.to` into keywords for `Tensor.to` and the dtype, which not all tensors take."""
    asked, args = args, _read(args)
    if isinstance(kwargs.get("dtype"), type):
        kwargs = {**kwargs, "dtype": _DTYPES.get(kwargs["dtype"], kwargs["dtype"])}
    first: tuple[str, ...] = ("device", "dtype")
    if (args and isinstance(args[0], Tensor)) or (not args and "tensor" in kwargs):
        first = ("tensor",)
    elif args and isinstance(args[0], torch.dtype):
        first = ("dtype",)
    names = (*first, "non_blocking", "copy")
    found = dict(zip(names, args))
    fits = len(args) <= len(names) and not found.keys() & kwargs.keys() and kwargs.keys() <= {*names, "memory_format"}
    found.update(kwargs)
    if not fits or not all(_is_of_kind(name, value) for name, value in found.items()):
        kinds = [kind_of(value) for value in asked]
        named = [f"{name}={kind_of(value)}" for name, value in sorted(kwargs.items())]
        got = ", ".join(kinds + named) + ("" if args else ", ")
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({got}), but expected one of:{_FORMS}"
        )
    if found.get("copy"):
        raise RuntimeError(".to() does not accept copy argument")
    device, dtype, tensor = found.get("device"), found.get("dtype"), found.get("tensor")
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    place: dict[str, Any] = {}
    if device is not None:
        place["device"] = torch.device(device)
    if found.get("non_blocking"):
        place["non_blocking"] = True
    if found.get("memory_format") is not None:
        place["memory_format"] = found["memory_format"]
    return place, dtype


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """The arguments of `to` as `torch._C._nn._parse_to` returns them: device, dtype, `non_blocking`, memory format."""
    place, dtype = _sorted(args, kwargs)
    return place.get("device"), dtype, place.get("non_blocking", False), place.get("memory_format")


def _kind(value: Any) -> str:
    return "torch.dtype" if isinstance(value, torch.dtype) else kind_of(value)


def _is_of_kind(name: str, value: Any) -> bool:
    if name in ("non_blocking", "copy"):
        return isinstance(value, bool)
    if name == "tensor":
        return isinstance(value, Tensor)
    if name == "device":
        return value is None or (isinstance(value, (str, int, torch.device)) and not isinstance(value, bool))
    return value is None or isinstance(value, torch.dtype if name == "dtype" else torch.memory_format)
