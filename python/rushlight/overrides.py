"""Classes and modes that override the library's functions: ``__torch_function__``.

If an argument of an operator, method or attribute of tensors is an instance of a class with a class method
``__torch_function__(cls, func, types, args=(), kwargs=None)``, that method is called instead. A subclass of `Tensor`
without its own ``__torch_function__`` converts results to the subclass. A `TorchFunctionMode` intercepts every call in
its ``with`` block.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache, reduce, wraps
from inspect import Signature, signature
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MethodDescriptorType, WrapperDescriptorType

from rushlight import _C
from rushlight._C import Tensor
from rushlight._loading import load
from rushlight._overridable import OVERRIDABLE_MARK
from rushlight._override_order import leaves, modes, one_of_each_class
from rushlight._warnings import warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "enable_reentrant_dispatch",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]


class TorchFunctionMode:
    """A context that intercepts every operator, method and attribute of tensors. Subclasses define
    ``__torch_function__(self, func, types, args=(), kwargs=None)``. The mode is not active inside this method.

    >>> class Names(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(torch.overrides.resolve_name(func))
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     x = torch.zeros(2) + 1
    torch.zeros
    torch.Tensor.add
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        modes.stack.append(self)
        modes.expect()
        return self

    def __exit__(self, *exception: object) -> None:
        if not modes.stack:
            raise RuntimeError("trying to pop from empty mode stack")
        modes.stack.pop()
        modes.expect()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing.

    >>> with torch.overrides.BaseTorchFunctionMode():
    ...     torch.ones(1)
    tensor([1.])
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def _outside() -> Iterator[None]:
    """Deactivates the innermost mode while it handles a call, so that calls go to the outer modes."""
    inner = modes.stack
    modes.stack = inner[:-1]
    modes.expect()
    try:
        yield
    finally:
        modes.stack = inner
        modes.expect()


def _call_override(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """The result of the first override that handles the call. The engine calls this if an override may exist."""
    overloaded = one_of_each_class(leaves((*args, *(kwargs or {}).values())), _C._overrides)
    return _call_overrides_or_decompose(func, overloaded, *_as_python(func, args, kwargs))


def _norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None): ...


def _split(tensor, split_size_or_sections, dim=0): ...


def _cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"): ...


#: The parameters of those with several signatures.
_OVERLOADED = {"norm": signature(_norm), "split": signature(_split), "cdist": signature(_cdist)}


@cache
def _form(func: Callable[..., Any]) -> Signature | None:
    """The signature of a function that torch writes in Python: overrides get its optional arguments as keywords, with the
    defaults. None for others, and for those that take any number of tensors."""
    name = getattr(func, "__name__", "")
    if _home_in_python(func) is None or name.startswith("__"):
        return None
    try:
        form = _OVERLOADED.get(name) or signature(func)
    except ValueError:  # a name with several overloads
        return None
    shown = form.parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in shown):
        return None
    return form.replace(parameters=[one for one in shown if one.name != "out"]) if func is Tensor.norm else form


