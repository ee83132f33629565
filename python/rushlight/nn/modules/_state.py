"""Saving a module's state into a flat dictionary and loading it back."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import rushlight as torch
from rushlight._homes import at_home
from rushlight._warnings import warn

from ..parameter import Parameter, is_lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .module import Module

EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` returns: the names that were missing and those nobody expected."""

    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


# The class and the named tuple below it.
at_home(__package__ + ".module", *_IncompatibleKeys.__mro__[:2])


def save(module: Module, destination: dict[str, Any] | None, prefix: str, keep_vars: bool) -> dict[str, Any]:
    """The state of a module and its submodules under names that begin with ``prefix``."""
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()  # type: ignore[attr-defined]
    metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = metadata
    for hook in module._state_dict_pre_hooks.values():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in module._state_dict_hooks.values():
        given = hook(module, destination, prefix, metadata)
        if given is not None:
            # Only hooks registered by the private function may replace the dictionary.
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = given
    return destination


def save_own(module: Module, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    """A module's own parameters and persistent buffers, without its submodules."""
    for name, tensor in persistent(module).items():
        if tensor is not None:
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
    if overrides(module, "get_extra_state"):
        destination[prefix + EXTRA_STATE] = module.get_extra_state()


def persistent(module: Module) -> dict[str, Any]:
    """A module's own parameters and those buffers that belong to its state."""
    transient = module._non_persistent_buffers_set
    buffers = {name: tensor for name, tensor in module._buffers.items() if name not in transient}
    return {**module._parameters, **buffers}


def overrides(module: Module, method: str) -> bool:
    from .module import Module

    return getattr(type(module), method) is not getattr(Module, method)


def load(root: Module, state: Mapping[str, Any], strict: bool, assign: bool) -> _IncompatibleKeys:
    """Copies (or assigns) a saved state into a module and its submodules."""
    from collections.abc import Mapping

    if not isinstance(state, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state)}.")
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []
    versions = getattr(state, "_metadata", None)
    state = OrderedDict(state)
    if versions is not None:
        # Modules' own loading may look at it.
        state._metadata = versions  # type: ignore[attr-defined]

    def visit(module: Module, part: dict[str, Any], prefix: str) -> None:
        metadata = {} if versions is None else versions.get(prefix[:-1], {})
        if assign:
            metadata["assign_to_params_buffers"] = assign
        module._load_from_state_dict(part, prefix, metadata, True, missing, unexpected, errors)
        for name, child in module._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                visit(child, {key: value for key, value in part.items() if key.startswith(below)}, below)
        report = _IncompatibleKeys(missing, unexpected)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, report) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if incompatible_keys need to be modified, it should be done inplace."
                )

    visit(root, state, "")
    if strict:
        for title, names in (("Unexpected", unexpected), ("Missing", missing)):
            if names:
                quoted = ", ".join(f'"{name}"' for name in names)
                errors.insert(0, f"{title} key(s) in state_dict: {quoted}. ")
    if errors:
        raise RuntimeError(
            "Error(s) in loading state_dict for {}:\n\t{}".format(type(root).__name__, "\n\t".join(errors))
        )
    return _IncompatibleKeys(missing, unexpected)


def load_own(
    module: Module,
    state: dict[str, Any],
    prefix: str,
    metadata: dict[str, Any],
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    """Loads what belongs to one module, without its submodules; adds to the three lists what does not fit."""
    for hook in module._load_state_dict_pre_hooks.values():
        hook(state, prefix, metadata, strict, missing, unexpected, errors)

    own = persistent(module)
    assign = metadata.get("assign_to_params_buffers", False)
    for name, target in own.items():
        if target is None:
            continue
        key = prefix + name
        if key in state:
            _load_tensor(module, name, key, target, state[key], assign, errors)
        elif strict:
            missing.append(key)

    extra = prefix + EXTRA_STATE
    if overrides(module, "set_extra_state"):
        if extra in state:
            module.set_extra_state(state[extra])
        elif strict:
            missing.append(extra)
    elif strict and extra in state:
        unexpected.append(extra)

    if strict:
        # A slot that holds None takes nothing.
        there = {name for name, target in own.items() if target is not None}
        for key in state:
            if key.startswith(prefix) and key != extra:
                name, _, below = key[len(prefix) :].partition(".")
                if name not in (module._modules if below else there):
                    unexpected.append(key)


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
        setattr(module, name, value)
    except Exception as error:
        errors.append(
            f'While copying the parameter named "{key}", whose dimensions in the model are {target.size()} and whose '
            f"dimensions in the checkpoint are {value.size()}, an exception occurred : {error.args}."
        )
