"""`autocast`: casts the arguments of matrix products, convolutions and attention to a half-precision dtype.

Operators that need the range or the precision of float32 (losses, products of all elements, factorisations, Fourier
transforms) get float32 arguments, and operators that combine tensors get the widest dtype among them. All others
compute in the dtype of their arguments. The lists of operators are torch's, for CPUs and for GPUs. float64 is never cast.
"""

from __future__ import annotations

import functools
from threading import local

import rushlight as torch
from rushlight import _C
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Concatenate, ParamSpec, Self, TypeVar

    _Given = ParamSpec("_Given")
    _Answer = TypeVar("_Answer")

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

# Modes of devices that do not exist can be set and asked for, and have no effect.
_DEFAULTS = {
    **dict.fromkeys(("cpu", "hpu", "maia", "xla"), torch.bfloat16),
    **dict.fromkeys(("cuda", "ipu", "mps", "mtia", "privateuseone", "xpu"), torch.float16),
}


# Device types of which the engine stores the mode.
_STORED = ("cpu", "cuda")


class _Modes(local):
    """The settings of this thread that the engine does not store. The engine stores those of the CPU and of GPUs."""

    def __init__(self) -> None:
        self.dtypes = dict(_DEFAULTS)
        self.elsewhere: set[str] = set()
        self.cache = True
        self.nesting = 0


_modes = _Modes()


def is_autocast_available(device_type: str) -> bool:
    """Whether a device type supports mixed precision.

    >>> torch.amp.is_autocast_available("cpu")
    True
    """
    return _kind(device_type, "_is_autocast_available") in _DEFAULTS


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether mixed precision is enabled for a device type in this thread.

    >>> with torch.autocast("cpu"):
    ...     torch.is_autocast_enabled("cpu")
    True
    """
    kind = _known(device_type, "is_autocast_enabled")
    return _C._autocast(kind) is not None if kind in _STORED else kind in _modes.elsewhere


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Enables or disables mixed precision for a device type in this thread (``"cuda"`` if only the switch is given).

    >>> torch.set_autocast_enabled("cpu", True)
    >>> (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    >>> torch.set_autocast_enabled("cpu", False)
    """
    if enabled is None:
        device_type, enabled = "cuda", device_type  # type: ignore[assignment] # the deprecated form with only the switch
    if not isinstance(enabled, bool):
        raise TypeError(f"set_autocast_enabled(): argument 'enabled' must be bool, not {type(enabled).__name__}")
    kind = _known(device_type, "set_autocast_enabled")
    if kind in _STORED:
        _C._set_autocast(kind, get_autocast_dtype(kind) if enabled else None)
    elif enabled:
        _modes.elsewhere.add(kind)
    else:
        _modes.elsewhere.discard(kind)


def get_autocast_dtype(device_type: str) -> torch.dtype:
    """The dtype of matrix products in mixed precision for a device type.

    >>> torch.get_autocast_dtype("cpu")
    torch.bfloat16
    """
    kind = _kind(device_type, "get_autocast_dtype")
    if kind == "hip":  # torch has a dtype for it and no mode
        return torch.float16
    if kind not in _DEFAULTS:
        raise RuntimeError("unsupported scalarType")
    lower = _C._autocast(kind) if kind in _STORED else None
    return lower or _modes.dtypes[kind]


def set_autocast_dtype(device_type: str, dtype: torch.dtype) -> None:
    """Sets the dtype of matrix products in mixed precision for a device type, for this thread.

    >>> torch.set_autocast_dtype("cpu", torch.float16)
    >>> with torch.autocast("cpu"):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.float16
    >>> torch.set_autocast_dtype("cpu", torch.bfloat16)
    """
    kind = _known(device_type, "set_autocast_dtype")
    if not isinstance(dtype, torch.dtype):
        raise TypeError(
            f"set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {type(dtype).__name__}"
        )
    _modes.dtypes[kind] = dtype
    if kind in _STORED and _C._autocast(kind) is not None:
        _C._set_autocast(kind, dtype)


def _kind(device_type: Any, function: str) -> str:
    """The device type in a device name."""
    if not isinstance(device_type, str):
        raise TypeError(
            f"{function}(): argument 'device_type' (position 1) must be str, not {type(device_type).__name__}"
        )
    return device_type if device_type in _DEFAULTS else torch.device(device_type).type


def _known(device_type: Any, function: str) -> str:
    kind = _kind(device_type, function)
    if kind not in _DEFAULTS:
        raise RuntimeError("unknown device type for autocast in get_autocast_dispatch_key_from_device_type")
    return kind


