"""Operators of programs: `torch.library.custom_op` and the functions that complete them."""

from __future__ import annotations

from contextlib import contextmanager

import rushlight as torch
from rushlight import ops
from rushlight._library.keys import backend_key, key_of
from rushlight._library.operator import Operator, Registered, find, registry
from rushlight._library.schema import infer_schema, parse
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from rushlight._library.schema import Schema

    _Devices = str | Sequence[str] | None

__all__ = [
    "CustomOpDef",
    "custom_op",
    "define_operator",
    "found",
    "registered_for",
    "qualified",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "remove_kernel",
    "remove_operator",
]


#: What was registered for operators before these were defined, by their names.
_waiting: dict[str, Registered] = {}


def registered_for(name: str) -> Registered:
    """What programs have registered for an operator by its name, which may be defined later."""
    name = name.removesuffix(".default")
    return registry[name] if name in registry else _waiting.setdefault(name, Registered())


def remove_kernel(name: str, key: str) -> None:
    """Takes back the function of an operator, which may not be defined yet, for a dispatch key."""
    registered_for(name).kernels.pop(key, None)


def define_operator(text: str, owner: Any = None) -> Operator:
    """Registers an operator by its schema, and makes it available in `torch.ops`.

    Raises:
        RuntimeError: the text is no schema, or there is an operator of this name.
    """
    schema = parse(text)
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    if name in registry and registry[name].owner is None:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name multiple times. Each "
            "overload's schema should only be registered with a single call to def()."
        )
    made = registry[name] = Operator(schema, owner)
    if owner is None:
        waiting = _waiting.pop(name, Registered())
        made.kernels.update(waiting.kernels)
        made.handlers.update(waiting.handlers)
    namespace, short = schema.name.split("::")
    home = getattr(ops, namespace)
    packet = vars(home).get(short)
    if packet is None or owner is not None:
        packet = vars(home)[short] = ops.OpOverloadPacket(namespace, short, None)
    packet.add(made)
    return made


def remove_operator(name: str) -> None:
    """Takes an operator out of the registry and of `torch.ops`."""
    if registry.pop(name, None) is not None:
        namespace, short = name.partition(".")[0].split("::")
        if not any(other.partition(".")[0] == f"{namespace}::{short}" for other in registry):
            vars(getattr(ops, namespace)).pop(short, None)


class CustomOpDef:
    """An operator that `custom_op` has made. It is called like its function."""

    def __init__(self, name: str, fn: Callable[..., Any], devices: _Devices, schema: str) -> None:
        self._namespace, self._name = name.split("::")
        self._qualname = name
        self._init_fn = fn
        self._operator = define_operator(f"{name}{schema}", self)
        self._opoverload = getattr(getattr(ops, self._namespace), self._name).default
        self.register_kernel(devices, fn)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def register_kernel(self, device_types: _Devices, fn: Callable[..., Any] | None = None, /) -> Any:
        """Registers the function for devices of some types, or for all with None."""
        return register_kernel(self, device_types, fn)

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Takes the function for a type of devices out of use in the block, or into use again."""
        key, before = backend_key(device_type), set(self._operator.disabled)
        (self._operator.disabled.discard if enabled else self._operator.disabled.add)(key)
        try:
            yield
        finally:
            self._operator.disabled = before

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Registers the function for tensors on the device `meta`."""
        return register_fake(self, fn)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Registers the rule for `torch.vmap`: ``func(info, in_dims, *args)`` returns the result and its dimension of samples."""

        return register_vmap(self, func)

    def register_autocast(self, device_type: str, cast_inputs: torch.dtype) -> None:
        """Has tensors converted to a dtype in regions of mixed precision."""
        register_autocast(self, device_type, cast_inputs)

    def register_torch_dispatch(self, torch_dispatch_class: type, fn: Callable[..., Any] | None = None, /) -> Any:
        """Registers the function for a class of tensors or of modes: ``fn(mode, func, types, args, kwargs)``."""

        return register_torch_dispatch(self, torch_dispatch_class, fn)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Registers the derivative, like the `backward` and `setup_context` of a `torch.autograd.Function`."""
        register_autograd(self, backward, setup_context=setup_context)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: _Devices = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Makes an operator of a function, also as ``torch.ops.<namespace>.<name>``. Usable as a decorator.

    The function runs without recording; `register_autograd` adds a derivative.

    Args:
        name: the namespace and the name: ``"mylib::scale"``.
        fn: the function.
        mutates_args: the names of the arguments that the function changes.
        device_types: the types of devices that the function is for, or None for all.
        schema: the signature in torch's syntax; without it the annotations tell.
        tags: accepted.

    Raises:
        ValueError: the name has no namespace, the annotations are not those of an operator, or the schema does not change
            exactly ``mutates_args``.
        NotImplementedError: a tensor is given by its keyword alone.

    >>> @torch.library.custom_op("example::double", mutates_args=())
    ... def double(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> torch.ops.example.double(torch.ones(2))
    tensor([2., 2.])
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        declared = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        if name.count("::") != 1:
            raise ValueError(f"Expected name to be of the form 'namespace::name', got {name}")
        parsed = parse(f"{name}{declared}")
        changed = {parameter.name for parameter in parsed.parameters if parameter.mutated}
        if schema is not None and set(mutates_args) != changed:
            raise ValueError(
                f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}. The schema suggests "
                f"that the op mutates {changed}which is different from what was provided to us in `mutates_args`. "
                "Please make these consistent."
            )
        if _has_keyword_tensors(parsed):
            raise NotImplementedError(
                "custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. Got: "
                f"{str(parsed).rpartition('::')[2]}"
            )
        return CustomOpDef(name, function, device_types, declared)

    return make if fn is None else make(fn)


