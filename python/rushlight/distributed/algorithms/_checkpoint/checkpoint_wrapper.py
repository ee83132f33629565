"""Wrappers of modules that save the memory of activations, for models whose code stays as it is.

A wrapper is not seen in the names of parameters and of states, so that checkpoints with and without wrappers are the same.
"""

import functools
from abc import ABC, abstractmethod
from enum import Enum, auto

import rushlight as torch
from rushlight.autograd.graph import save_on_cpu
from rushlight.distributed.fsdp.wrap import _Policy, lambda_auto_wrap_policy, wrap_children
from rushlight.utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper",
    "CheckpointImpl",
    "CheckpointWrapper",
    "OffloadWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
    "offload_wrapper",
]

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


def __dir__():
    return __all__


class CheckpointImpl(Enum):
    """The two ways of `torch.utils.checkpoint.checkpoint`."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(torch.nn.Module, ABC):
    """What the wrappers have in common. Attributes and items are those of the module."""

    def __init__(self, mod):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._post_state_dict_hook)
        self.register_load_state_dict_pre_hook(self._pre_load_state_dict_hook)

    @abstractmethod
    def forward(self, *args, **kwargs):
        raise ValueError("Subclasses should implement forward().")

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key):
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args, **kwargs):
        """The parameters, under the names that they have without the wrapper."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter

    @staticmethod
    def _post_state_dict_hook(module, state_dict, prefix, *args):
        _rename(state_dict, f"{prefix}{_CHECKPOINT_PREFIX}", prefix)
        return state_dict

    @staticmethod
    def _pre_load_state_dict_hook(module, state_dict, prefix, *args):
        _rename(state_dict, prefix, f"{prefix}{_CHECKPOINT_PREFIX}")


def _rename(state_dict, old, new):
    """Changes the beginning of names in place."""
    for key in [key for key in state_dict if key.startswith(old)]:
        state_dict[new + key[len(old) :]] = state_dict.pop(key)


class OffloadWrapper(ActivationWrapper):
    """A module whose saved tensors are kept in pinned memory of the CPU until backward."""

    def forward(self, *args, **kwargs):
        with save_on_cpu(pin_memory=torch.cuda.is_available()):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """A module that is called again in backward, instead of saving tensors.

    Args:
        mod: the module.
        checkpoint_impl: the way of `torch.utils.checkpoint.checkpoint`.
        checkpoint_fn: the function to call in its place.
        checkpoint_fn_kwargs: more keywords for that function.
    """

    def __init__(self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            is_reentrant = checkpoint_impl == CheckpointImpl.REENTRANT
            checkpoint_fn = functools.partial(checkpoint, use_reentrant=is_reentrant)
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args, **kwargs):
        inner = self._checkpoint_wrapped_module
        if self.checkpoint_impl != CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(inner, *args, **kwargs)
        # The reentrant way takes positional arguments alone.
        names, count = tuple(kwargs), len(args)

        def call(*flat):
            return inner(*flat[:count], **dict(zip(names, flat[count:])))

        return self.checkpoint_fn(call, *args, *kwargs.values())


def offload_wrapper(module):
    """Wraps a module in an `OffloadWrapper`."""
    return OffloadWrapper(module)


def checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
    """Wraps a module in a `CheckpointWrapper`.

    >>> from rushlight.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    >>> block = checkpoint_wrapper(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    >>> list(block.state_dict())
    ['0.weight', '0.bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda _: True, auto_wrap_policy=None
):
    """Wraps modules of a model, in place; the model itself is not wrapped.

    Args:
        model: the model.
        checkpoint_wrapper_fn: wraps one module.
        check_fn: whether to wrap a module.
        auto_wrap_policy: a policy of `torch.distributed.fsdp.wrap`, which takes precedence over `check_fn`.
    """
    policy = auto_wrap_policy or functools.partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    if not isinstance(policy, _Policy) and not callable(policy):
        raise ValueError(f"Expected {policy} to be callable or be a pre-defined wrap policy")
    wrap_children(model, policy, checkpoint_wrapper_fn, set(), set(), {})
