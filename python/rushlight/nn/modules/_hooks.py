"""Hooks around the call of a module: the global registries, and the call that runs hooks.

A call without hooks must cost almost nothing. Therefore `Module.__call__` reads one flag, `calls_are_plain`, which
becomes false when the first hook of the process is registered. From then on, each call checks the registries.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable  # noqa: TC003

import rushlight as torch
from rushlight._loading import load
from rushlight._warnings import warn

from ...utils.hooks import RemovableHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

calls_are_plain = True


class _Registry(OrderedDict):
    """Global hooks that run in calls. Programs also write into the dictionary, under torch's private name for it."""

    def __setitem__(self, key: int, hook: Callable) -> None:
        global calls_are_plain
        calls_are_plain = False
        super().__setitem__(key, hook)


# Global hooks. The `_with_kwargs` and `_always_called` registries contain the ids of hooks with that property.
forward_pre_hooks: OrderedDict[int, Callable] = _Registry()
forward_hooks: OrderedDict[int, Callable] = _Registry()
forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
backward_pre_hooks: OrderedDict[int, Callable] = _Registry()
backward_hooks: OrderedDict[int, Callable] = _Registry()
module_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
parameter_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
buffer_registration_hooks: OrderedDict[int, Callable] = OrderedDict()

# Whether the global backward hooks are full ones; None before the first is registered.
backward_hooks_are_full: bool | None = None

# All hook registries of a module.
REGISTRIES = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)

# The registries that a call checks.
OWN = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def add(hooks: OrderedDict, hook: Callable, prepend: bool = False, **flags: OrderedDict | None) -> RemovableHandle:
    """Registers a hook that runs in calls. Its id is added to those flag registries that are not None."""
    global calls_are_plain
    calls_are_plain = False
    marked = [flag for flag in flags.values() if flag is not None]
    handle = add_quietly(hooks, hook, marked)
    for flag in marked:
        flag[handle.id] = True
    if prepend:
        for registry in (hooks, *marked):
            registry.move_to_end(handle.id, last=False)
    return handle


def add_quietly(hooks: OrderedDict, hook: Callable, flags: list[OrderedDict] | None = None) -> RemovableHandle:
    """Registers a hook that does not run in calls, such as those of the state dictionary."""
    handle = RemovableHandle(hooks, extra_dict=flags)
    hooks[handle.id] = hook
    return handle


def noticed(module: Any) -> None:
    """Clears `calls_are_plain` if a copied or unpickled module has hooks."""
    global calls_are_plain
    if any(module.__dict__[name] for name in OWN):
        calls_are_plain = False


def are_around(module: Any) -> bool:
    """Whether a call of this module runs any hook."""
    own = module.__dict__
    try:
        return bool(
            own["_forward_hooks"]
            or own["_forward_pre_hooks"]
            or own["_backward_hooks"]
            or own["_backward_pre_hooks"]
            or has_any_global_hook()
        )
    except KeyError:
        raise _not_begun(module) from None


def has_any_global_hook() -> bool:
    """Whether a global hook would run in a call."""
    return bool(forward_hooks or forward_pre_hooks or backward_hooks or backward_pre_hooks)