def is_autocast_cache_enabled() -> bool:
    """Whether the cache of cast arguments is enabled. The setting has no effect: arguments are cast at each use.

    >>> torch.is_autocast_cache_enabled()
    True
    """
    return _modes.cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Enables or disables the cache of cast arguments; see `is_autocast_cache_enabled`.

    >>> torch.set_autocast_cache_enabled(True)
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type(enabled).__name__})")
    _modes.cache = enabled


def clear_autocast_cache() -> None:
    """Clears the cache of cast arguments. It has no effect, because there is no cache.

    >>> torch.clear_autocast_cache()
    """


def autocast_increment_nesting() -> int:
    """Begins a block of mixed precision on this thread, and returns how many there are.

    >>> torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()
    (1, 0)
    """
    _modes.nesting += 1
    return _modes.nesting


def autocast_decrement_nesting() -> int:
    """Ends a block of mixed precision on this thread, and returns how many are left.

    >>> torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()
    (1, 0)
    """
    _modes.nesting -= 1
    return _modes.nesting


def _deprecated(
    name: str, now: Callable[Concatenate[str, _Given], _Answer], device_type: str, given: str, example: str
) -> Callable[_Given, _Answer]:
    """A deprecated function for one device type. It calls `now` with `device_type` and gives a warning."""
    instead = f"{now.__name__}({', '.join(filter(None, [repr(device_type), given]))})"

    def older(*args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        warn(f"torch.{name}({given}) is deprecated. Please use torch.{instead} instead.", DeprecationWarning)
        return now(device_type, *args, **kwargs)

    older.__name__ = older.__qualname__ = name
    older.__annotations__.clear()  # they are those of this generic function
    older.__doc__ = f"Deprecated name of `torch.{instead}`. Gives a DeprecationWarning.\n\n{example}\n"
    return older


is_autocast_cpu_enabled = _deprecated(
    "is_autocast_cpu_enabled", is_autocast_enabled, "cpu", "", ">>> torch.is_autocast_cpu_enabled()\nFalse"
)
set_autocast_cpu_enabled = _deprecated(
    "set_autocast_cpu_enabled", set_autocast_enabled, "cpu", "enabled", ">>> torch.set_autocast_cpu_enabled(False)"
)
get_autocast_cpu_dtype = _deprecated(
    "get_autocast_cpu_dtype", get_autocast_dtype, "cpu", "", ">>> torch.get_autocast_cpu_dtype()\ntorch.bfloat16"
)
set_autocast_cpu_dtype = _deprecated(
    "set_autocast_cpu_dtype", set_autocast_dtype, "cpu", "dtype", ">>> torch.set_autocast_cpu_dtype(torch.bfloat16)"
)
get_autocast_gpu_dtype = _deprecated(
    "get_autocast_gpu_dtype", get_autocast_dtype, "cuda", "", ">>> torch.get_autocast_gpu_dtype()\ntorch.float16"
)
set_autocast_gpu_dtype = _deprecated(
    "set_autocast_gpu_dtype", set_autocast_dtype, "cuda", "dtype", ">>> torch.set_autocast_gpu_dtype(torch.float16)"
)
is_autocast_ipu_enabled = _deprecated(
    "is_autocast_ipu_enabled", is_autocast_enabled, "ipu", "", ">>> torch.is_autocast_ipu_enabled()\nFalse"
)
set_autocast_ipu_enabled = _deprecated(
    "set_autocast_ipu_enabled", set_autocast_enabled, "ipu", "enabled", ">>> torch.set_autocast_ipu_enabled(False)"
)
get_autocast_ipu_dtype = _deprecated(
    "get_autocast_ipu_dtype", get_autocast_dtype, "ipu", "", ">>> torch.get_autocast_ipu_dtype()\ntorch.float16"
)
set_autocast_ipu_dtype = _deprecated(
    "set_autocast_ipu_dtype", set_autocast_dtype, "ipu", "dtype", ">>> torch.set_autocast_ipu_dtype(torch.float16)"
)
is_autocast_xla_enabled = _deprecated(
    "is_autocast_xla_enabled", is_autocast_enabled, "xla", "", ">>> torch.is_autocast_xla_enabled()\nFalse"
)
set_autocast_xla_enabled = _deprecated(
    "set_autocast_xla_enabled", set_autocast_enabled, "xla", "enabled", ">>> torch.set_autocast_xla_enabled(False)"
)
get_autocast_xla_dtype = _deprecated(
    "get_autocast_xla_dtype", get_autocast_dtype, "xla", "", ">>> torch.get_autocast_xla_dtype()\ntorch.bfloat16"
)
set_autocast_xla_dtype = _deprecated(
    "set_autocast_xla_dtype", set_autocast_dtype, "xla", "dtype", ">>> torch.set_autocast_xla_dtype(torch.bfloat16)"
)


class autocast:
    """Mixed precision inside a ``with`` block, or in a decorated function.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``, which gives a warning and has no effect without a GPU. No operator runs on others.
        dtype: the dtype of matrix products, ``bfloat16`` or ``float16``; if None, ``bfloat16`` on CPUs and ``float16`` on GPUs.
        enabled: False disables mixed precision.
        cache_enabled: the value of `torch.is_autocast_cache_enabled` inside. Arguments are cast at each use, so that
            gradients are accumulated in float32.

    Raises:
        RuntimeError: the device type is unknown.
        AssertionError: it is ``"privateuseone"``, for which no backend is registered.

    >>> with torch.autocast("cpu"):
    ...     y = torch.ones(2, 2) @ torch.ones(2, 2)
    >>> y.dtype, torch.nn.functional.mse_loss(y, y).dtype
    (torch.bfloat16, torch.bfloat16)
    """

    def __init__(
        self,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        kind = _kind(device_type, "autocast")
        if kind == "privateuseone":
            raise AssertionError(
                "Tried to use AMP with the `privateuseone` backend, but the backend has not registered a module or  the "
                "module miss some necessary funcs."
            )
        self.device = device_type
        self.fast_dtype = fast_dtype
        if enabled and device_type == "cuda" and _C._cuda_device_count() == 0:
            warn("CUDA is not available or torch_xla is imported. Disabling autocast.")
            enabled = False
        if enabled and self.fast_dtype not in (torch.bfloat16, torch.float16):
            name = kind.upper()
            warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n{name} Autocast only "
                "supports dtypes of torch.bfloat16, torch.float16 currently.",
            )
            enabled = False
        self._enabled = enabled
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._before: list[tuple[bool, torch.dtype, bool]] = []

    def __enter__(self) -> Self:
        before = is_autocast_enabled(self.device), get_autocast_dtype(self.device), is_autocast_cache_enabled()
        self._set(self._enabled, self.fast_dtype, self._cache_enabled)
        # What raises changes nothing, since `__exit__` does not run then.
        self._before.append(before)
        autocast_increment_nesting()
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        autocast_decrement_nesting()
        self._set(*self._before.pop())

    def _set(self, enabled: bool, dtype: torch.dtype, cache: bool) -> None:
        set_autocast_dtype(self.device, dtype)
        set_autocast_enabled(self.device, enabled)
        set_autocast_cache_enabled(cache)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use autocast as a "
                "context manager? For example:\n  with torch.autocast(device_type=...):\n      output = model(input)"
            )

        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return wrapped


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: torch.dtype | None = None
) -> Callable[..., Any]:
    """Decorates the ``forward`` of a `Function`. With ``cast_inputs`` its tensors are cast to that dtype, and it runs
    without mixed precision. ``backward`` must be decorated with `custom_bwd`.

    >>> class Product(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    ...     def forward(ctx, a, b):
    ...         ctx.save_for_backward(a, b)
    ...         return a @ b
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         a, b = ctx.saved_tensors
    ...         return grad @ b.T, a.T @ grad
    >>> with torch.autocast("cpu"):
    ...     Product.apply(torch.ones(1, 2), torch.ones(2, 1)).dtype
    torch.float32
    """
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = get_autocast_dtype(device_type)
        on = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if not on or cast_inputs is None:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            given = {name: _cast(value, cast_inputs) for name, value in kwargs.items()}
            return fwd(*_cast(args, cast_inputs), **given)

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorates the ``backward`` of a `Function`, so that it runs in the mode of its ``forward``; see
    `custom_fwd`.

    >>> @torch.amp.custom_bwd(device_type="cpu")
    ... def backward(ctx, grad):
    ...     return grad * 2
    """
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated


def _check_device_type(device_type: str) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        castable = value.is_floating_point() and value.dtype != torch.float64
        return value.to(dtype) if castable else value
    if isinstance(value, dict):
        return {_cast(key, dtype): _cast(item, dtype) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, dtype) for item in value)
    return value


def __dir__() -> list[str]:
    return __all__
