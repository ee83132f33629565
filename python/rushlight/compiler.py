"""`torch.compiler`: settings and marks, which have no effect because nothing is compiled. Programs run eagerly."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nested_compile_region",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_enable_guard_collectives",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
    *declare(
        globals(),
        "nothing is compiled, so that there is nothing to guard or to load",
        """
        keep_portable_guards_unsafe keep_tensor_guards_unsafe load_cache_artifacts load_compiled_function
        skip_all_guards_unsafe skip_guard_on_all_nn_modules_unsafe skip_guard_on_globals_unsafe
        skip_guard_on_inbuilt_nn_modules_unsafe
        """,
    ),
]

_settings: dict[str, Any] = {"backend": "inductor", "guard_collectives": False}


def is_compiling() -> bool:
    """Whether the calling code is being compiled: always False.

    >>> torch.compiler.is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """Whether the calling code is being traced for a compiler: always False.

    >>> torch.compiler.is_dynamo_compiling()
    False
    """
    return False


def is_exporting() -> bool:
    """Whether the calling code is being exported: always False.

    >>> torch.compiler.is_exporting()
    False
    """
    return False


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Returns ``fn``, or a decorator that returns its argument. Nothing is compiled anyway.

    >>> @torch.compiler.disable(recursive=False)
    ... def double(x):
    ...     return x * 2
    >>> double(2)
    4
    """
    return (lambda decorated: decorated) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """Returns a function, or a list of functions, unchanged.

    >>> torch.compiler.allow_in_graph(len)([1, 2])
    2
    """
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function unchanged. Its result is computed at each call.

    >>> torch.compiler.assume_constant_result(len)([1, 2])
    2
    """
    return fn


def cudagraph_mark_step_begin() -> None:
    """Marks a step for CUDA graphs. It has no effect.

    >>> torch.compiler.cudagraph_mark_step_begin()
    """


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The available compilers: none.

    >>> torch.compiler.list_backends()
    []
    """
    return []


def get_default_backend() -> str | Callable[..., Any]:
    """What `set_default_backend` has set.

    >>> torch.compiler.get_default_backend()
    'inductor'
    """
    backend: str | Callable[..., Any] = _settings["backend"]
    return backend


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """Keeps the name of a compiler, or the compiler itself; None stands for ``"inductor"``. It has no other effect.

    Raises:
        TypeError: it is neither a string nor callable.

    >>> torch.compiler.set_default_backend("eager")
    >>> torch.compiler.get_default_backend()
    'eager'
    >>> torch.compiler.set_default_backend(None)
    """
    if backend is not None and not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a string or callable, got {type(backend)}")
    _settings["backend"] = "inductor" if backend is None else backend


class set_stance:
    """Says when functions are to be compiled: a call, a context or a decorator. It has no effect.

    Args:
        stance: the name.
        skip_guard_eval_unsafe: has no effect.
        force_backend: the compiler, which only the stance ``"default"`` may have.

    Raises:
        RuntimeError: another stance has a ``force_backend``.

    >>> with torch.compiler.set_stance("force_eager"):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.stance = stance

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None: ...


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Keeps a setting of compilers, which has no effect, and returns the former value.

    >>> torch.compiler.set_enable_guard_collectives(True), torch.compiler.set_enable_guard_collectives(False)
    (False, True)
    """
    before: bool = _settings["guard_collectives"]
    _settings["guard_collectives"] = enabled
    return before


def nested_compile_region(
    fn: Callable[..., Any] | None = None, *, options: Any = None, max_reuse_entries: int = 8, reuse_hash_fn: Any = None
) -> Any:
    """Returns ``fn``, or a decorator that returns its argument.

    >>> torch.compiler.nested_compile_region(len)([1, 2])
    2
    """
    return (lambda decorated: decorated) if fn is None else fn


def substitute_in_graph(
    original_fn: Callable[..., Any], *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for what a compiler may read in a function's place. The result calls the function itself.

    Raises:
        TypeError: an argument is not a function.

    >>> @torch.compiler.substitute_in_graph(abs)
    ... def positive(x):
    ...     return x if x > 0 else -x
    >>> positive(-3)
    3
    """
    import functools
    import inspect

    def refuse(what: str, given: object) -> NoReturn:
        raise TypeError(f"{what} expects a function but got {type(given)!r}")

    if not inspect.isroutine(original_fn):
        refuse("substitute_in_graph", original_fn)

    def decorate(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.isfunction(traceable_fn):
            refuse("@substitute_in_graph(...)", traceable_fn)

        @functools.wraps(original_fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            return original_fn(*args, **kwargs)

        return call

    return decorate


def save_cache_artifacts() -> None:
    """What was compiled, for `load_cache_artifacts`: always None.

    >>> torch.compiler.save_cache_artifacts() is None
    True
    """


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors from one of NumPy's arrays. Gradients do not flow through it.

    >>> import numpy as np
    >>> torch.compiler.wrap_numpy(np.cumsum)(torch.ones(3))
    tensor([1., 2., 3.])
    """
    import functools

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        import numpy as np

        import rushlight as torch
        from rushlight.utils import _pytree as pytree

        given = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.numpy(), (args, kwargs))
        result = fn(*given[0], **given[1])
        return pytree.tree_map_only(np.ndarray, torch.as_tensor, result)

    return call


def reset() -> None:
    """Discards compiled code. It has no effect.

    >>> torch.compiler.reset()
    """


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
