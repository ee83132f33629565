"""`Module`: the base class of networks. It registers parameters, buffers and submodules, and calls `forward`.

Three dictionaries hold what is registered (`_parameters`, `_buffers`, `_modules`); everything else is walking them.
Hooks around a call are in `_hooks`, the state dictionary in `_state`.
"""

from __future__ import annotations

from collections import OrderedDict

import rushlight as torch
from rushlight import Tensor
from rushlight._constructors import name_constructor
from rushlight._names import missing
from rushlight._text import indented, typename
from rushlight._warnings import warn

from .. import _grads
from ..parameter import Buffer, Parameter
from . import _convert, _hooks, _state
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
from ._state import _IncompatibleKeys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Self

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


class Module(_hooks.HasHooks):
    """The base class of all neural network modules.

    A subclass calls ``super().__init__()``, assigns parameters, buffers and other modules as attributes, and defines
    ``forward``. Assigned modules form a tree whose parameters are found by `parameters`, saved by `state_dict` and
    converted by `to`.

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
        # Straight into the dictionary: nothing here needs the rules of __setattr__.
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
        """Adds a parameter under a name; None reserves the name."""
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
        """Adds a tensor that is not trained; it is part of the state dictionary if ``persistent``."""
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
        """Adds a submodule under a name; it can be read as an attribute of that name."""
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
            or hasattr(type(self), name)
        ):
            raise KeyError(f"attribute '{name}' already exists")

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_modules" in own:
            # Written out: this runs at every use of a parameter in a forward.
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
            # The common case: a plain value under a name that is plain already.
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
            self._forget(name, own)
            self.register_buffer(name, value, value.persistent)
        elif name in own.get("_buffers", ()):
            self._buffers[name] = _hooks.registered(_hooks.buffer_registration_hooks, self, name, value)
        else:
            super().__setattr__(name, value)

    def _replaces_registered(self, name: str, value: Any) -> bool:
        """Puts None in the place of something registered; any other value does not belong there."""
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
        # Files of older versions lack what came later.
        for name in _hooks.REGISTRIES:
            own.setdefault(name, OrderedDict())
        own.setdefault("_non_persistent_buffers_set", set())
        own.setdefault("_is_full_backward_hook", None)
        _hooks.noticed(self)

    # Walking the tree.

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
        """The parameters of this module and, if ``recurse``, of all below; shared ones once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their names, as in the state dictionary."""
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and, if ``recurse``, of all below; shared ones once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their names, as in the state dictionary."""
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """The modules directly below this one."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below this one with their names; shared ones once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, a module before those it holds."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it with their paths; its own path is ``prefix``."""
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
        """The module at a path such as ``"encoder.layers.0"``; the empty path is this module."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module at a path; with ``strict`` only in the place of one that is there."""
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

    # Changing the whole tree.

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Calls ``fn`` on every module below and then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replaces the data of every parameter, its gradient and every buffer by what ``fn`` makes of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            with torch.no_grad():
                data = fn(parameter)
            grad = parameter.grad
            if data.is_meta == parameter.is_meta:
                # The parameter stays the same object: optimizers and other modules hold it.
                parameter.data = data
            else:
                parameter = self._parameters[name] = Parameter(data, parameter.requires_grad)
            if grad is not None:
                with torch.no_grad():
                    parameter.grad = fn(grad).requires_grad_(grad.requires_grad)
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
        """Moves parameters and buffers to memory that other processes can map."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def train(self, mode: bool = True) -> Self:
        """Sets training or evaluation mode here and below; Dropout, for one, looks at it."""
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
        """Says for all parameters whether gradients flow into them."""
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
        """Parameters and persistent buffers by name, detached but not copied; with ``keep_vars`` not even detached."""
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
            )
            given = [destination, prefix, keep_vars]
            given[: len(args)] = args
            destination, prefix, keep_vars = given  # type: ignore[assignment]
        return _state.save(self, destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copies a saved state into this module; with ``assign`` the tensors themselves take the old ones' places.

        Returns the names that were missing and those that were not expected.

        Raises:
            RuntimeError: a shape differs, or names differ and ``strict`` is set. All differences are listed.
        """
        return _state.load(self, state_dict, strict, assign)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        _state.save_own(self, destination, prefix, keep_vars)

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
        _state.load_own(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def get_extra_state(self) -> Any:
        """What to save besides tensors; a subclass defines it together with `set_extra_state`."""
        raise RuntimeError(_NO_EXTRA_STATE.format("get_extra_state"))

    def set_extra_state(self, state: Any) -> None:
        """Takes what `get_extra_state` saved."""
        raise RuntimeError(_NO_EXTRA_STATE.format("set_extra_state"))

    # Printing.

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What the module's line says between the parentheses."""
        return ""

    def __repr__(self) -> str:
        own = self.extra_repr()
        lines = own.split("\n") if own else []
        below = [f"({name}): {indented(repr(module), 2)}" for name, module in self._modules.items()]
        if not below and len(lines) < 2:
            return f"{self._get_name()}({own})"
        return self._get_name() + "(\n  " + "\n  ".join(lines + below) + "\n)"


# Torch's name, which texts of modules in programs are made with.
_addindent = indented

_NO_EXTRA_STATE = (
    "Reached a code path in Module.{}() that should never be called.\n"
    "  A module that keeps an extra state writes both: get_extra_state() and set_extra_state(state)."
)
