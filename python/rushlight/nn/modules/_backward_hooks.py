"""Functions ("gates") in the graph that give a module's full backward hooks its gradients.

A gate is the identity in the forward pass. In backward, the gradients of all its tensors pass through a Python
function.
"""

from __future__ import annotations

import rushlight as torch
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any


class BackwardHookFunction(torch.autograd.Function):
    """The identity. In backward the tuple of gradients passes through a function."""

    @staticmethod
    def forward(ctx: Any, gate: Callable[[tuple[Any, ...]], tuple[Any, ...]], *tensors: Any) -> tuple[Any, ...]:
        ctx.gate = gate
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[tensor for tensor in tensors if not tensor.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return None, *ctx.gate(grads)


class BackwardHook:
    """The backward hooks of one call of a module: a gate on its inputs and one on its outputs.

    The gate on the outputs runs first in backward: it calls the pre-hooks and stores the gradients of the outputs (None
    for outputs without one). The gate on the inputs then calls the hooks with both. Gradients have the positions of the
    arguments; arguments that are not tensors have None. After a gate, a tensor without a gradient has a gradient of
    zeros.

    >>> hook = torch.utils.hooks.BackwardHook(None, [lambda module, grads, outer: print(grads, outer)], [])
    >>> (x,) = hook.setup_input_hook((torch.ones(1, requires_grad=True),))
    >>> hook.setup_output_hook(x * 2).backward()
    (tensor([2.]),) (tensor([1.]),)
    """

    def __init__(self, module: Any, user_hooks: Iterable[Callable], user_pre_hooks: Iterable[Callable]) -> None:
        self.module = module
        self.user_hooks = list(user_hooks)
        self.user_pre_hooks = list(user_pre_hooks)
        self.grad_outputs: tuple[Any, ...] | None = None
        self.inputs = 0
        self.inputs_gated = False

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.inputs = len(args)
        args, self.inputs_gated = _gated(args, self._inputs_reached, whole_before=True)
        return args

    def setup_output_hook(self, result: Any) -> Any:
        alone = not isinstance(result, tuple)
        outputs, _ = _gated((result,) if alone else result, self._outputs_reached, whole_before=False)
        return outputs[0] if alone else outputs

    def _outputs_reached(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.user_pre_hooks:
            given = hook(self.module, grads)
            if given is not None:
                grads = _replacement(given, grads, "Backward pre hook", "grad_output")
        self.grad_outputs = grads
        if self.user_hooks and not self.inputs_gated:
            warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                "inputs require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.register_full_backward_hook for more details.",
            )
            nothing = (None,) * self.inputs
            for hook in self.user_hooks:
                given = hook(self.module, nothing, grads)
                if given is not None and not (isinstance(given, tuple) and all(grad is None for grad in given)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or "
                        "None for all gradients."
                    )
            self.grad_outputs = None
        return grads

    def _inputs_reached(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        # This backward pass did not go through the outputs, so that there are no gradients of outputs.
        if self.grad_outputs is None:
            return grads
        for hook in self.user_hooks:
            given = hook(self.module, grads, self.grad_outputs)
            if given is not None:
                grads = _replacement(given, grads, "Backward hook", "grad_input")
        self.grad_outputs = None
        return grads


def _replacement(given: Any, grads: Sequence[Any], who: str, what: str) -> tuple[Any, ...]:
    if len(given) != len(grads):
        raise RuntimeError(f"{who} returned an invalid number of {what}, got {len(given)}, but expected {len(grads)}")
    return tuple(given)


def _gated(values: tuple[Any, ...], reached: Callable, whole_before: bool) -> tuple[tuple[Any, ...], bool]:
    """Passes the tensors among the values through a gate. Returns False if none requires a gradient.

    Missing gradients are replaced by zeros before ``reached`` is called, or only after it.
    """
    places = [place for place, value in enumerate(values) if isinstance(value, torch.Tensor)]
    tensors = [values[place] for place in places]
    if not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)):
        return values, False
    kinds = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]

    def whole(grads: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(
            torch.zeros(shape, dtype=dtype, device=device) if grad is None else grad
            for grad, (shape, dtype, device) in zip(grads, kinds)
        )

    def gate(grads: tuple[Any, ...]) -> tuple[Any, ...]:
        grads = whole(grads) if whole_before else grads
        spread: list[Any] = [None] * len(values)
        for place, grad in zip(places, grads):
            spread[place] = grad
        spread = reached(tuple(spread))
        for place, grad in zip(places, grads):
            given = spread[place]
            if given is None:
                continue
            if not isinstance(given, torch.Tensor):
                raise TypeError(f"expected Variable, but hook returned '{type(given).__name__}'")
            if grad is None:
                continue
            if given.dtype != grad.dtype or given.device != grad.device:
                raise RuntimeError(f"hook 'hook' has changed the type of value (was {grad.type()} got {given.type()})")
            if given.shape != grad.shape:
                raise RuntimeError("hook 'hook' has changed the size of value")
        passed = tuple(spread[place] for place in places)
        return passed if whole_before else whole(passed)

    passed = list(values)
    for place, tensor in zip(places, BackwardHookFunction.apply(gate, *tensors)):
        passed[place] = tensor
    # Named tuples keep their type.
    return (type(values)(*passed) if hasattr(values, "_fields") else tuple(passed)), True