# Names that torch.nn.modules.module exports.


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """Calls ``hook(module, args)`` before the forward of every module; a result replaces the arguments.

    Returns:
        a handle whose ``remove()`` removes the hook.

    >>> def hook(module, args):
    ...     print("called for", type(module).__name__)
    >>> handle = torch.nn.modules.module.register_module_forward_pre_hook(hook)
    >>> y = torch.nn.Linear(2, 1)(torch.zeros(1, 2))
    called for Linear
    >>> handle.remove()
    """
    return add(forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Calls ``hook(module, args, output)`` after the forward of every module; a result replaces the output.

    Returns:
        a handle whose ``remove()`` removes the hook.

    >>> def hook(module, args, output):
    ...     print("called for", type(module).__name__)
    >>> handle = torch.nn.modules.module.register_module_forward_hook(hook)
    >>> y = torch.nn.Linear(2, 1)(torch.zeros(1, 2))
    called for Linear
    >>> handle.remove()
    """
    return add(
        forward_hooks,
        hook,
        with_kwargs=forward_hooks_with_kwargs if with_kwargs else None,
        always_call=forward_hooks_always_called if always_call else None,
    )


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Calls ``hook(module, grad_output)`` when a module's output gradients are computed; a result replaces them.

    Returns:
        a handle whose ``remove()`` removes the hook.

    >>> def hook(module, grad_output):
    ...     print("called for", type(module).__name__)
    >>> handle = torch.nn.modules.module.register_module_full_backward_pre_hook(hook)
    >>> torch.nn.Linear(2, 1)(torch.zeros(1, 2, requires_grad=True)).sum().backward()
    called for Linear
    >>> handle.remove()
    """
    return add(backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Calls ``hook(module, grad_input, grad_output)`` when the gradients of a module's inputs are computed; a result
    replaces them.

    Returns:
        a handle whose ``remove()`` removes the hook.

    >>> def hook(module, grad_input, grad_output):
    ...     print("called for", type(module).__name__)
    >>> handle = torch.nn.modules.module.register_module_full_backward_hook(hook)
    >>> torch.nn.Linear(2, 1)(torch.zeros(1, 2, requires_grad=True)).sum().backward()
    called for Linear
    >>> handle.remove()
    """
    return _add_backward(hook, full=True)


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """The deprecated form of `register_module_full_backward_hook`, for the gradients of the last operation only.

    Returns:
        a handle whose ``remove()`` removes the hook.

    Raises:
        RuntimeError: a full backward hook was registered before.
    """
    return _add_backward(hook, full=False)


def _add_backward(hook: Callable, full: bool) -> RemovableHandle:
    global backward_hooks_are_full
    if backward_hooks_are_full is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
            "Please use only one of them."
        )
    backward_hooks_are_full = full
    return add(backward_hooks, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Calls ``hook(module, name, submodule)`` whenever a submodule is registered; a result replaces it.

    Returns:
        a handle whose ``remove()`` removes the hook.

    >>> def hook(module, name, submodule):
    ...     print("called for", type(module).__name__)
    >>> handle = torch.nn.modules.module.register_module_module_registration_hook(hook)
    >>> model = torch.nn.Sequential(torch.nn.ReLU())
    called for Sequential
    >>> handle.remove()
    """
    return add(module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Calls ``hook(module, name, parameter)`` whenever a parameter is registered; a result replaces it.

    Returns:
        a handle whose ``remove()`` removes the hook.

    >>> def hook(module, name, parameter):
    ...     print("called for", type(module).__name__)
    >>> handle = torch.nn.modules.module.register_module_parameter_registration_hook(hook)
    >>> linear = torch.nn.Linear(2, 1, bias=False)
    called for Linear
    >>> handle.remove()
    """
    return add(parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Calls ``hook(module, name, buffer)`` whenever a buffer is registered; a result replaces it.

    Returns:
        a handle whose ``remove()`` removes the hook.

    >>> def hook(module, name, buffer):
    ...     print("called for", type(module).__name__)
    >>> handle = torch.nn.modules.module.register_module_buffer_registration_hook(hook)
    >>> torch.nn.Module().register_buffer("mask", torch.ones(1))
    called for Module
    >>> handle.remove()
    """
    return add(buffer_registration_hooks, hook)


def registered(hooks: OrderedDict, module: Any, name: str, value: Any) -> Any:
    """Runs the registration hooks. Returns the value to register under this name."""
    for hook in hooks.values():
        given = hook(module, name, value)
        if given is not None:
            value = given
    return value


# The call with hooks.


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the module's forward with all hooks."""
    return _Call(module, args, kwargs).run()


class _Call:
    """One call with hooks: its arguments and its result as changed by the hooks."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        # Hooks that run even if the call raises an exception, unless they have already run.
        self.pending = {
            key: hook
            for hooks, always in (
                (forward_hooks, forward_hooks_always_called),
                (module._forward_hooks, module._forward_hooks_always_called),
            )
            for key, hook in hooks.items()
            if key in always
        }

    def run(self) -> Any:
        if not self.pending:
            return self.run_hooks_and_forward()
        try:
            return self.run_hooks_and_forward()
        except Exception:
            for key, hook in self.pending.items():
                try:
                    self.after(key, hook)
                except Exception as error:
                    whose = "global module" if key in forward_hooks else "module"
                    warn(
                        f"{whose} forward hook with ``always_call=True`` raised an exception that was silenced as "
                        f"another error was raised in forward: {error}",
                    )
            raise

    def run_hooks_and_forward(self) -> Any:
        module = self.module
        for key, hook in (*forward_pre_hooks.items(), *module._forward_pre_hooks.items()):
            self.before(key, hook)
        full, plain = _backward_hooks_of(module)
        pre = [*backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
        gates = None
        if full or pre:
            gates = load("rushlight.nn.modules._backward_hooks").BackwardHook(module, full, pre)
            self.args = gates.setup_input_hook(self.args)

        self.result = module.forward(*self.args, **self.kwargs)

        for key, hook in (*forward_hooks.items(), *module._forward_hooks.items()):
            self.pending.pop(key, None)
            self.after(key, hook)
        if gates is not None:
            if not isinstance(self.result, (torch.Tensor, tuple)):
                warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                    f"received {type(self.result)}",
                )
            self.result = gates.setup_output_hook(self.result)
        if plain:
            _watch_last_node(module, plain, self.args, self.result)
        return self.result

    def before(self, key: int, hook: Callable) -> None:
        if key in self.module._forward_pre_hooks_with_kwargs:
            given = hook(self.module, self.args, self.kwargs)
            if given is None:
                return
            if not (isinstance(given, tuple) and len(given) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {given}."
                )
            self.args, self.kwargs = given
        else:
            given = hook(self.module, self.args)
            if given is not None:
                self.args = given if isinstance(given, tuple) else (given,)

    def after(self, key: int, hook: Callable) -> None:
        if key in forward_hooks_with_kwargs or key in self.module._forward_hooks_with_kwargs:
            given = hook(self.module, self.args, self.kwargs, self.result)
        else:
            given = hook(self.module, self.args, self.result)
        if given is not None:
            self.result = given


def _backward_hooks_of(module: Any) -> tuple[list[Callable], list[Callable]]:
    """The full and the deprecated backward hooks that apply to this module."""
    full: list[Callable] = []
    plain: list[Callable] = []
    (full if backward_hooks_are_full else plain).extend(backward_hooks.values())
    (full if module._is_full_backward_hook else plain).extend(module._backward_hooks.values())
    return full, plain


def _watch_last_node(module: Any, hooks: list[Callable], args: Any, result: Any) -> None:
    """Deprecated backward hooks get the gradients of the operation that created the output, whatever its inputs were."""
    first = result
    while not isinstance(first, torch.Tensor):
        first = next(iter(first.values() if isinstance(first, dict) else first))
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(functools.wraps(hook)(functools.partial(hook, module)))
    _warn_of_partial_view(args, result, node)


def _warn_of_partial_view(args: Any, result: Any, node: Any) -> None:
    def tensors(value: Any) -> bool:
        return isinstance(value, torch.Tensor) or (
            isinstance(value, tuple) and all(isinstance(part, torch.Tensor) for part in value)
        )

    def tell(sentence: str) -> None:
        warn(sentence, FutureWarning)

    advice = "Please use register_full_backward_hook to get the documented behavior."
    if not tensors(result):
        tell(
            "Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors is "
            "deprecated and will be removed in future versions. This hook will be missing some of the grad_output. "
            + advice
        )
    elif not tensors(args):
        tell(
            "Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of "
            "Tensors is deprecated and will be removed in future versions. This hook will be missing some of the "
            "grad_input. " + advice
        )
    elif isinstance(result, tuple) and len({part.grad_fn for part in result}) > 1:
        tell(
            "Using a non-full backward hook when outputs are generated by different autograd Nodes is deprecated and "
            "will be removed in future versions. This hook will be missing some grad_output. " + advice
        )
    else:
        inputs = {args.grad_fn} if isinstance(args, torch.Tensor) else {part.grad_fn for part in args}
        if not {edge[0] for edge in node.next_functions} <= inputs | {None}:
            tell(
                "Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and "
                "will be removed in future versions. This hook will be missing some grad_input. " + advice
            )


def _not_begun(module: Any) -> AttributeError:
    return AttributeError(
        f"'{type(module).__name__}' object has no attribute '_backward_hooks'\n"
        "  Its class has an __init__ that does not call super().__init__()."
    )


def forward_unimplemented(self: Any, *input: Any) -> None:
    """Computes the result of a call. Every subclass defines it."""
    if "_modules" not in self.__dict__:
        raise _not_begun(self)
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class HasHooks:
    """The methods of a module that register hooks."""

    _backward_pre_hooks: OrderedDict[int, Callable]
    _backward_hooks: OrderedDict[int, Callable]
    _is_full_backward_hook: bool | None
    _forward_hooks: OrderedDict[int, Callable]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _state_dict_hooks: OrderedDict[int, Callable]
    _state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_post_hooks: OrderedDict[int, Callable]

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, args)`` before forward; a result replaces the arguments."""
        flag = self._forward_pre_hooks_with_kwargs if with_kwargs else None
        return add(self._forward_pre_hooks, hook, prepend, with_kwargs=flag)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, args, output)`` after forward; a result replaces the output."""
        return add(
            self._forward_hooks,
            hook,
            prepend,
            with_kwargs=self._forward_hooks_with_kwargs if with_kwargs else None,
            always_call=self._forward_hooks_always_called if always_call else None,
        )

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(module, grad_output)`` before the gradients of the inputs are computed; a result replaces it."""
        return add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(module, grad_input, grad_output)``; a result replaces ``grad_input``."""
        return self._add_backward_hook(hook, True, prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """The deprecated form of `register_full_backward_hook`. It receives the gradients of the last operation only."""
        return self._add_backward_hook(hook, False, False)

    def _add_backward_hook(self, hook: Callable, full: bool, prepend: bool) -> RemovableHandle:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = full
        return add(self._backward_hooks, hook, prepend)

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Calls ``hook(module, prefix, keep_vars)`` before `state_dict` collects the state."""
        return add_quietly(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, local_metadata)`` after `state_dict` has collected the state."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return add_quietly(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return add_quietly(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, ...)`` before this module's part of the state is loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        wrapped = WrappedHook(hook, self if with_module else None)
        return add_quietly(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Calls ``hook(module, incompatible_keys)`` after loading. The hook may change the two lists."""
        return add_quietly(self._load_state_dict_post_hooks, hook)


class WrappedHook:
    """A hook whose first argument is its module. It holds a weak reference to it, and can be copied and pickled."""

    def __init__(self, hook: Callable, module: Any = None) -> None:
        self.hook = hook
        self.with_module = module is not None
        functools.update_wrapper(self, hook)
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["hook"])  # type: ignore[misc]
        if state["with_module"]:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.with_module = True
            self.module = weakref.ref(state["module"])
