"""`torch.library`: operators of programs, from Python functions, and the registry of them."""

from __future__ import annotations

import re
import weakref
from contextlib import contextmanager

import rushlight as torch
from rushlight._library.keys import check_key, check_runs
from rushlight._library.opcheck import opcheck as opcheck
from rushlight._library.operator import fallbacks
from rushlight._library.register import CustomOpDef as CustomOpDef
from rushlight._library.register import custom_op as custom_op
from rushlight._library.register import define_operator, qualified, registered_for, remove_kernel, remove_operator
from rushlight._library.register import register_autocast as register_autocast
from rushlight._library.register import register_autograd as register_autograd
from rushlight._library.register import register_fake as register_fake
from rushlight._library.register import register_kernel as register_kernel
from rushlight._library.register import register_torch_dispatch as register_torch_dispatch
from rushlight._library.register import register_vmap as register_vmap
from rushlight._library.schema import infer_schema as infer_schema
from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, NoReturn

__all__ = [
    *declare(
        globals(),
        "kernels of Triton do not exist, and sizes are never symbols",
        "get_ctx get_kernel triton_op wrap_triton",
    ),
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
]

#: The namespaces of torch's own operators, which no other library may define.
_BUILT_IN = frozenset(
    "aten prims quantized _quantized c10d _c10d_functional _c10d_functional_autograd c10d_functional _dtensor profiler mkldnn "
    "mkldnn_prepacked mkl onednn sparse cuda symm_mem".split()
)
#: The namespaces that a `Library` with `DEF` has taken.
_defined: set[str] = set()


