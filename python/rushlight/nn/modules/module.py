"""`Module`: the base class of networks. It registers parameters, buffers and submodules, and calls `forward`.

Registered objects are in three dictionaries (`_parameters`, `_buffers`, `_modules`). Most methods iterate over them. Hooks
around a call are in `_hooks`.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import rushlight as torch
from rushlight import Tensor, __future__
from rushlight._constructors import name_constructor
from rushlight._missing_names import missing, missing_from
from rushlight._text import indented, typename
from rushlight._warnings import warn

from .. import _grads
from ..parameter import Buffer, Parameter, is_lazy
from . import _convert, _hooks

# torch's private names of the global registries, which libraries read.
from ._hooks import backward_hooks as _global_backward_hooks  # noqa: F401
from ._hooks import backward_pre_hooks as _global_backward_pre_hooks  # noqa: F401
from ._hooks import buffer_registration_hooks as _global_buffer_registration_hooks  # noqa: F401
from ._hooks import forward_hooks as _global_forward_hooks  # noqa: F401
from ._hooks import forward_hooks_always_called as _global_forward_hooks_always_called  # noqa: F401
from ._hooks import forward_hooks_with_kwargs as _global_forward_hooks_with_kwargs  # noqa: F401
from ._hooks import forward_pre_hooks as _global_forward_pre_hooks  # noqa: F401
from ._hooks import has_any_global_hook as _has_any_global_hook  # noqa: F401
from ._hooks import module_registration_hooks as _global_module_registration_hooks  # noqa: F401
from ._hooks import parameter_registration_hooks as _global_parameter_registration_hooks  # noqa: F401
from ._hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` returns: the names that were missing and those nobody expected."""

    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