def _has_keyword_tensors(schema: Schema) -> bool:
    """Whether tensors are given by keywords alone: no derivative reaches these."""
    return any(parameter.keyword_only and parameter.type.startswith("Tensor") for parameter in schema.parameters)


def _named(op: Any, caller: str) -> Operator | str:
    """The operator of a `CustomOpDef`, or the name of a member of `torch.ops`; `caller` is a function of `torch.library`.

    Raises:
        ValueError: the argument is none of these, nor a name.
    """
    if isinstance(op, CustomOpDef):
        return op._operator
    if isinstance(op, Operator):
        return op
    if isinstance(op, ops.OpOverloadPacket):
        op = op._qualified_op_name
    name = op.name() if isinstance(op, ops.OpOverload) else op
    if not isinstance(name, str):
        raise ValueError(f"{caller}({op}): got unexpected type for op: {type(op)}")
    return name.removesuffix(".default")


def qualified(name: str) -> str:
    """The name, which has a namespace.

    Raises:
        ValueError: it has none, or several.
    """
    if name.count("::") != 1:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {name}. The qualname passed to the '
            "torch.library APIs must consist of a namespace and a name, e.g. aten::sin"
        )
    return name


def found(op: Any, caller: str) -> Operator:
    """The operator of a `CustomOpDef`, of a member of `torch.ops`, or of a name.

    Raises:
        RuntimeError: programs have defined none.
        ValueError: the argument is none of these.
    """
    named = _named(op, caller)
    return find(qualified(named)) if isinstance(named, str) else named


def found_in_ops(op: Any, caller: str) -> Operator:
    """The same, for functions that look a name up in `torch.ops`.

    Raises:
        AttributeError: programs have defined no operator of this name.
    """
    named = _named(op, caller)
    if isinstance(op, str) and named not in registry:
        namespace, _, name = qualified(op).partition("::")
        raise AttributeError(
            f"'_OpNamespace' '{namespace}' object has no attribute '{name}'\n"
            "  Only operators that programs have defined can be extended."
        )
    return found(op, caller)


