"""`Optimizer`: parameter groups with their options, the state of each parameter, and hooks around a step."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable  # noqa: TC003
from copy import deepcopy
from itertools import chain

import rushlight as torch
from rushlight import _C
from rushlight._loading import load
from rushlight._text import typename
from rushlight._warnings import warn

from ..nn import _grads
from ..utils._foreach_utils import _group_tensors_by_device_and_dtype
from ..utils.hooks import RemovableHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]


class _RequiredParameter:
    """The default of an option that every group must set."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()

# Global hooks around the steps of all optimizers.
_global_optimizer_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Callable] = OrderedDict()


def _add(hooks: OrderedDict[int, Callable], hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` before each step of every optimizer. If it returns a pair, this replaces
    the arguments.

    Returns:
        a handle whose ``remove()`` removes the hook.

    >>> from rushlight.optim.optimizer import register_optimizer_step_pre_hook
    >>> handle = register_optimizer_step_pre_hook(lambda *args: print("a step"))
    >>> torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).step()
    a step
    >>> handle.remove()
    """
    return _add(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` after each step of every optimizer.

    Returns:
        a handle whose ``remove()`` removes the hook.

    >>> from rushlight.optim.optimizer import register_optimizer_step_post_hook
    >>> handle = register_optimizer_step_post_hook(lambda *args: print("a step"))
    >>> torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).step()
    a step
    >>> handle.remove()
    """
    return _add(_global_optimizer_post_hooks, hook)


# The hook registries of each optimizer. They are not pickled.
_HOOK_REGISTRIES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class Optimizer:
    """The base class of optimizers.

    Args:
        params: tensors, pairs of name and tensor, or dictionaries for groups with ``"params"`` and options that differ
            from the defaults.
        defaults: the options of groups that do not set them.

    Raises:
        ValueError: there are no parameters, a parameter is in two groups, or a parameter is not a leaf.
        TypeError: a parameter is not a tensor.

    A subclass defines ``step``. `param_groups` is a list of dictionaries, `state` maps a parameter to a dictionary.

    >>> class Signs(torch.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...     @torch.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p -= group["lr"] * p.grad.sign()
    >>> x = torch.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = Signs([x], lr=0.25)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([ 0.7500, -0.7500])
    """

    _optimizer_step_pre_hooks: OrderedDict[int, Callable]
    _optimizer_step_post_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable]
    # Attributes that learning-rate schedules read.
    _opt_called: bool
    _scheduled: bool

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        if isinstance(params, torch.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + typename(params)
            )
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare(self) -> None:
        for name in _HOOK_REGISTRIES:
            self.__dict__.setdefault(name, OrderedDict())
        kind = type(self)
        if not getattr(kind.step, "hooked", False):
            kind.step = self.profile_hook_step(kind.step)  # type: ignore[method-assign]

    @staticmethod
    def _group_tensors_by_device_and_dtype(
        tensorlistlist: list[list[Tensor | None]], with_indices: bool = False
    ) -> dict[Any, Any]:
        """Splits parallel lists of tensors by the device and the dtype of the tensors in the first list."""
        return _group_tensors_by_device_and_dtype(tensorlistlist, with_indices)

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """Wraps a step: runs the hooks, and records for learning-rate schedules that the step happened."""

        @functools.wraps(func)
        def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
            self._opt_called = True
            if not (
                self._optimizer_step_pre_hooks
                or self._optimizer_step_post_hooks
                or _global_optimizer_pre_hooks
                or _global_optimizer_post_hooks
            ):
                return func(self, *args, **kwargs)
            # Hooks get the optimizer as their first argument.
            args = (self, *args)
            for hook in (*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
                given = hook(self, args, kwargs)
                if given is not None:
                    if not (isinstance(given, tuple) and len(given) == 2):
                        raise RuntimeError(
                            f"{func} must return None or a tuple of (new_args, new_kwargs), but got {given}."
                        )
                    args, kwargs = given
            result = func(*args, **kwargs)
            for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            return result

        step.hooked = True  # type: ignore[attr-defined]
        return step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Performs one step. ``closure``, if given, is called first and computes the loss."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of all parameters, or fills them with zeros."""
        for group in self.param_groups:
            _grads.clear(group["params"], set_to_none)

    # Groups.

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a parameter group. Options that it does not set have their defaults.

        Raises:
            TypeError: the group is not a dictionary, its parameters are a set, or one is not a tensor.
            ValueError: a parameter is not a leaf or belongs to another group, or only some parameters have names.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, torch.Tensor) else list(params)
        names = [param[0] for param in params if isinstance(param, tuple)]
        if names:
            if len(names) != len(params):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            params = [param for _, param in params]
            param_group["param_names"] = names
        param_group["params"] = params
        for param in params:
            if not isinstance(param, torch.Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + typename(param))
            if not (self.defaults.get("differentiable") or param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(params) != len(set(params)):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
            )
        if self.param_groups and ("param_names" in param_group) != ("param_names" in self.param_groups[0]):
            which = "with names" if "param_names" in param_group else "without names"
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {which} to the optimizer"
            )
        known = {param for group in self.param_groups for param in group["params"]}
        if not known.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    # State.

    def state_dict(self) -> dict[str, Any]:
        """The state by the index of the parameter, and the groups with the indices of their parameters."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups: list[dict[str, Any]] = []
        first = 0
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            # A parameter that occurs twice in a group gets its last index, as in torch.
            numbers |= {id(param): at for at, param in enumerate(group["params"], first) if id(param) not in numbers}
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            first += len(group["params"])
            groups.append(packed)
        state = {numbers[id(key)] if isinstance(key, torch.Tensor) else key: value for key, value in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            given = hook(self, result)
            if given is not None:
                result = given
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the result of `state_dict`. Tensors are converted to the dtypes and devices of the parameters.

        Raises:
            ValueError: the groups differ in number or size.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            given = hook(self, state_dict)
            if given is not None:
                state_dict = given
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(saved_groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(old["params"]) != len(new["params"]) for old, new in zip(saved_groups, self.param_groups)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )

        numbers = chain.from_iterable(group["params"] for group in saved_groups)
        owners = [(param, group) for group in self.param_groups for param in group["params"]]
        owner_of = dict(zip(numbers, owners))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owner_of:
                param, group = owner_of[key]
                state[param] = _cast(value, param, group)
            else:
                state[key] = value
        for saved, group in zip(saved_groups, self.param_groups):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()
        self.defaults.setdefault("differentiable", False)

    def _complete(self, **options: Any) -> None:
        """Adds options that older pickles do not have."""
        for group in self.param_groups:
            for name, value in options.items():
                group.setdefault(name, value)

    # Hooks.

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` before a step. If it returns a pair, this replaces both."""
        return _add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` after a step."""
        return _add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` before `state_dict` collects the state."""
        return _add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` after the state is collected. A result replaces it."""
        return _add(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` before a state is loaded. A result replaces it."""
        return _add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` after a state is loaded."""
        return _add(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for place, group in enumerate(self.param_groups):
            text += f"\nParameter Group {place}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"


def _cast(value: Any, param: Tensor, group: dict[str, Any], key: str | None = None) -> Any:
    """Converts a loaded value for its parameter. ``step`` keeps its dtype, and its device unless it is capturable."""
    if isinstance(value, torch.Tensor):
        if key == "step":
            on_device = group.get("capturable") or group.get("fused")
            return value.to(dtype=torch.float32, device=param.device) if on_device else value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {name: _cast(part, param, group, name) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(part, param, group) for part in value)
    return value


# Helpers for steps.


def loss_of(closure: Callable[[], Any] | None) -> Any:
    """Calls the closure of a step with gradients enabled and returns the loss."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def with_gradients(group: dict[str, Any], option: str) -> tuple[list[Tensor], list[Tensor]]:
    """The parameters of a group that have a gradient, and the gradients.

    Raises:
        KeyError: the group lacks this option, because a state without options was loaded. Without this check, steps
            without gradients would hide the mistake.
    """
    if option not in group:
        raise KeyError(option)
    params = []
    grads = []
    for param in group["params"]:
        grad = param.grad
        if grad is not None:
            params.append(param)
            grads.append(grad)
    return params, grads


def check_foreach(group: dict[str, Any], params: list[Tensor]) -> None:
    """Raises AssertionError if gradients should flow through a step that does not support it."""
    if params and group.get("foreach") and group.get("differentiable"):
        raise AssertionError("_foreach ops don't support autograd")


def as_number(option: Any, place: str) -> float:
    """An option that torch passes to an operator's argument for numbers: a number, or a tensor without dimensions.

    Raises:
        TypeError: it is a tensor of another shape. ``place`` names the operator and the argument.
    """
    if isinstance(option, torch.Tensor) and option.dim() > 0:
        raise TypeError(f"{place} must be Number, not Tensor\n  Give the optimizer a number: option.item().")
    return float(option)


def any_sparse(grads: list[Tensor]) -> bool:
    """Whether a gradient is a sparse tensor."""
    for grad in grads:
        if grad.is_sparse:
            return True
    return False


def any_handled(tensors: list[Tensor]) -> bool:
    """Whether a mode, or the class of a tensor without elements, handles operators, so that no kernel may make the step."""
    has_mode = _C._has_mode() and bool(load("rushlight._override_order").active_dispatch_modes())
    return has_mode or any(map(_C._is_wrapper, tensors))


def check_one_element(lr: Any) -> None:
    """Raises ValueError if a learning rate is a tensor that does not have one element."""
    if isinstance(lr, torch.Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def check_rate(lr: Any, foreach: bool | None = None, capturable: bool = True) -> None:
    """Raises ValueError unless a learning rate is a non-negative number or a tensor with one element."""
    if isinstance(lr, torch.Tensor):
        if foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
    check_one_element(lr)
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_options(**options: float) -> None:
    """Raises ValueError if an option is negative."""
    for name, value in options.items():
        if not 0.0 <= value:
            raise ValueError(f"Invalid {name} value: {value}")


def check_betas(betas: tuple[Any, Any]) -> None:
    """Raises ValueError unless both decay rates are at least 0 and less than 1."""
    for place in (0, 1):
        beta = betas[place]
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {place}: {beta}")


def of_each_device(params: list[Tensor], grads: list[Tensor]) -> Iterable[tuple[list[Tensor], list[Tensor]]]:
    """The parameters of each device with their gradients, for steps that are one call of a device."""
    first = params[0].device
    if all(param.device == first for param in params):
        return [(params, grads)]
    parts: dict[torch.device, tuple[list[Tensor], list[Tensor]]] = {}
    for param, grad in zip(params, grads):
        own_params, own_grads = parts.setdefault(param.device, ([], []))
        own_params.append(param)
        own_grads.append(grad)
    return parts.values()


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Raises RuntimeError for options that exclude each other."""
    if fused:
        if differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def check_fused_params(group: dict[str, Any], params: Iterable[Tensor]) -> None:
    """Raises RuntimeError if a group has ``fused`` set and parameters that do not support it."""
    for param in params if group["fused"] else ():
        if not param.is_floating_point():
            raise RuntimeError(
                "`fused=True` requires all the params to be floating point Tensors of supported devices: "
                "['mps', 'cuda', 'xpu', 'hpu', 'cpu', 'mtia', 'privateuseone'] "
                f"but {param.dtype} and {param.device.type}"
            )


def tensor_steps(optimizer: Optimizer) -> None:
    """Converts step counts, which are Python numbers in older checkpoints, to tensors."""
    for group in optimizer.param_groups:
        for param in group["params"]:
            own = optimizer.state.get(param, {})
            if own and not isinstance(own["step"], torch.Tensor):
                own["step"] = torch.tensor(float(own["step"]), dtype=step_dtype(group.get("fused")))


def at_places(like: Tensor, values: Tensor) -> Tensor:
    """A coalesced sparse tensor with the same indices and other values."""
    return torch.sparse_coo_tensor(like._indices(), values, like.shape, is_coalesced=True)


def step_dtype(fused: bool | None = None) -> torch.dtype:
    """The dtype of step counts."""
    if fused or torch.get_default_dtype() != torch.float64:
        return torch.float32
    return torch.float64


#: Names that only optimizers of libraries use.
_IN_CHOICES = (
    "ParamsT",
    "StateDict",
    "_default_to_fused_or_foreach",
    "_get_capturable_supported_devices",
    "_get_value",
    "_stack_if_compiling",
    "_to_scalar",
    "_use_grad_for_differentiable",
    "_view_as_real",
)


def __getattr__(name: str) -> Any:
    if name in _IN_CHOICES:
        return getattr(load("rushlight.optim._choices"), name)
    raise AttributeError(f"module 'torch.optim.optimizer' has no attribute {name!r}")
