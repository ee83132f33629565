"""Parametrized tensors, which modules compute from other parameters each time they are read."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from contextlib import contextmanager
from copy import deepcopy

import rushlight as torch
from rushlight import Tensor

from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

# The nesting depth of `cached`, and the computed tensors by module and name.
_depth = 0
_computed: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Computes each parametrized tensor only once inside the block.

    >>> with torch.nn.utils.parametrize.cached():
    ...     pass
    """
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _computed.clear()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


class ParametrizationList(ModuleList):
    """The modules that compute one tensor, in order, and the original tensors.

    These are ``original``, or ``original0``, ``original1`` ... if the first module takes several tensors.

    Raises:
        ValueError: there are no modules, or they change shape or dtype and ``unsafe`` is not set.

    >>> import rushlight.nn.utils.parametrize
    >>> class Doubled(torch.nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> linear = torch.nn.utils.parametrize.register_parametrization(torch.nn.Linear(2, 1), "weight", Doubled())
    >>> steps = linear.parametrizations.weight
    >>> len(steps), torch.equal(steps.original * 2, linear.weight)
    (1, True)
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with torch.no_grad():
            new: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not isinstance(new, (torch.Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, torch.Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, torch.Tensor):
            for what in ("dtype", "device"):
                if getattr(original, what) != getattr(new, what):
                    raise ValueError(
                        f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                        f"original.{what}: {getattr(original, what)}\n"
                        f"right_inverse(original).{what}: {getattr(new, what)}"
                    )
            # The tensor stays the same object, because optimizers refer to it.
            with torch.no_grad():
                original.set_(new)
            _register(self, "original", original)
        else:
            for place, part in enumerate(new):
                if not isinstance(part, torch.Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                        f"{place} of the sequence with type {type(part).__name__}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                _register(self, f"original{place}", part.requires_grad_(original.requires_grad))
        if not unsafe:
            _check_same(self(), shape, dtype)

    def right_inverse(self, value: Any) -> None:
        """Sets the original tensors so that the modules compute a given value."""
        with torch.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, torch.Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
                        f"{self.original.dtype}"
                    )
                self.original.set_(value)
                return
            if not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                    f"length {len(value)}."
                )
            for place, part in enumerate(value):
                own = getattr(self, f"original{place}")
                if own.dtype != part.dtype:
                    raise ValueError(
                        f"Tensor {place} returned by `right_inverse` has dtype {part.dtype} while `original{place}` has "
                        f"dtype {own.dtype}"
                    )
                own.set_(part)

    def forward(self) -> Tensor:
        first, *others = self
        if self.is_tensor:
            value = first(self.original)
        else:
            value = first(*[getattr(self, f"original{place}") for place in range(self.ntensors)])
        for module in others:
            value = module(value)
        return value


def _check_same(value: Any, shape: Any, dtype: Any) -> None:
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    for what, before, after in (("dtype", dtype, value.dtype), ("shape", shape, value.shape)):
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                f"enabled.\nunparametrized {what}: {before}\nparametrized {what}: {after}"
            )


def _inject_new_class(module: Module) -> None:
    """Gives a module its own class, because parametrized tensors are properties."""
    kind = type(module)

    def copied(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            # The copy needs its own class too, because removing a parametrization deletes a property from the class.
            own = {key: value for key, value in vars(type(self)).items() if key not in ("__dict__", "__weakref__")}
            replica = memo[id(self)] = self.__new__(type(type(self).__name__, type(self).__bases__, own))
            replica.__dict__ = deepcopy(self.__dict__, memo)
            for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
                if hasattr(self, slot):
                    setattr(replica, slot, deepcopy(getattr(self, slot), memo))
        return memo[id(self)]

    def getstate(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    own: dict[str, Any] = {"__getstate__": getstate}
    if not hasattr(kind, "__deepcopy__"):
        own["__deepcopy__"] = copied
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), own)


def _inject_property(module: Module, name: str) -> None:
    def get(self: Any) -> Tensor:
        compute = self.parametrizations[name]
        if not _depth:
            return compute()
        key = (id(self), name)
        if key not in _computed:
            _computed[key] = compute()
        return _computed[key]

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes a parameter or buffer the output of a module, whose input is the original tensor.

    If the module has ``right_inverse``, assigning to the tensor applies it, and the original is initialised with its
    result for the current value. Several parametrizations of one tensor are applied in order.

    Args:
        module, tensor_name: the module and the name of the parameter or buffer.
        parametrization: the module that computes it.
        unsafe: whether shape and dtype may change; nothing is checked then.

    Raises:
        ValueError: there is no such tensor, or its shape or dtype would change.

    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = register_parametrization(torch.nn.Linear(3, 3), "weight", Symmetric())
    >>> torch.equal(layer.weight, layer.weight.T)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        present: Any = module.parametrizations[tensor_name]
        present.append(parametrization)
        present.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def _check_further(module: Module, name: str, parametrization: Any) -> None:
    before = getattr(module, name)
    value = parametrization(before)
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    for what in ("dtype", "shape"):
        old, new = getattr(before, what), getattr(value, what)
        if old != new:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is "
                f"enabled.\nmodule.{name}.{what}: {old}\nparametrization(module.{name}).{what}: {new}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(value)
    except NotImplementedError:
        return
    if not isinstance(back, torch.Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("dtype", "shape"):
        old, new = getattr(before, what), getattr(back, what)
        if old != new:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, "
                f"unless the `unsafe` flag is enabled.\nmodule.{name}.{what}: {old}\nreturned {what}: {new}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of a module is parametrized, or any of its tensors.

    >>> is_parametrized(torch.nn.Linear(1, 1))
    False
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes it an ordinary tensor with the computed value, or with the original value if not ``leave_parametrized``.

    Raises:
        ValueError: it is not parametrized, or it has several originals and ``leave_parametrized`` is false.

    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))
    >>> list(dict(remove_parametrizations(layer, "weight").named_parameters()))
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations: Any = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with torch.no_grad():
                original.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copies parametrizations and originals to another module. Both modules then compute from the same tensors.

    Args:
        from_module: the parametrized module. If it has no parametrizations, nothing happens.
        to_module: the other module, which is returned. Missing tensors are created.
        tensor_name: the name of the only tensor to transfer; all parametrized tensors by default.

    Raises:
        KeyError: ``tensor_name`` is not parametrized.

    >>> first = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))
    >>> second = transfer_parametrizations_and_params(first, torch.nn.Linear(2, 3))
    >>> torch.equal(first.weight, second.weight), is_parametrized(second, "weight")
    (True, True)
    """
    if not is_parametrized(from_module):
        return to_module
    parametrizations: Any = from_module.parametrizations
    for name in parametrizations if tensor_name is None else (tensor_name,):
        own = parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for parametrization in own:
            register_parametrization(to_module, name, parametrization, unsafe=own.unsafe)
        others: Any = to_module.parametrizations
        for original, tensor in (*own.named_parameters(recurse=False), *own.named_buffers(recurse=False)):
            setattr(others[name], original, tensor)
    return to_module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module before it was parametrized.

    >>> type_before_parametrizations(torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))).__name__
    'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def __dir__() -> list[str]:
    return __all__
