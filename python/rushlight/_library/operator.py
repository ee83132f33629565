"""The call of an operator of a program: which function runs, under mixed precision, `vmap` and recording."""

from __future__ import annotations

import types
import warnings
from functools import partial
from typing import Any, NamedTuple

import rushlight as torch
from rushlight import _C
from rushlight._C import _overridden
from rushlight._library.results import checked
from rushlight._loading import load
from rushlight.autograd import Function
from rushlight.utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from .schema import Schema

__all__ = ["Operator", "VmapInfo", "find", "registry"]

_ALIASED = (
    "The output of this custom operator (1) must not also be an input to this custom operator and (2) may not alias any "
    "inputs to this custom operator or other returns. The most common way to trigger this error is if we have "
    "y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the offending output tensor(s) "
    "(e.g. return x.clone()) or refactor the custom operator to not return y."
)


class VmapInfo(NamedTuple):
    """What a rule for `vmap` receives: the number of samples, and what random numbers are to be."""

    batch_size: int
    randomness: str


class Registered:
    """The functions that programs have registered for an operator, which may be defined later.

    The kernels are kept by torch's names of dispatch keys: those of backends (``CPU``), ``CompositeExplicitAutograd``
    for all of them, and ``Autograd`` or ``CompositeImplicitAutograd`` for functions that see the call before it is recorded.
    The handlers stand for ``__torch_dispatch__`` of a class or mode.
    """

    def __init__(self) -> None:
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.handlers: dict[type, Callable[..., Any]] = {}