def impl_abstract(
    qualname: Any, func: Callable[..., Any] | None = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """The old name of `register_fake`.

    >>> torch.library.define("example::doubled", "(Tensor x) -> Tensor")
    >>> @torch.library.impl_abstract("example::doubled")
    ... def doubled(x):
    ...     return torch.empty_like(x)
    >>> torch.ops.example.doubled(torch.ones(2, device="meta")).shape
    torch.Size([2])
    """
    return register_fake(qualname, func, lib=lib, _stacklevel=_stacklevel + 1)


def fallthrough_kernel() -> NoReturn:
    """Stands for no function, in `Library.impl`.

    >>> library = torch.library.Library("example_through", "DEF")
    >>> library.impl(library.define("f(Tensor x) -> Tensor"), torch.library.fallthrough_kernel, "AutogradCPU")
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """Operators of one namespace, which live as long as this object.

    Args:
        ns: the namespace.
        kind: ``"DEF"``, which one object of a namespace may be, ``"FRAGMENT"``, or ``"IMPL"`` for functions alone.
        dispatch_key: where `impl` registers functions: ``"CPU"``, ``"CUDA"``, ``"Meta"``, ``"Autograd"``,
            ``"CompositeExplicitAutograd"`` or ``"CompositeImplicitAutograd"``.

    Raises:
        ValueError: there is no such kind, or the namespace is torch's own.
        RuntimeError: another object defines the namespace, or there is no such dispatch key.

    >>> library = torch.library.Library("example_library", "DEF")
    >>> name = library.define("twice(Tensor x) -> Tensor")
    >>> library.impl(name, lambda x: x * 2, "CPU")
    >>> torch.ops.example_library.twice(torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns == "prim" and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if dispatch_key:
            check_key(dispatch_key)
        if ns == "_" and kind != "IMPL":
            raise RuntimeError(
                f"cannot define TORCH_LIBRARY_{kind} with the wildcard namespace _\n"
                "  Use the kind IMPL, whose `fallback` registers a function for all operators."
            )
        if kind == "DEF":
            if ns in _defined or ns in _BUILT_IN:
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your "
                    "definitions in a single TORCH_LIBRARY block.\n  A library of the kind FRAGMENT adds operators."
                )
            _defined.add(ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._names: list[str] = []
        self._taken: list[tuple[str, str]] = []
        self._fallbacks: list[str] = []
        self._finalizer = weakref.finalize(self, _remove, ns, kind, self._names, self._taken, self._fallbacks)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Adds an operator by its schema, and returns its name. The other arguments have no effect.

        Raises:
            RuntimeError: the library is of the kind ``"IMPL"``, the text is no schema, or there is an operator of this name.
            NotImplementedError: the namespace is ``aten``.

        >>> library = torch.library.Library("example_define", "FRAGMENT")
        >>> library.define("halved(Tensor x, float by=2.0) -> Tensor")
        'halved'
        """
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        if self.kind == "IMPL":
            raise RuntimeError("A library of the kind IMPL defines no operators.")
        if self.ns == "aten":
            raise NotImplementedError("Operators of the namespace aten are the engine's own: programs add none.")
        namespace, separator, short = schema.partition("(")[0].strip().rpartition("::")
        if separator and namespace != self.ns:
            raise RuntimeError(
                f"Explicitly provided namespace ({namespace}) in schema string does not match namespace of enclosing "
                f"TORCH_LIBRARY_{self.kind} block ({self.ns}).  Define {short} with a library of that namespace."
            )
        made = define_operator(f"{self.ns}::{schema.strip().removeprefix(f'{self.ns}::')}")
        name = made.schema.name + (f".{made.schema.overload_name}" if made.schema.overload_name else "")
        self._names.append(name)
        return name.removeprefix(f"{self.ns}::")

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Registers the function of an operator for a dispatch key, in place of an earlier one.

        Raises:
            TypeError: ``fn`` is not callable.
            RuntimeError: there is no such operator, or no such dispatch key.
            NotImplementedError: the operator is one of the engine's own, or the function of this key would never run.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        check_key(key)
        name = op_name.name() if isinstance(op_name, torch.ops.OpOverload) else op_name
        qualified = name if "::" in name else f"{self.ns}::{name}"
        if qualified.startswith("aten::"):
            raise NotImplementedError(
                f"torch.library cannot replace {qualified}: the operators of the engine are fixed. A class of tensors "
                "overrides them with __torch_function__."
            )
        if fn is fallthrough_kernel:
            remove_kernel(qualified, key)
            return
        check_runs(key)
        registered_for(qualified).kernels[key] = _with_keys(fn) if with_keyset else fn
        self._taken.append((qualified, key))

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Registers a function that carries out, for tensors of a backend, all of the programs' operators without one of
        their own: ``fn(operator, *args, **kwargs)``. The operators of the engine have functions of their own.

        Raises:
            AssertionError: no dispatch key is given.
            RuntimeError: the namespace of the library is not ``"_"``, or the key has a function already.

        >>> library = torch.library.Library("_", "IMPL")
        >>> library.fallback(lambda op, *args: print(op), "CPU")
        >>> torch.library.define("example::unknown", "(Tensor x) -> ()")
        >>> torch.ops.example.unknown(torch.ones(1))
        example.unknown.default
        """
        key = dispatch_key or self.dispatch_key
        if self.ns != "_":
            raise RuntimeError(
                f'Fallback can only be registered using library fragment on the global namespace "_" but it is {self.ns}'
            )
        if not key:
            raise AssertionError("dispatch_key must not be empty for fallback")
        check_key(key)
        if key in fallbacks:
            raise RuntimeError(f"Tried to register multiple backend fallbacks for the same dispatch key {key}")
        check_runs(key)
        fallbacks[key] = _with_keys(fn) if with_keyset else fn
        self._fallbacks.append(key)

    def _destroy(self) -> None:
        self._finalizer()


def _remove(ns: str, kind: str, names: list[str], taken: list[tuple[str, str]], backends: list[str]) -> None:
    """Takes back what a library has registered."""
    for key in backends:
        fallbacks.pop(key, None)
    for name, key in taken:
        remove_kernel(name, key)
    for name in names:
        remove_operator(name)
    if kind == "DEF":
        _defined.discard(ns)


def _with_keys(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is also told through which keys the call went: None here."""
    return lambda *args, **kwargs: fn(None, *args, **kwargs)


@contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library whose operators live as long as the block."""
    made = Library(*args, **kwargs)
    try:
        yield made
    finally:
        made._destroy()


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Defines an operator by its name with the namespace and its schema without the name.

    Raises:
        ValueError: the name is no text, or has no namespace.

    >>> torch.library.define("example::negated", "(Tensor x) -> Tensor")
    >>> torch.library.impl("example::negated", "cpu", lambda x: -x)
    >>> torch.ops.example.negated(torch.ones(1))
    tensor([-1.])
    """
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    qualified(qualname)
    if not (isinstance(schema, str) and re.match(r"\(.*\) -> .*$", schema, re.DOTALL)):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got "{schema}"\n'
            "  The name is the first argument, and the schema follows without it."
        )
    if lib is not None:
        lib.define(qualname.partition("::")[2] + schema)
    else:
        define_operator(qualname + schema)


def impl(
    qualname: Any, types: str | Sequence[str], func: Callable[..., Any] | None = None, *, lib: Library | None = None
) -> Any:
    """Registers the function of an operator for devices of some types, or ``"default"`` for all. Usable as a decorator.

    >>> torch.library.define("example::squared", "(Tensor x) -> Tensor")
    >>> @torch.library.impl("example::squared", "default")
    ... def squared(x):
    ...     return x * x
    >>> torch.ops.example.squared(torch.full((1,), 3.0))
    tensor([9.])
    """
    if isinstance(qualname, Library):
        # The older form: a library, the operator's name and a dispatch key.
        library, name, key = qualname, types, func if isinstance(func, str) else ""

        def register_in(kernel: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(name, kernel, key)
            return kernel

        return register_in
    kinds = [types] if isinstance(types, str) else list(types)

    def register(kernel: Callable[..., Any]) -> None:
        for kind in kinds:
            register_kernel(qualname, kind, kernel)

    return register if func is None else register(func)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