def _as_python(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
    """The arguments as torch passes them to an override."""
    form = _form(func)
    if form is None:
        return args, kwargs
    try:
        bound = form.bind(*args, **kwargs or {})
    except TypeError:
        return args, kwargs
    bound.apply_defaults()
    required = [name for name, one in form.parameters.items() if one.default is one.empty]
    given = bound.arguments
    return tuple(map(given.pop, required)), given


def _call_overrides_or_decompose(
    func: Callable[..., Any], overloaded: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """The first answer to a call that is not NotImplemented: of the innermost mode, and then of the arguments in ``overloaded``,
    in their order. If there is neither, a mode of ``__torch_dispatch__`` gets the operators of the call.

    Raises:
        TypeError: all answers are NotImplemented.
    """
    types = tuple(map(type, overloaded))
    refused = []
    if not overloaded and not modes.stack:
        return load("rushlight._torch_dispatch").decompose(func, args, kwargs)
    if modes.stack:
        mode = modes.stack[-1]
        with _outside():
            result = mode.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
        refused.append(f"  - mode object {mode!r}")
    for argument in overloaded:
        override = argument.__torch_function__
        if getattr(override, "__self__", None) is argument:
            warn_once(
                "Defining your `__torch_function__` as a plain method is deprecated and will be an error in future, "
                "please define it as a classmethod."
            )
        result = override(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
        refused.append(f"  - tensor subclass {type(argument)!r}")
    listed = "\n".join(refused)
    home = _home_in_python(func)
    if home is not None:
        beside = f" nor in mode {modes.stack[-1]}" if modes.stack else ""
        raise TypeError(
            f"no implementation found for '{home}.{func.__name__}' on types that implement __torch_function__: {list(types)}{beside}"
        )
    raise TypeError(
        f"Multiple dispatch failed for '{resolve_name(func)}'; all __torch_function__ handlers returned NotImplemented:\n\n"
        f"{listed}"
    )


def _home_in_python(func: Callable[..., Any]) -> str | None:
    """torch's module of a function that torch writes in Python, and that asks for overrides; None for another one."""
    is_method = isinstance(func, MethodDescriptorType) or getattr(func, "__qualname__", "").startswith("Tensor.")
    package, _, place = (getattr(func, "__module__", None) or "").partition(".")
    name = getattr(func, "__name__", "")
    if place == "nn.functional" and name in ("sigmoid", "tanh"):
        return None  # They call the method, which asks.
    if not is_method and package != __package__:
        return None
    home = _C._home_in_python("" if place == "functional" else place, name, is_method)
    return home and f"torch.{home}"


def _converted(result: Any, cls: type) -> Any:
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        # Classes of several results accept them as one sequence.
        return type(result)(_converted(part, cls) for part in result)
    return result


def _default(
    cls: type, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """`Tensor.__torch_function__`: calls the function and converts its results to ``cls``."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    if _C._handles_operators(cls):
        return load("rushlight._torch_dispatch").decompose(func, args, kwargs)
    with _C.DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    if cls is Tensor or func in get_default_nowrap_functions():
        return result
    return _converted(result, cls)


def get_default_nowrap_functions() -> set[Any]:
    """The attributes whose results `Tensor.__torch_function__` does not convert.

    >>> torch.Tensor.grad.__get__ in torch.overrides.get_default_nowrap_functions()
    True
    """
    attributes: list[Any] = [Tensor.__dict__[name] for name in ("_base", "grad", "_grad")]
    return {attribute.__get__ for attribute in attributes}


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is active, or the class of an argument overrides functions.

    >>> torch.overrides.has_torch_function((torch.ones(1), 2))
    False
    """
    return bool(modes.stack and _C._has_mode()) or any(map(_C._overrides, relevant_args))


def has_torch_function_unary(tensor: Any) -> bool:
    """`has_torch_function` for one argument.

    >>> torch.overrides.has_torch_function_unary(torch.ones(1))
    False
    """
    return has_torch_function((tensor,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function` for separate arguments.

    >>> torch.overrides.has_torch_function_variadic(torch.ones(1), 2)
    False
    """
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """The result of a mode, or of the class of one of ``relevant_args``, for the call ``public_api(*args, **kwargs)``.

    Raises:
        TypeError: no override handles the call.

    >>> class Loud:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__.upper()
    >>> def halved(x):
    ...     if torch.overrides.has_torch_function((x,)):
    ...         return torch.overrides.handle_torch_function(halved, (x,), x)
    ...     return x / 2
    >>> halved(Loud()), halved(torch.ones(1))
    ('HALVED', tensor([0.5000]))
    """
    return _call_overrides_or_decompose(public_api, one_of_each_class(relevant_args, _C._overrides), args, kwargs)


def redispatch_function(
    func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """The result of a function itself, for a ``__torch_function__`` that was asked for it. Calls inside are asked for again.

    >>> class Counted(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return torch.overrides.redispatch_function(func, types, args, kwargs)
    >>> torch.ones(2).as_subclass(Counted) + 1
    add
    tensor([2., 2.])
    """
    with _C.DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Lets calls inside a ``__torch_dispatch__`` be dispatched again, as they always are. It has no effect.

    >>> with torch.overrides.enable_reentrant_dispatch():
    ...     torch.ones(1)
    tensor([1.])
    """
    yield


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """A decorator that makes a function overridable. ``dispatcher`` takes the function's arguments and returns those
    whose classes may override it.

    >>> @torch.overrides.wrap_torch_function(lambda x: (x,))
    ... def halved(x):
    ...     return x / 2
    >>> halved(torch.ones(1))
    tensor([0.5000])
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorated


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor or an instance of a class that overrides functions.

    >>> torch.overrides.is_tensor_like(torch.ones(1)), torch.overrides.is_tensor_like(1)
    (True, False)
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method of tensors, or a getter or setter of an attribute.

    >>> torch.overrides.is_tensor_method_or_property(torch.Tensor.add)
    True
    """
    return func.__name__ in ("__get__", "__set__") or getattr(Tensor, func.__name__, None) is func


def resolve_name(f: Any) -> str | None:
    """The public name of a function.

    >>> torch.overrides.resolve_name(torch.Tensor.add), torch.overrides.resolve_name(torch.fft.fft)
    ('torch.Tensor.add', 'torch.fft.fft')
    """
    if isinstance(f, (str, GetSetDescriptorType)):
        return f if isinstance(f, str) else f"torch.Tensor.{f.__name__}"
    owner = getattr(f, "__self__", None)
    if isinstance(owner, GetSetDescriptorType):
        return f"torch.Tensor.{owner.__name__}.{f.__name__}"
    if isinstance(f, (MethodDescriptorType, WrapperDescriptorType)):
        return f"torch.Tensor.{f.__name__}"
    if isinstance(f, (BuiltinFunctionType, FunctionType)):
        home = (
            (f.__module__ or "")
            .replace("rushlight", "torch", 1)
            .replace("torch._C", "torch")
            .replace("torch._tensor", "torch")
        )
        return f"{home}.{f.__qualname__}"
    return None


# Besides functions that create tensors without taking any: functions that query the library, and a few methods that
# choose the class of their result themselves.
_IGNORED = {
    "": """arange are_deterministic_algorithms_enabled as_strided as_tensor asarray autocast_decrement_nesting
        autocast_increment_nesting bartlett_window blackman_window can_cast clear_autocast_cache compile device dtype empty
        empty_permuted empty_strided enable_grad eye fill finfo from_file from_numpy frombuffer full get_autocast_cpu_dtype
        get_autocast_dtype get_autocast_gpu_dtype get_default_device get_default_dtype get_deterministic_debug_mode
        get_device_module get_float32_matmul_precision get_num_interop_threads get_num_threads get_rng_state hamming_window
        hann_window iinfo inference_mode init_num_threads initial_seed is_anomaly_check_nan_enabled is_anomaly_enabled
        is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled
        is_deterministic_algorithms_warn_only_enabled is_grad_enabled is_inference_mode_enabled is_storage is_tensor
        is_vulkan_available is_warn_always_enabled kaiser_window layout linspace load logspace manual_seed memory_format
        no_grad normal ones promote_types qscheme rand rand_like randint randint_like randn randn_like randperm range
        result_type save scalar_tensor seed set_anomaly_enabled set_autocast_cache_enabled set_autocast_cpu_dtype
        set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype set_default_device
        set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal
        set_grad_enabled set_num_interop_threads set_num_threads set_printoptions set_rng_state set_warn_always
        sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor
        sparse_csr_tensor tensor tril_indices triu_indices typename use_deterministic_algorithms vander vmap zeros""",
    "fft": "fftfreq rfftfreq",
    "functional": "broadcast_shapes",
    "nn.functional": "hardsigmoid hardswish sigmoid tanh upsample upsample_bilinear upsample_nearest",
    "nn.init": """calculate_gain constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse uniform
        xavier_normal xavier_uniform""",
    "Tensor": """__class__ __delattr__ __delitem__ __dir__ __getattribute__ __hash__ __init__ __init_subclass__ __iter__
        __new__ __setattr__ __subclasshook__ __torch_function__ _conj _make_subclass _neg_view as_subclass eig lstsq new
        new_empty new_empty_strided new_full new_ones new_tensor new_zeros reinforce solve stride symeig to_sparse_coo
        unflatten""",
}


def get_ignored_functions() -> set[Any]:
    """The functions and methods that cannot be overridden: they take no tensors, or tensors do not affect them.

    >>> torch.zeros in torch.overrides.get_ignored_functions()
    True
    """
    found: set[Any] = set()
    for path, names in _IGNORED.items():
        home = _resolve(path)
        found.update(getattr(home, name) for name in names.split() if hasattr(home, name))
    return found


def _resolve(path: str) -> Any:
    import rushlight

    return reduce(getattr, path.split("."), rushlight) if path else rushlight


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions and methods that classes and modes can override, grouped by module or class. An attribute of
    tensors is represented by its getter.

    >>> torch.add in torch.overrides.get_overridable_functions()[torch]
    True
    """
    ignored = get_ignored_functions()
    found: dict[Any, list[Callable[..., Any]]] = {}
    for path in ("", "functional", "nn.functional", "fft", "linalg", "special"):
        home, rows = _resolve(path), _C._functions[path.removeprefix("functional")]
        shown = [(name, getattr(home, name)) for name in dir(home) if name[0].islower() and not name.endswith("_")]
        # Operators, methods under the name of a function, and Python functions that are overridable.
        asking = [
            value
            for name, value in shown
            if (name in rows and rows[name] is value)
            or isinstance(value, MethodDescriptorType)
            or (isinstance(value, FunctionType) and hasattr(value, OVERRIDABLE_MARK))
        ]
        found[home] = [value for value in asking if value not in ignored]
    kinds = (MethodDescriptorType, WrapperDescriptorType, FunctionType)
    own = [value for name, value in Tensor.__dict__.items() if name != "__dict__"]
    found[Tensor] = [value for value in own if isinstance(value, kinds) and value not in ignored]
    found.update({value: [value.__get__] for value in own if isinstance(value, GetSetDescriptorType)})
    return found


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For every overridable function, a stub with its signature that returns -1. Tests of overriding classes use them.

    >>> overrides = torch.overrides.get_testing_overrides()
    >>> overrides[torch.add](1, 2), overrides[torch.Tensor.sum](None)
    (-1, -1)
    """
    return {function: _stand_in(function) for all_ in get_overridable_functions().values() for function in all_}


def _stand_in(function: Callable[..., Any]) -> Callable[..., int]:
    try:
        known = signature(function)
    except (TypeError, ValueError):  # a name with several overloads

        def anything(*args: Any, **kwargs: Any) -> int:
            return -1

        return anything

    def stand_in(*args: Any, **kwargs: Any) -> int:
        known.bind(*args, **kwargs)
        return -1

    stand_in.__signature__ = known  # type: ignore[attr-defined]
    return stand_in


def __dir__() -> list[str]:
    return sorted(__all__)