class Operator(Registered):
    """An operator, by its schema, with all that programs have registered for it."""

    def __init__(self, schema: Schema, owner: Any = None) -> None:
        super().__init__()
        self.schema = schema
        #: The object that messages name, a `CustomOpDef`, if `custom_op` has made the operator.
        self.owner = owner
        self.disabled: set[str] = set()
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None
        #: What backward warns of if no derivative is registered, for functions whose own operators are not recorded.
        self.unrecorded: str | None = None
        self.autocast: dict[str, torch.dtype] = {}
        self._functions: dict[str, type[Function]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self.schema.bind(args, kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        device = tensors[0].device.type if tensors else "cpu"
        if device in self.autocast and torch.is_autocast_enabled(device):
            dtype = self.autocast[device]
            leaves = [_cast(leaf, dtype) for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(leaves, spec)
            with torch.autocast(device, enabled=False):
                return self(*args, **kwargs)
        autocast = f"Autocast{device.upper()}"
        if autocast in self.kernels and torch.is_autocast_enabled(device):
            return self._run_kernel(self.kernels[autocast], args, kwargs)
        if self.vmap is not None or self.owner is not None:
            level = max((level for tensor in tensors for level in _C._vmap_levels_of(tensor)), default=-1)
            if level >= 0:
                return self._vectorised(level, args, kwargs)
        for key in ("Autograd", f"Autograd{device.upper()}", "CompositeImplicitAutograd"):
            if key in self.kernels:
                return self._run_kernel(self.kernels[key], args, kwargs)
        recorded = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        if self.owner is None and self.backward is None and self.unrecorded is None:
            # The function's own operators are recorded.
            return self._run(tensors, args, kwargs)
        if self.schema.is_mutable or not recorded:
            with torch.no_grad():
                return self._run(tensors, args, kwargs)
        key = repr(spec)
        if key not in self._functions:
            self._functions[key] = self._differentiable(spec)
        *results, structure = self._functions[key].apply(*leaves)
        return pytree.tree_unflatten(results, structure)

    def _run_kernel(self, kernel: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        args, kwargs = self.schema.shortened(args, kwargs)
        return self._result(kernel(*args, **kwargs))

    def _run(self, tensors: list[torch.Tensor], args: Any, kwargs: Any) -> Any:
        args, kwargs = self.schema.shortened(args, kwargs)
        # `torch.ops` has asked for ``__torch_function__``; these handlers run below recording.
        if _overridden(tuple(tensors)):
            handled = load("rushlight._torch_dispatch").handle(self._member(), args, kwargs)
            if handled is not None:
                return handled[0]
        device = tensors[0].device.type if tensors else "cpu"
        backend = device.capitalize() if device == "meta" else device.upper()
        if device == "meta" and self.fake is not None:
            return self.fake(*args, **kwargs)
        kernel = None if backend in self.disabled else self.kernels.get(backend)
        if kernel is None and (device != "meta" or self.owner is None):
            kernel = self.kernels.get("CompositeExplicitAutograd")
        if kernel is None and backend in fallbacks:
            kernel = partial(fallbacks[backend], self._member())
        if kernel is None:
            self._refuse(backend)
        result = kernel(*args, **kwargs)
        if self.owner is not None:
            self._check_aliases(kernel, tensors, result)
        return self._result(result)

    def _member(self) -> Any:
        """The operator in `torch.ops`, as functions for all operators get it."""
        namespace, _, name = self.schema.name.partition("::")
        return getattr(getattr(getattr(torch.ops, namespace), name), self.schema.overload_name or "default")

    def _result(self, result: Any) -> Any:
        return checked(self.schema.name, self.schema.result_types, result)

    def _refuse(self, backend: str) -> NoReturn:
        if backend != "Meta":
            raise NotImplementedError(
                f"Could not run '{self.schema.name}' with arguments from the '{backend}' backend."
            )
        if self.owner is None:
            raise NotImplementedError(
                f"{self.schema.name}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta "
                "kernel registered."
            )
        raise RuntimeError(
            f"There was no fake impl registered for {self.owner}. This is necessary for torch.compile/export/fx tracing "
            f"to work. Please use `{self.owner._init_fn.__name__}.register_fake` to add an fake impl."
        )

    def _check_aliases(self, kernel: Callable[..., Any], tensors: list[torch.Tensor], result: Any) -> None:
        taken = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.numel():
                if leaf.untyped_storage().data_ptr() in taken:
                    name = self.schema.name.rpartition("::")[2]
                    raise RuntimeError(f"{name} (with implementation in {kernel.__module__}): {_ALIASED}")
                taken.add(leaf.untyped_storage().data_ptr())

    def _vectorised(self, level: int, args: Any, kwargs: Any) -> Any:
        """The result of the rule for `vmap`, which sees the samples as a dimension."""
        from rushlight._built_in import _functorch
        from rushlight.func._function import with_samples

        if self.vmap is None and self.schema.is_mutable:
            raise RuntimeError(
                f"Batching rule not implemented for {self.schema.name}; the fallback path doesn't work on out= or view ops.\n"
                "  torch.library.register_vmap registers a rule."
            )
        args, kwargs = self.schema.shortened(args, kwargs)
        size, randomness = next((size, kind) for number, size, kind in _C._vmap_levels() if number == level)

        def outside(value: Any) -> tuple[Any, int | None]:
            if isinstance(value, torch.Tensor) and level in _C._vmap_levels_of(value):
                return _functorch.get_unwrapped(value), 0
            return value, None

        leaves, spec = pytree.tree_flatten(args)
        unwrapped = [outside(leaf) for leaf in leaves]
        plain = pytree.tree_unflatten([value for value, _ in unwrapped], spec)
        dims = pytree.tree_unflatten([dim for _, dim in unwrapped], spec)
        rule, info = self.vmap or self._each_sample, VmapInfo(size, randomness)
        results = _C._vmap_outside(level, lambda: rule(info, dims, *plain, **kwargs))
        return with_samples(results, level, size, self.schema.name)

    def _each_sample(self, info: VmapInfo, dims: Any, *args: Any, **kwargs: Any) -> Any:
        """The rule of an operator without one: a call for each sample. The function would not see the samples of a tensor."""
        leaves, spec = pytree.tree_flatten(args)
        dims = pytree.tree_flatten(dims, is_leaf=lambda one: one is None)[0]
        results = []
        for place in range(info.batch_size):
            sample = [leaf if dim is None else leaf.select(dim, place) for leaf, dim in zip(leaves, dims, strict=True)]
            results.append(self(*pytree.tree_unflatten(sample, spec), **kwargs))
        if not isinstance(results[0], (tuple, list)):
            return torch.stack(results), 0
        return tuple(map(torch.stack, zip(*results))), (0,) * len(results[0])

    def _differentiable(self, spec: Any) -> type[Function]:
        """The node for arguments of one structure. Its inputs and outputs are the leaves of the operator's."""
        op = self

        def forward(ctx: Any, *leaves: Any) -> Any:
            args, kwargs = pytree.tree_unflatten(leaves, spec)
            result = op._run([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)], args, kwargs)
            results, structure = pytree.tree_flatten(result)
            if op.backward is not None and op.setup is not None:
                extra = {"keyword_only_inputs": kwargs} if kwargs else {}
                op.setup(ctx=ctx, inputs=args, output=result, **extra)
            ctx._structure, ctx._count = structure, len(results)
            return (*results, structure)

        def backward(ctx: Any, *gradients: Any) -> Any:
            if op.backward is None and op.unrecorded is not None:
                warnings.warn(op.unrecorded.format(op.schema.name), stacklevel=2)
                return (None,) * spec.num_leaves
            if op.backward is None:
                raise RuntimeError(
                    f"Trying to backward through {op.overload()} but no autograd formula was registered. Please use "
                    "register_autograd to add one."
                )
            grads = pytree.tree_unflatten(gradients[: ctx._count], ctx._structure)
            results = op.backward(ctx, *(grads if isinstance(grads, tuple) else (grads,)))
            results = results if isinstance(results, tuple) else (results,)
            # One gradient for each leaf: None stands for all leaves of an argument.
            arguments, keywords = spec.children()
            _check_gradients(f"{name}Backward", results, arguments.children())
            flat: list[Any] = []
            for result, part in zip(results, arguments.children()):
                flat += [None] * part.num_leaves if result is None else pytree.tree_leaves(result)
            return (*flat, *[None] * (arguments.num_leaves - len(flat) + keywords.num_leaves))

        name = f"GeneratedBackwardFor_{self.schema.name.replace('::', '_')}_{self.schema.overload_name or 'default'}"
        members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return type(name, (Function,), members)

    def overload(self) -> str:
        """The name as `torch.ops` has it: ``mylib.scale.default``."""
        return f"{self.schema.name.replace('::', '.')}.{self.schema.overload_name or 'default'}"


def _check_gradients(name: str, gradients: tuple[Any, ...], arguments: Sequence[Any]) -> None:
    """torch's errors for too few and too many gradients; it counts one more argument and one more gradient."""
    count, given = len(arguments), len(gradients)
    if given < count or any(one is not None for one in gradients[count + 1 :]):
        raise RuntimeError(
            f"function {name} returned an incorrect number of gradients (expected {count + 1}, got {given + 1})"
        )
    if given > count and gradients[count] is not None:
        raise RuntimeError(
            f"function {name} returned a gradient different than None at position {count + 1}, but the corresponding forward "
            "input was not a Variable"
        )
    for gradient, argument in zip(gradients, arguments):
        if gradient is not None and pytree.tree_structure(gradient).num_leaves != argument.num_leaves:
            raise RuntimeError(
                "Expected the return from backward to be of the same structure as the inputs. Got: "
                f"{pytree.tree_structure((*gradients, None))}, which does not fit {argument}"
            )
        if argument.is_leaf() and not isinstance(gradient, (torch.Tensor, types.NoneType)):
            raise RuntimeError(f"expected Variable or None (got {type(gradient).__name__})")


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype is not torch.float64:
        return value.to(dtype)
    return value


#: The functions that `Library.fallback` registers: for each backend the one of all operators without their own.
fallbacks: dict[str, Callable[..., Any]] = {}

#: The operators of programs by name, with the overload behind a point if there is one.
registry: dict[str, Operator] = {}


def find(name: str) -> Operator:
    """The operator of a name.

    Raises:
        RuntimeError: programs have defined none.
    """
    if name not in registry:
        raise RuntimeError(
            f"operator {name} does not exist\n  Only operators that programs have defined can be extended."
        )
    return registry[name]
