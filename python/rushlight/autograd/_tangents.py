"""Derivatives forward, out of those backward.

The gradient of ``sum(u * y)`` is linear in ``u``; its own gradient with respect to ``u``, weighed by a tangent of the input,
is the tangent of ``y``. So whatever has a derivative that can itself be differentiated has a forward derivative, and no
operator needs a second formula (`rust/decisions/0004-forward.md`).
"""

from __future__ import annotations

import rushlight as torch
from rushlight import _C, autograd
from rushlight._modes import _Mode
from rushlight.autograd._maps import lifted, mapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from rushlight import Tensor


def differentiable(tensor: Any) -> bool:
    """Whether a value can have a derivative."""
    return isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.is_complex())


class _Alias(autograd.Function):
    """The same memory as a result, which in contrast to a leaf may be changed in place."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class recorded(_Mode):
    """What runs inside is recorded for tangents, also where gradients are switched off and in inference mode."""

    __slots__ = ("_inference",)

    def __enter__(self) -> None:
        self._inference = _C._set_inference_enabled(False)
        self._before = _C._set_tangents_enabled(True)

    def __exit__(self, *exception: object) -> None:
        _C._set_tangents_enabled(self._before)
        _C._set_inference_enabled(self._inference)


class shown(_Mode):
    """Inside, what was recorded for tangents alone is seen by walks and by who asks for it; elsewhere it is as if not there."""

    __slots__ = ("_mode",)
    _mode: bool

    def __init__(self, mode: bool = True) -> None:
        self._mode = mode

    def __enter__(self) -> None:
        self._before = _C._set_tangents_shown(self._mode)

    def __exit__(self, *exception: object) -> None:
        _C._set_tangents_shown(self._before)


def watched(tensor: Tensor, forward: bool = False) -> tuple[Tensor, Tensor]:
    """A place to differentiate at, and what to compute with: both have the tensor's memory.

    The place is part of the graph where there is one, and a leaf of its own where there is none; ``forward`` says that only
    tangents begin there.
    """
    tensor = _savable(tensor)
    if _C._vmap_levels():
        # Each sample has a place of its own.
        tensor = lifted(tensor)
    with shown():
        place = tensor.view_as(tensor) if tensor.requires_grad else None
        if place is None or _leads_nowhere(place.grad_fn):
            place = _C._tangent_leaf(tensor) if forward else tensor.detach().requires_grad_()
    return place, _Alias.apply(place)


def _savable(tensor: Tensor) -> Tensor:
    """The tensor, or its copy where it was made in inference mode and could not be kept for a walk back."""
    return tensor.clone() if tensor.is_inference() and not torch.is_inference_mode_enabled() else tensor


def _leads_nowhere(node: Any) -> bool:
    """Of a view that was made where gradients were off, of a tensor that requires them."""
    return node is not None and all(following is None for following, _ in node.next_functions)


def released(tensor: Any, inputs: Iterable[Tensor], keep: bool) -> Any:
    """A result without the graph that only leads to places that `watched` made; as it is where others want gradients."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    with shown():
        if not tensor.requires_grad:
            return tensor
    own = {id(leaf) for leaf in inputs if leaf.is_leaf}
    # What serves tangents alone is kept for those who ask for tangents outside.
    with shown(_C._are_tangents_enabled()):
        return tensor if keep and tensor.requires_grad and _reaches_another_leaf(tensor, own) else tensor.detach()


def _reaches_another_leaf(tensor: Tensor, own: set[int]) -> bool:
    if tensor.grad_fn is None:
        return id(tensor) not in own
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in own:
            return True
        waiting += [following for following, _ in node.next_functions if following is not None]
    return False


def pushforward(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor]
) -> Callable[[Sequence[Tensor]], list[Tensor | None]]:
    """The derivative of ``outputs`` as a function of the inputs' tangents; None for an output that depends on no input."""
    weights: list[Tensor | None] = []
    with shown():
        for output in outputs:
            known = differentiable(output) and output.requires_grad
            weights.append(torch.zeros_like(output.detach()).requires_grad_() if known else None)
    pairs = [(output, weight) for output, weight in zip(outputs, weights) if weight is not None]
    back: Sequence[Tensor | None] = [None] * len(inputs)
    if pairs and inputs:
        used, starts = zip(*pairs)
        with shown():
            back = autograd.grad(used, list(inputs), starts, create_graph=True, allow_unused=True)

    def along(tangents: Sequence[Tensor]) -> list[Tensor | None]:
        with shown():
            through = [(g, t) for g, t in zip(back, tangents) if g is not None and g.requires_grad]
            if not through:
                return [None] * len(outputs)
            gradients, seeds = zip(*((g, _savable(t)) for g, t in through))
            units = [weight for _, weight in pairs]
            found = iter(autograd.grad(gradients, units, seeds, create_graph=True, allow_unused=True))
            return [None if weight is None else next(found) for weight in weights]

    return along


def basis(like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """For each element of a tensor the direction that moves it alone: a one there and zeros elsewhere."""
    count = like.numel()
    return torch.eye(count, dtype=dtype or like.dtype, device=like.device).view(count, *like.shape)


def jacobian_by_columns(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], chunk_size: int | None = None
) -> list[list[Tensor]]:
    """The derivatives of each output by each input, from the tangents of every element of the inputs; of so many at once."""
    push = pushforward(outputs, inputs)
    matrices: list[list[Tensor]] = [[] for _ in outputs]
    for place, x in enumerate(inputs):

        def along(unit: Tensor, place: int = place) -> list[Tensor]:
            tangents = [unit if other == place else torch.zeros_like(y) for other, y in enumerate(inputs)]
            return [torch.zeros_like(y) if t is None else t for y, t in zip(outputs, push(tangents))]

        for matrix, output, columns in zip(matrices, outputs, mapped(along, basis(x.detach()), chunk_size)):
            whole = columns.reshape((*x.shape, *output.shape))
            order = [*range(x.dim(), whole.dim()), *range(x.dim())]
            matrix.append(whole.permute(order))
    return matrices
