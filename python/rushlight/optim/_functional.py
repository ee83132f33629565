"""One step of an optimizer as a function of lists: of parameters, of their gradients, and of each part of the states."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor


def step_lists(
    kind: Any, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: dict[str, Any]
) -> None:
    """Steps each parameter once with the options of a group. Tensors that the step replaces are replaced in the lists.

    ``states`` has a list for each part of the state. An empty list stands for a part that is not used.
    """
    if not all(isinstance(step, torch.Tensor) for step in states.get("step", ())):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    owns: list[dict[str, Any]] = []
    for place in range(len(params)):
        owns.append({name: part[place] for name, part in states.items() if part and part[place] is not None})
    kind._step_states({"differentiable": False, "maximize": False, **group}, params, grads, owns)
    for place, own in enumerate(owns):
        for name, value in own.items():
            if states[name]:
                states[name][place] = value


def skipped(fused: bool | None, grad_scale: Tensor | None, found_inf: Tensor | None) -> bool:
    """Whether a fused step is not made, because a gradient is infinite."""
    if not fused and (grad_scale is not None or found_inf is not None):
        raise AssertionError("Expected grad_scale and found_inf to be None")
    return found_inf is not None and bool(found_inf)


def unscaled(grads: Sequence[Tensor], grad_scale: Tensor | None) -> list[Tensor]:
    """The gradients of the loss, from those of the scaled loss."""
    return list(grads) if grad_scale is None else [grad / grad_scale for grad in grads]
