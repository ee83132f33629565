"""Modules as functions of their parameters, as `functorch` had them. `torch.func.functional_call` is the newer form."""

from __future__ import annotations

from copy import deepcopy

import rushlight as torch
from rushlight import nn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor


class FunctionalModuleWithBuffers(nn.Module):
    """A module without parameters and buffers of its own: it takes them as its first two arguments."""

    def __init__(self, stateless_model: nn.Module, param_names: Sequence[str], buffer_names: Sequence[str]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(param_names)
        self.buffer_names = tuple(buffer_names)

    def forward(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers)))
        return torch.func.functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(nn.Module):
    """A module without parameters of its own: it takes them as its first argument."""

    def __init__(self, stateless_model: nn.Module, param_names: Sequence[str]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(param_names)

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        return torch.func.functional_call(self.stateless_model, dict(zip(self.param_names, params)), args, kwargs)


def make_functional(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """A module without buffers as a function of its parameters, and the parameters.

    Raises:
        ValueError: the module has buffers.
    """
    if any(True for _ in model.buffers()):
        raise ValueError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    names, params = _state(model.named_parameters(), disable_autograd_tracking)
    return FunctionalModule(_bare(model), names), params


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A module as a function of its parameters and buffers, and both."""
    names, params = _state(model.named_parameters(), disable_autograd_tracking)
    buffers = dict(model.named_buffers())
    return FunctionalModuleWithBuffers(_bare(model), names, tuple(buffers)), params, tuple(buffers.values())


def combine_state_for_ensemble(
    models: Sequence[nn.Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Modules of one class as one function for `vmap`, and their stacked parameters and buffers.

    Raises:
        RuntimeError: there is no module, or the modules differ in class or in mode.
    """
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    functions, params, buffers = zip(*map(make_functional_with_buffers, models))
    stacked = tuple(torch.stack(parts).detach().requires_grad_() for parts in zip(*params))
    return functions[0], stacked, tuple(torch.stack(parts) for parts in zip(*buffers))


def _state(named: Any, detached: bool) -> tuple[tuple[str, ...], tuple[Tensor, ...]]:
    found = dict(named)
    values = [value.detach() if detached else value for value in found.values()]
    return tuple(found), tuple(values)


def _bare(model: nn.Module) -> nn.Module:
    """A copy of the module whose tensors have no memory."""
    return deepcopy(model).to("meta")