class Module(_hooks.HasHooks):
    """The base class of all neural network modules.

    A subclass calls ``super().__init__()``, assigns parameters, buffers and other modules as attributes, and defines
    ``forward``. Assigned modules form a tree. `parameters` finds its parameters, `state_dict` saves them and `to`
    converts them.

    Raises:
        AttributeError: a parameter, buffer or module is assigned before ``Module.__init__`` was called.
        NotImplementedError: the module is called and has no ``forward``.

    >>> class Line(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.slope = torch.nn.Parameter(torch.tensor(2.0))
    ...
    ...     def forward(self, x):
    ...         return self.slope * x
    >>> line = Line()
    >>> line(torch.tensor(3.0)).item()
    6.0
    >>> [name for name, _ in line.named_parameters()]
    ['slope']
    """

    dump_patches: bool = False
    call_super_init: bool = False
    _version: int = 1
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name_constructor(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            name = type(self).__name__
            if kwargs:
                raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        # Written directly to the dictionary, because these attributes do not need the checks of __setattr__.
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_is_full_backward_hook"] = None
        for name in _hooks.REGISTRIES:
            own[name] = OrderedDict()
        own["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward: Callable[..., Any] = _hooks.forward_unimplemented

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _hooks.calls_are_plain or not _hooks.are_around(self):
            return self.forward(*args, **kwargs)
        return _hooks.call(self, args, kwargs)

    _call_impl = __call__

    # Registration.

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Registers a parameter under a name. None reserves the name."""
        self._check_name("parameter", name, self._parameters if "_parameters" in self.__dict__ else None)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                    "forward() method."
                )
            param = _hooks.registered(_hooks.parameter_registration_hooks, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Registers a tensor that is not trained. It is part of the state dictionary if ``persistent``."""
        self._check_name("buffer", name, self._buffers if "_buffers" in self.__dict__ else None)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _hooks.registered(_hooks.buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Registers a submodule under a name, which becomes an attribute."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = _hooks.registered(_hooks.module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _check_name(self, kind: str, name: str, registry: dict[str, Any] | None) -> None:
        if registry is None:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in registry and (
            name in self.__dict__
            or name in self._parameters
            or name in self._buffers
            or name in self._modules
            # A property that cannot be read yet, because it needs an attribute that is set later, may be registered.
            or (hasattr(type(self), name) and hasattr(self, name))
        ):
            raise KeyError(f"attribute '{name}' already exists")

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_modules" in own:
            # Not in a loop, because this code runs at every use of a parameter in a forward.
            registry = own["_parameters"]
            if name in registry:
                return registry[name]
            registry = own["_modules"]
            if name in registry:
                return registry[name]
            registry = own["_buffers"]
            if name in registry:
                return registry[name]
        raise missing(f"'{type(self).__name__}' object has no attribute '{name}'", name, self.__dir__)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if not isinstance(value, (Tensor, Module)):
            # The common case: a plain value, and the name is not registered.
            if name in own or not self._replaces_registered(name, value):
                super().__setattr__(name, value)
            return
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, own, self._buffers, self._modules)
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            self._replaces_registered(name, value)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, own, self._parameters, self._buffers)
            self._modules[name] = _hooks.registered(_hooks.module_registration_hooks, self, name, value)
        elif name in own.get("_modules", ()):
            self._replaces_registered(name, value)
        elif isinstance(value, Buffer):
            if "_buffers" not in own:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            if _accepts_persistent(type(self).register_buffer):
                self.register_buffer(name, value, value.persistent)
            elif not value.persistent:
                raise RuntimeError(
                    "Registering a non-persistent buffer on a Module subclass that implements register_buffer() without the "
                    "persistent argument is not allowed."
                )
            else:
                self.register_buffer(name, value)
        elif name in own.get("_buffers", ()):
            self._buffers[name] = _hooks.registered(_hooks.buffer_registration_hooks, self, name, value)
        else:
            super().__setattr__(name, value)

    def _replaces_registered(self, name: str, value: Any) -> bool:
        """Sets a registered name to None. Any other value is an error."""
        own = self.__dict__
        for registry, kind, expected in (
            ("_parameters", "parameter", "torch.nn.Parameter or None"),
            ("_modules", "child module", "torch.nn.Module or None"),
            ("_buffers", "buffer", "torch.nn.Buffer, torch.Tensor or None"),
        ):
            if name in own.get(registry, ()):
                if value is not None:
                    raise TypeError(f"cannot assign '{typename(value)}' as {kind} '{name}' ({expected} expected)")
                own[registry][name] = None
                return True
        return False

    def _forget(self, name: str, *places: dict[str, Any]) -> None:
        for place in places:
            place.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        own = self.__dict__
        registries = (own.get(name, ()) for name in ("_parameters", "_modules", "_buffers"))
        names = {*dir(type(self)), *own}.union(*registries)
        return sorted(name for name in names if not name[:1].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update(state)
        # Pickles of older versions do not have the newer attributes.
        for name in _hooks.REGISTRIES:
            own.setdefault(name, OrderedDict())
        own.setdefault("_non_persistent_buffers_set", set())
        own.setdefault("_is_full_backward_hook", None)
        _hooks.noticed(self)

    # Traversal.

    def _named_members(
        self, members: Callable[[Module], Any], prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in members(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and, if ``recurse``, of all submodules. Shared ones occur once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The names of parameters, as in the state dictionary, and the parameters."""
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and, if ``recurse``, of all submodules. Shared ones occur once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The names of buffers, as in the state dictionary, and the buffers."""
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """The direct submodules."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The names of the direct submodules and the submodules. Shared ones occur once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all its submodules, recursively. A module comes before its submodules."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """The paths of this module and all submodules, and the modules. The path of this module is ``prefix``."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as ``"encoder.layers.0"``; the empty path gives this module."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Sets the module at a path. With ``strict`` there must already be one."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as ``"encoder.weight"``."""
        return self._get_member(target, lambda module, name, found: isinstance(found, Parameter), "an nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path such as ``"norm.running_mean"``."""
        return self._get_member(target, lambda module, name, found: name in module._buffers, "a buffer")

    def _get_member(self, target: str, fits: Callable[[Module, str, Any], bool], kind: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        found = getattr(module, name)
        if not fits(module, name, found):
            raise AttributeError(f"`{name}` is not {kind}")
        return found

    # Changes of the whole tree.

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Calls ``fn`` with every submodule and then with this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replaces every parameter's data, its gradient and every buffer by the result of ``fn``."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _convert.converted(parameter, fn, f"{type(self).__name__}.{name}")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves parameters and buffers: ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)``.

        The dtype applies to floating point and complex tensors only. The module is changed in place and returned.

        Raises:
            TypeError: the dtype is neither floating point nor complex.
        """
        return self._apply(_convert.converter(*args, **kwargs))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Moves parameters and buffers to a device without their values."""
        return self._apply(lambda tensor: torch.empty_like(tensor, device=device), recurse=recurse)

    def cpu(self) -> Self:
        """Moves parameters and buffers to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def _replicate_for_data_parallel(self) -> Self:
        replica = self.__new__(type(self))
        replica.__dict__ = {**self.__dict__, "_is_replica": True}
        for name in ("_parameters", "_buffers", "_modules"):
            replica.__dict__[name] = dict(self.__dict__[name])
        return replica

    def cuda(self, device: Any = None) -> Self:
        """Moves parameters and buffers to a CUDA device, the current one by default."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def type(self, dst_type: Any) -> Self:
        """Casts all parameters and buffers to a type."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Casts floating point parameters and buffers to float32."""
        return self._cast_floating(torch.float32)

    def double(self) -> Self:
        """Casts floating point parameters and buffers to float64."""
        return self._cast_floating(torch.float64)

    def half(self) -> Self:
        """Casts floating point parameters and buffers to float16."""
        return self._cast_floating(torch.float16)

    def bfloat16(self) -> Self:
        """Casts floating point parameters and buffers to bfloat16."""
        return self._cast_floating(torch.bfloat16)

    def _cast_floating(self, dtype: torch.dtype) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def share_memory(self) -> Self:
        """Moves parameters and buffers into shared memory."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def train(self, mode: bool = True) -> Self:
        """Sets training or evaluation mode in this module and all submodules, for example for Dropout."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The same as ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets whether the parameters require gradients."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of all parameters, or fills them with zeros."""
        _grads.clear(self.parameters(), set_to_none)

    # State.

    def state_dict(
        self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by name. They are detached (unless ``keep_vars``) but not copied."""
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
            )
            given = [destination, prefix, keep_vars]
            given[: len(args)] = args
            destination, prefix, keep_vars = given  # type: ignore[assignment]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            given = hook(self, destination, prefix, metadata)
            if given is not None:
                # Only hooks registered by the private function may replace the dictionary.
                if getattr(hook, "_from_public_api", False):
                    raise RuntimeError("state_dict post-hook must return None")
                destination = given
        return destination

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copies a saved state into this module. With ``assign`` its tensors replace the old ones.

        Returns the missing names and the unexpected names.

        Raises:
            RuntimeError: a shape differs, or names differ and ``strict`` is set. The message lists all differences.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        versions = getattr(state_dict, "_metadata", None)
        state: OrderedDict[str, Any] = OrderedDict(state_dict)
        if versions is not None:
            # Modules' own loading may look at it.
            state._metadata = versions  # type: ignore[attr-defined]

        _load_with_children(self, state, "", versions, assign, (missing, unexpected, errors))
        if strict:
            for title, names in (("Unexpected", unexpected), ("Missing", missing)):
                if names:
                    quoted = ", ".join(f'"{name}"' for name in names)
                    errors.insert(0, f"{title} key(s) in state_dict: {quoted}. ")
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors))
            )
        return _IncompatibleKeys(missing, unexpected)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, tensor in _persistent(self).items():
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if _overrides(self, "get_extra_state"):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

        own = _persistent(self)
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, target in own.items():
            if target is None:
                continue
            key = prefix + name
            if key in state_dict:
                _load_tensor(self, name, key, target, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)

        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if _overrides(self, "set_extra_state"):
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)

        if strict:
            # A slot that holds None takes nothing.
            there = {name for name, target in own.items() if target is not None}
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    name, _, below = key[len(prefix) :].partition(".")
                    if name not in (self._modules if below else there):
                        unexpected_keys.append(key)

    def get_extra_state(self) -> Any:
        """State besides tensors that is saved. A subclass defines it together with `set_extra_state`."""
        raise RuntimeError(_NO_EXTRA_STATE.format("get_extra_state"))

    def set_extra_state(self, state: Any) -> None:
        """Loads the result of `get_extra_state`."""
        raise RuntimeError(_NO_EXTRA_STATE.format("set_extra_state"))

    # Printing.

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text between the parentheses in the module's line."""
        return ""

    def __repr__(self) -> str:
        own = self.extra_repr()
        lines = own.split("\n") if own else []
        below = [f"({name}): {indented(repr(module), 2)}" for name, module in self._modules.items()]
        if not below and len(lines) < 2:
            return f"{self._get_name()}({own})"
        return self._get_name() + "(\n  " + "\n  ".join(lines + below) + "\n)"


# It has torch's name, because programs use it for the text of their modules.
_addindent = indented

_NO_EXTRA_STATE = (
    "Reached a code path in Module.{}() that should never be called.\n"
    "  A module with extra state defines both: get_extra_state() and set_extra_state(state)."
)

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


def _persistent(module: Module) -> dict[str, Any]:
    """A module's own parameters and those buffers that belong to its state."""
    transient = module._non_persistent_buffers_set
    buffers = {name: tensor for name, tensor in module._buffers.items() if name not in transient}
    return {**module._parameters, **buffers}


def _overrides(module: Module, method: str) -> bool:
    return getattr(type(module), method) is not getattr(Module, method)


def _load_with_children(
    module: Module,
    part: dict[str, Any],
    prefix: str,
    versions: dict[str, Any] | None,
    assign: bool,
    report: tuple[list[str], list[str], list[str]],
) -> None:
    """Loads the part of a state that belongs to a module. Adds to the missing names, unexpected names and errors."""
    metadata = {} if versions is None else versions.get(prefix[:-1], {})
    if assign:
        metadata["assign_to_params_buffers"] = assign
    module._load_from_state_dict(part, prefix, metadata, True, *report)
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            state = {key: value for key, value in part.items() if key.startswith(below)}
            _load_with_children(child, state, below, versions, assign, report)
    keys = _IncompatibleKeys(*report[:2])
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                "values, if incompatible_keys need to be modified, it should be done inplace."
            )


