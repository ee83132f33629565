"""Forward-mode differentiation with dual tensors, which carry a tangent.

Inside a level, operations on a dual tensor are recorded as for backward, and `unpack_dual` computes the tangent. Within
`no_grad` they are recorded for tangents only, and no gradient is propagated. As in torch, `detach` removes tangents.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import rushlight as torch
from rushlight import _C, Tensor, autograd
from rushlight._modes import _Mode

from ._tangents import differentiable, forward_recording, pushforward, released, tangents_visible, tracked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns: the tensor without its tangent, and the tangent or None.

    >>> torch.autograd.forward_ad.UnpackedDualTensor(torch.tensor(1.0), None).tangent is None
    True
    """

    primal: Tensor
    tangent: Tensor | None


class _Level:
    """The dual tensors that were created in a level."""

    def __init__(self) -> None:
        self.places: list[Tensor] = []
        self.tangents: list[Tensor] = []
        # The graph refers to the level by this key, because the level itself would keep all points alive.
        self.key = object()
        self.recording = _C._is_recording()
        # Inference mode does not record, not even for tangents.
        self.mode = nullcontext() if torch.is_inference_mode_enabled() else forward_recording()
        self.mode.__enter__()


_current: _Level | None = None
#: The key of the level whose tangents are currently computed.
_asked: object = None


class _Unpacked(autograd.Function):
    """A view without the tangent of a level. Gradients and tangents of other levels are propagated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, key: object) -> Tensor:
        ctx.key = key
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None]:
        return None if ctx.key is _asked else grad, None


def _without_tangent(tensor: Tensor, level: _Level) -> Tensor:
    left = released(tensor, level.places, level.recording)
    with tangents_visible():
        kept = left.requires_grad
    return _Unpacked.apply(left, level.key) if kept else left


def _tangent(tensor: Tensor, level: _Level) -> Tensor | None:
    global _asked
    before, _asked = _asked, level.key
    try:
        with torch.enable_grad():
            (tangent,) = pushforward([tensor], level.places)(level.tangents)
    finally:
        _asked = before
    if tangent is None:
        return None
    # Gradients flow through a tangent if they flow through the tensor or through a given tangent.
    with torch.set_grad_enabled(tensor.requires_grad or any(given.requires_grad for given in level.tangents)):
        return _without_tangent(tangent, level)


def active() -> bool:
    """Whether a level is active."""
    return _current is not None


def enter_dual_level() -> int:
    """Begins a level, in which tensors can be dual. Returns its number. `dual_level` does this for a block.

    Raises:
        RuntimeError: a level is active already (`torch.func.jvp` can be nested).

    >>> import rushlight.autograd.forward_ad as fwAD
    >>> fwAD.enter_dual_level()
    0
    >>> fwAD.exit_dual_level()
    """
    global _current
    if _current is not None:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment. torch.func.jvp can be nested to any depth."
        )
    _current = _Level()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends the level and removes all tangents.

    Raises:
        RuntimeError: no level is active, or ``level`` is not its number.

    >>> import rushlight.autograd.forward_ad as fwAD
    >>> level = fwAD.enter_dual_level()
    >>> fwAD.exit_dual_level(level=level)
    """
    global _current
    if _current is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    _current.mode.__exit__(None, None, None)
    _current = None


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of a tensor that carries a tangent of the same shape and dtype until the level ends. In inference mode it
    carries no tangent.

    Raises:
        RuntimeError: no level is active, the shapes differ, or an argument already has a tangent.
        ValueError: an argument is neither floating point nor complex.

    >>> import rushlight.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x**2).tangent
    tensor(6.)
    """
    if _current is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for what, given in (("primal", tensor), ("tangent", tangent)):
        if not differentiable(given):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {given.dtype}")
    if tangent.shape != tensor.shape:
        raise RuntimeError(
            f"Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if torch.is_inference_mode_enabled():
        return tensor.view_as(tensor)
    if _tangent(tensor, _current) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported."
        )
    if _tangent(tangent, _current) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level0 is not supported."
        )
    place, dual = tracked(tensor, forward=True)
    _current.places.append(place)
    # A copy, so that later changes of the tangent do not affect results.
    _current.tangents.append(tangent.clone())
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor without its tangent, and its tangent. None outside of a level or if it depends on no dual tensor.

    >>> import rushlight.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """
    if _current is None:
        return UnpackedDualTensor(tensor, None)
    tangent = _tangent(tensor, _current)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    with torch.set_grad_enabled(tensor.requires_grad):
        return UnpackedDualTensor(_without_tangent(tensor, _current), tangent)


class dual_level(_Mode):
    """A context manager and decorator inside which tensors can be dual.

    >>> import rushlight.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
    ...     y = fwAD.unpack_dual(x * x)
    >>> y.primal, y.tangent
    (tensor([1., 4.]), tensor([2., 0.]))
    """

    def __enter__(self) -> int:  # type: ignore[override]
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()


class _ForwardContext:
    """The context for `Function.jvp`. Its saved tensors are those that `forward` saved for forward mode, if any."""

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        kept = getattr(ctx, "saved_for_forward", None)
        if kept is not None:
            self.saved_tensors = kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def through_function(kind: Any, ctx: Any, args: tuple[Any, ...], result: Any) -> Any:
    """The results of a `Function` with a custom ``jvp``, with the tangents that it returns."""
    tangents = [unpack_dual(arg).tangent if isinstance(arg, Tensor) else None for arg in args]
    if all(tangent is None for tangent in tangents):
        return result
    given = [
        torch.zeros_like(arg) if tangent is None and differentiable(arg) else tangent
        for arg, tangent in zip(args, tangents)
    ]
    found = kind.jvp(_ForwardContext(ctx), *given)
    alone = not isinstance(result, tuple)
    results, found = ((result,), (found,)) if alone else (result, found)
    level = _current
    assert level is not None
    dual = tuple(
        out if tangent is None else make_dual(_without_tangent(out, level), _without_tangent(tangent, level))
        for out, tangent in zip(results, found)
    )
    return dual[0] if alone else dual


def __dir__() -> list[str]:
    return __all__
