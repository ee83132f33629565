"""Forward derivatives, computed from backward derivatives.

The gradient of ``sum(u * y)`` is linear in ``u``. The derivative of this gradient with respect to ``u``, in the
direction of a tangent of the input, is the tangent of ``y``. Therefore everything that is twice differentiable backward
has a forward derivative, and operators need no second formula (`rust/decisions/0004-forward.md`). A `Function` may have one
of its own (`_own_tangents`).
"""

from __future__ import annotations

import rushlight as torch
from rushlight import _C, autograd
from rushlight._modes import _Mode
from rushlight.autograd._graph_leaves import leaves_of
from rushlight.autograd._vmap_levels import lifted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from rushlight import Tensor


def differentiable(tensor: Any) -> bool:
    """Whether a value can have a derivative."""
    return isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.is_complex())


class _Alias(autograd.Function):
    """A view of the whole result. In contrast to a leaf, it can be changed in place."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class forward_recording(_Mode):
    """Records operations for tangents inside the block, even if gradients are switched off and in inference mode."""

    __slots__ = ("_inference",)

    def __enter__(self) -> None:
        self._inference = _C._set_inference_enabled(False)
        self._before = _C._set_tangents_enabled(True)

    def __exit__(self, *exception: object) -> None:
        _C._set_tangents_enabled(self._before)
        _C._set_inference_enabled(self._inference)


class transforming(_Mode):
    """Inside the block, the function of a transform runs. It must not change tensors from outside in place."""

    __slots__ = ("_running",)

    def __enter__(self) -> None:
        self._running = _C._set_transforms(_C._transforms() + 1)

    def __exit__(self, *exception: object) -> None:
        _C._set_transforms(self._running)


class tangents_visible(_Mode):
    """Inside the block, operations that were recorded only for tangents are visible. Elsewhere they are hidden."""

    __slots__ = ("_mode",)
    _mode: bool

    def __init__(self, mode: bool = True) -> None:
        self._mode = mode

    def __enter__(self) -> None:
        self._before = _C._set_tangents_visible(self._mode)

    def __exit__(self, *exception: object) -> None:
        _C._set_tangents_visible(self._before)


def tracked(tensor: Tensor, forward: bool = False) -> tuple[Tensor, Tensor]:
    """The point to differentiate at, and the tensor to compute with. Both share the tensor's memory.

    The point is part of the tensor's graph if there is one, and a new leaf otherwise. ``forward`` means that only
    tangents begin there.
    """
    tensor = _savable(tensor)
    if _C._vmap_levels():
        # Each sample needs its own point.
        tensor = lifted(tensor)
    with tangents_visible():
        # Not a view: a change of the tensor's memory would give a view another history, of which the graph knows nothing.
        point = _C._without_base(tensor.view_as(tensor)) if tensor.requires_grad else None
        if point is None or _is_dead_end(point.grad_fn):
            point = _C._tangent_leaf(tensor) if forward else _C._requiring_grad(tensor.detach())
    # In reverse mode a new leaf is not changed in point, as in torch.
    own = point if point.is_leaf and not forward else _Alias.apply(point)
    _C._enter_transform(own)
    return point, own


def _savable(tensor: Tensor) -> Tensor:
    """The tensor, or a copy if it was created in inference mode and could not be saved for backward."""
    return tensor.clone() if tensor.is_inference() and not torch.is_inference_mode_enabled() else tensor


def _is_dead_end(node: Any) -> bool:
    """Whether it is a view that was created without recording, of a tensor that requires gradients."""
    return node is not None and all(following is None for following, _ in node.next_functions)


def released(tensor: Any, inputs: Iterable[Tensor], keep: bool) -> Any:
    """Detaches a result from a graph that only leads to points of `tracked`. Other results are unchanged."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    with tangents_visible():
        if not tensor.requires_grad:
            return tensor
    own = {id(leaf) for leaf in inputs if leaf.is_leaf}
    # Recordings for tangents are kept for callers outside that need tangents.
    with tangents_visible(_C._are_tangents_enabled()):
        is_kept = keep and tensor.requires_grad and any(id(leaf) not in own for leaf in leaves_of([tensor]))
        return tensor if is_kept else tensor.detach()


def pushforward(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor]
) -> tuple[Callable[[Sequence[Tensor]], list[Tensor | None]], list[int]] | None:
    """The derivative of ``outputs`` as a function of the inputs' tangents, and the numbers of the inputs on which it depends. None
    for outputs that depend on no input, and instead of both if no output depends on any."""
    weights: list[Tensor | None] = []
    with tangents_visible():
        for output in outputs:
            known = differentiable(output) and output.requires_grad
            weights.append(_C._requiring_grad(torch.zeros_like(output.detach())) if known else None)
    pairs = [(output, weight) for output, weight in zip(outputs, weights) if weight is not None]
    back: Sequence[Tensor | None] = [None] * len(inputs)
    if pairs and inputs:
        used, starts = zip(*pairs)
        with tangents_visible():
            back = autograd.grad(used, list(inputs), starts, create_graph=True, allow_unused=True)

    reached = [number for number, g in enumerate(back) if g is not None]
    if not reached:
        return None

    def along(tangents: Sequence[Tensor]) -> list[Tensor | None]:
        with tangents_visible():
            known = [(g, t) for g, t in zip(back, tangents) if g is not None]
            through = [(g, _savable(t)) for g, t in known if g.requires_grad]
            units = [weight for _, weight in pairs]
            found = iter([None] * len(units))
            if through:
                gradients, seeds = zip(*through)
                found = iter(autograd.grad(gradients, units, seeds, create_graph=True, allow_unused=True))
            # The gradients of an output that does not change with its inputs do not depend on its weight.
            return [
                None if weight is None else torch.zeros_like(weight.detach()) if tangent is None else tangent
                for weight, tangent in ((weight, weight if weight is None else next(found)) for weight in weights)
            ]

    return along, reached


def check_size(tangent: Tensor, tensor: Tensor) -> None:
    """Raises RuntimeError unless a tangent has the shape of its tensor."""
    if tangent.shape != tensor.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )


def basis(like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The unit vectors of a tensor."""
    count = like.numel()
    return torch.eye(count, dtype=dtype or like.dtype, device=like.device).view(count, *like.shape)