def _accepts_persistent(method: Callable[..., Any]) -> bool:
    """Whether a subclass's `register_buffer` has the third argument."""
    if method is Module.register_buffer:
        return True
    from inspect import signature

    parameters = signature(method).parameters.values()
    return any(one.name == "persistent" or one.kind is one.VAR_KEYWORD for one in parameters)


def __getattr__(name: str) -> Any:
    if name == "_global_is_full_backward_hook":
        return _hooks.backward_hooks_are_full
    raise missing_from("torch.nn.modules.module", name, lambda: __all__)


def _load_tensor(
    module: Module, name: str, key: str, target: torch.Tensor, value: Any, assign: bool, errors: list[str]
) -> None:
    if not isinstance(value, torch.Tensor):
        errors.append(
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(value)}"
        )
        return
    if is_lazy(target) and is_lazy(value):
        # Nothing to copy yet.
        return
    if target.dim() == 0 and value.dim() == 1:
        # Checkpoints from before tensors without dimensions hold scalars as vectors of one.
        value = value[0]
    if value.shape != target.shape:
        errors.append(
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in current "
            f"model is {target.shape}."
        )
        return
    if target.is_meta and not value.is_meta and not assign:
        warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
            "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
            "corresponding key in the module instead of copying them in place?)",
        )
    try:
        if not assign:
            with torch.no_grad():
                target.copy_(value)
            return
        if isinstance(target, Parameter):
            if isinstance(value, Parameter):
                value.requires_grad_(target.requires_grad)
            else:
                value = Parameter(value, requires_grad=target.requires_grad)
            if __future__.get_swap_module_params_on_conversion():
                torch.utils.swap_tensors(target, Parameter(value.detach(), target.requires_grad))
                return
        setattr(module, name, value)
    except Exception as error:
        errors.append(
            f'While copying the parameter named "{key}", whose dimensions in the model are {target.size()} and whose '
            f"dimensions in the checkpoint are {value.size()}, an exception occurred : {error.args}."
        )
