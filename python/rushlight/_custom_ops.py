"""Operators of programs: `torch.library.custom_op` and the functions that complete them."""

from __future__ import annotations

import inspect

import rushlight as torch
from rushlight import ops
from rushlight._set_module import set_module
from rushlight.autograd import Function
from rushlight.utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    _Devices = str | Sequence[str] | None

__all__ = ["CustomOpDef", "custom_op", "register_autograd", "register_fake", "register_kernel"]

_CUSTOM: dict[str, CustomOpDef] = {}

_ALIASED = (
    "The output of this custom operator (1) must not also be an input to this custom operator and (2) may not alias any "
    "inputs to this custom operator or other returns. The most common way to trigger this error is if we have "
    "y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the offending output tensor(s) "
    "(e.g. return x.clone()) or refactor the custom operator to not return y."
)


class CustomOpDef:
    """An operator that `custom_op` has made. It is called like its function."""

    def __init__(self, name: str, fn: Callable[..., Any], mutates_args: str | Iterable[str], devices: _Devices) -> None:
        self._namespace, self._name = name.split("::")
        self._qualname = name
        self._init_fn = fn
        self._signature = inspect.signature(fn)
        self._mutates = bool(mutates_args)
        self._kernels: dict[str | None, Callable[..., Any]] = {}
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._functions: dict[str, type[Function]] = {}
        self._opoverload = ops.OpOverloadPacket(self._namespace, self._name, self).default
        self.register_kernel(devices, fn)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        leaves, spec = pytree.tree_flatten((bound.args, bound.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if self._mutates or not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)):
            with torch.no_grad():
                return self._run(tensors, bound.args, bound.kwargs)
        key = repr(spec)
        if key not in self._functions:
            self._functions[key] = self._differentiable(spec)
        *results, structure = self._functions[key].apply(*leaves)
        return pytree.tree_unflatten(results, structure)

    def _run(self, tensors: list[torch.Tensor], args: Any, kwargs: Any) -> Any:
        device = tensors[0].device.type if tensors else "cpu"
        if device == "meta":
            if self._fake is None:
                raise RuntimeError(
                    f"There was no fake impl registered for {self}. This is necessary for torch.compile/export/fx tracing "
                    f"to work. Please use `{self._init_fn.__name__}.register_fake` to add an fake impl."
                )
            return self._fake(*args, **kwargs)
        kernel = self._kernels.get(device) or self._kernels.get(None)
        if kernel is None:
            raise NotImplementedError(f"Could not run '{self._qualname}' with arguments from the '{device}' device.")
        result = kernel(*args, **kwargs)
        taken = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.numel():
                if leaf.untyped_storage().data_ptr() in taken:
                    raise RuntimeError(f"{self._name} (with implementation in {self._init_fn.__module__}): {_ALIASED}")
                taken.add(leaf.untyped_storage().data_ptr())
        return result

    def _differentiable(self, spec: Any) -> type[Function]:
        """The node for arguments of one structure. Its inputs and outputs are the leaves of the operator's."""
        op = self

        def forward(ctx: Any, *leaves: Any) -> Any:
            args, kwargs = pytree.tree_unflatten(leaves, spec)
            result = op._run([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)], args, kwargs)
            results, structure = pytree.tree_flatten(result)
            if op._backward is not None and op._setup is not None:
                extra = {"keyword_only_inputs": kwargs} if kwargs else {}
                op._setup(ctx=ctx, inputs=args, output=result, **extra)
            ctx._structure, ctx._count = structure, len(results)
            return (*results, structure)

        def backward(ctx: Any, *gradients: Any) -> Any:
            if op._backward is None:
                raise RuntimeError(
                    f"Trying to backward through {op._opoverload} but no autograd formula was registered. Please use "
                    "register_autograd to add one."
                )
            told = pytree.tree_unflatten(gradients[: ctx._count], ctx._structure)
            results = op._backward(ctx, *(told if isinstance(told, tuple) else (told,)))
            results = results if isinstance(results, tuple) else (results,)
            # One gradient for each leaf: None stands for all leaves of an argument.
            arguments, keywords = spec.children()
            flat: list[Any] = []
            for result, part in zip(results, arguments.children()):
                flat += [None] * part.num_leaves if result is None else pytree.tree_leaves(result)
            return (*flat, *[None] * (arguments.num_leaves - len(flat) + keywords.num_leaves))

        name = f"GeneratedBackwardFor_{self._namespace}_{self._name}_default"
        members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return type(name, (Function,), members)

    def register_kernel(self, device_types: _Devices, fn: Callable[..., Any] | None = None, /) -> Any:
        """Registers the function for devices of some types, or for all with None."""

        def register(kernel: Callable[..., Any]) -> Callable[..., Any]:
            devices = [device_types] if device_types is None or isinstance(device_types, str) else device_types
            self._kernels.update(dict.fromkeys(devices, kernel))
            return kernel

        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Registers the function for tensors on the device `meta`."""
        self._fake = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Registers the derivative, like the `backward` and `setup_context` of a `torch.autograd.Function`."""
        if self._mutates:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self}. Please create a functional operator "
                "and register an autograd formula for that."
            )
        self._backward, self._setup = backward, setup_context


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
        schema: the signature in torch's syntax; without it every parameter must have an annotation.
        tags: accepted.

    Raises:
        ValueError: the name has no namespace, or a parameter no annotation.

    >>> @torch.library.custom_op("example::double", mutates_args=())
    ... def double(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> torch.ops.example.double(torch.ones(2))
    tensor([2., 2.])
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        signature = inspect.signature(function)
        if schema is None:
            for parameter in signature.parameters.values():
                if parameter.annotation is parameter.empty:
                    raise ValueError(
                        f"infer_schema(func): Parameter {parameter.name} must have a type annotation. Got func with "
                        f"signature {signature})"
                    )
        if name.count("::") != 1:
            raise ValueError(f"Expected name to be of the form 'namespace::name', got {name}")
        made = _CUSTOM[name] = CustomOpDef(name, function, mutates_args, device_types)
        setattr(getattr(ops, made._namespace), made._name, made._opoverload.overloadpacket)
        return made

    return make if fn is None else make(fn)


def _found(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    name = op.name().removesuffix(".default") if isinstance(op, ops.OpOverload) else op
    if name not in _CUSTOM:
        raise RuntimeError(
            f"operator {name} does not exist\n  Only operators of torch.library.custom_op can be extended."
        )
    return _CUSTOM[name]


def register_kernel(
    op: Any, device_types: _Devices, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Registers a function of a custom operator for devices of some types. Usable as a decorator.

    >>> op = torch.library.custom_op("example::half", lambda x: x / 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> torch.library.register_kernel("example::half", "cpu", lambda x: x * 0.5)(torch.ones(1))
    tensor([0.5000])
    """
    return _found(op).register_kernel(device_types, func)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Registers the function of a custom operator for tensors on the device `meta`. Usable as a decorator.

    >>> op = torch.library.custom_op("example::third", lambda x: x / 3, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> function = torch.library.register_fake("example::third", torch.empty_like)
    >>> op(torch.ones(2, device="meta")).shape
    torch.Size([2])
    """
    register = _found(op).register_fake
    return register if func is None else register(func)


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, lib: Any = None
) -> None:
    """Registers the derivative of a custom operator.

    >>> op = torch.library.custom_op("example::five", lambda x: x * 5, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> torch.library.register_autograd("example::five", lambda ctx, gradient: gradient * 5)
    >>> x = torch.ones(1, requires_grad=True)
    >>> op(x).backward()
    >>> x.grad
    tensor([5.])
    """
    _found(op).register_autograd(backward, setup_context=setup_context)


set_module("rushlight.library", CustomOpDef, custom_op, register_autograd, register_fake, register_kernel)