def register_kernel(
    op: Any, device_types: _Devices, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Registers a function of an operator for devices of some types. Usable as a decorator.

    For an operator that `define` has made, the name of a dispatch key stands for itself, and ``"default"`` for all devices.

    Raises:
        RuntimeError: there is no such operator, or no such type of devices.
        NotImplementedError: the function of this dispatch key would never run.

    >>> op = torch.library.custom_op("example::half", lambda x: x / 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> torch.library.register_kernel("example::half", "cpu", lambda x: x * 0.5)(torch.ones(1))
    tensor([0.5000])
    """

    def register(kernel: Callable[..., Any]) -> Callable[..., Any]:
        later = isinstance(op, str) and qualified(op).removesuffix(".default") not in registry
        operator = None if later else found(op, "register_kernel")
        registered, owner = (operator, operator.owner) if operator else (registered_for(op), None)
        devices = [device_types] if isinstance(device_types, str) else device_types
        key = key_of if owner is None else backend_key
        keys = ["CompositeExplicitAutograd"] if devices is None else [key(device) for device in devices]
        registered.kernels.update(dict.fromkeys(keys, kernel))
        return kernel

    return register if func is None else register(func)


def _of_refused_library(op: Any) -> bool:
    """Whether a name may be that of an operator which a library that was not loaded would have defined."""
    if not isinstance(op, str) or not ops._refused_libraries:
        return False
    namespace = qualified(op).partition("::")[0]
    return not any(name.startswith(f"{namespace}::") for name in registry)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Registers the function of an operator for tensors on the device `meta`. Usable as a decorator.

    Once `torch.ops.load_library` has refused a library, a name in a namespace without operators is accepted and has no
    effect: a package that goes on without its library still registers functions for it.

    Raises:
        RuntimeError: programs have defined no such operator.

    >>> op = torch.library.custom_op("example::third", lambda x: x / 3, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> function = torch.library.register_fake("example::third", torch.empty_like)
    >>> op(torch.ones(2, device="meta")).shape
    torch.Size([2])
    """
    operator = None if _of_refused_library(op) else found(op, "register_fake")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if operator is not None:
            operator.fake = function
        return function

    return register if func is None else register(func)


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, lib: Any = None
) -> None:
    """Registers the derivative of an operator.

    Raises:
        RuntimeError: the operator changes an argument, or programs have defined no such operator.
        NotImplementedError: a tensor is given by its keyword alone.

    >>> op = torch.library.custom_op("example::five", lambda x: x * 5, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> torch.library.register_autograd("example::five", lambda ctx, gradient: gradient * 5)
    >>> x = torch.ones(1, requires_grad=True)
    >>> op(x).backward()
    >>> x.grad
    tensor([5.])
    """
    operator = found_in_ops(op, "register_autograd")
    if operator.schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {operator.owner or operator.overload()}. Please "
            "create a functional operator and register an autograd formula for that."
        )
    if _has_keyword_tensors(operator.schema):
        raise NotImplementedError(
            "register_autograd with kwarg-only Tensor args. In the original definition of the op, please make your tensors not "
            f"kwarg-only. Got: {operator.schema}"
        )
    operator.backward, operator.setup = backward, setup_context


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Registers the rule of an operator for `torch.vmap`. Usable as a decorator.

    The rule gets the number of samples (``info.batch_size``), the dimension of the samples of each argument or None, and
    the arguments. It returns the result and the dimension of its samples.

    >>> op = torch.library.custom_op("example::six", lambda x: x * 6, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> rule = torch.library.register_vmap(op, lambda info, in_dims, x: (x * 6, in_dims[0]))
    >>> torch.vmap(op)(torch.ones(2))
    tensor([6., 6.])
    """
    operator = found_in_ops(op, "register_vmap")

    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        operator.vmap = rule
        return rule

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: torch.dtype, /, *, lib: Any = None) -> None:
    """Has the tensors of an operator converted to a dtype in regions of mixed precision.

    >>> op = torch.library.custom_op("example::seven", lambda x: x * 7, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> torch.library.register_autocast(op, "cpu", torch.bfloat16)
    >>> with torch.autocast("cpu"):
    ...     op(torch.ones(1))
    tensor([7.], dtype=torch.bfloat16)
    """
    found_in_ops(op, "register_autocast").autocast[torch.device(device_type).type] = cast_inputs


def register_torch_dispatch(
    op: Any, torch_dispatch_class: type, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Registers what a class of tensors, or of modes, with ``__torch_dispatch__`` does with an operator, which may be
    defined later, in place of that method. Usable as a decorator.

    The function gets the mode or the class, the operator as in `torch.ops`, and the method's other arguments. It runs below
    autograd. Classes derived from ``torch_dispatch_class`` keep their own method.

    >>> from rushlight.utils._python_dispatch import TorchDispatchMode
    >>> class Quiet(TorchDispatchMode): ...
    >>> op = torch.library.custom_op("example::nine", lambda x: x * 9, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> function = torch.library.register_torch_dispatch(op, Quiet, lambda mode, func, types, args, kwargs: -args[0])
    >>> x = torch.ones(1)
    >>> with Quiet():
    ...     op(x)
    tensor([-1.])
    """
    named = _named(op, "register_torch_dispatch")
    registered = named if isinstance(named, Operator) else registered_for(qualified(named))

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        registered.handlers[torch_dispatch_class] = function
        return function

    return register if func is None else register(func)


set_module(
    "rushlight.library",
    CustomOpDef,
    custom_op,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
)
