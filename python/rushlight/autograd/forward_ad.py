"""Forward-mode differentiation with dual tensors, which carry a tangent.

Inside a level, operations on a dual tensor are recorded as for backward, and `unpack_dual` computes the tangent. Within
`no_grad` they are recorded for tangents only, and no gradient is propagated. As in torch, `detach` removes tangents.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import rushlight as torch
from rushlight import Tensor
from rushlight._modes import _Mode

from . import _forward_levels
from ._forward_levels import ForwardLevel
from ._tangents import check_size, differentiable, forward_recording

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


class _DualLevel(ForwardLevel):
    """A level whose points are dual tensors."""

    tangents: list[Tensor]

    def __init__(self) -> None:
        super().__init__(tangents=())
        #: Each dual tensor by its id, its version, and the tangent that it was made with.
        self.duals: dict[int, tuple[Tensor, int, Tensor]] = {}
        # Inference mode does not record, not even for tangents.
        self.mode = nullcontext() if torch.is_inference_mode_enabled() else forward_recording()
        self.mode.__enter__()

    def begin(self, tensor: Tensor, tangent: Tensor | None) -> Tensor:
        assert tangent is not None
        # A copy, so that later changes of the tangent do not affect results.
        dual = super().begin(tensor, tangent.clone())
        if tangent.stride() != tensor.stride():
            tangent = torch.empty_like(tensor).copy_(tangent)
        self.duals[id(dual)] = dual, dual._version, tangent
        return dual


_current: _DualLevel | None = None


def __getattr__(name: str) -> Any:
    # A private name of torch that libraries read: there is one level at a time.
    if name == "_current_level":
        return -1 if _current is None else 0
    raise AttributeError(f"module 'torch.autograd.forward_ad' has no attribute {name!r}")


def _tangent(tensor: Tensor, level: _DualLevel) -> Tensor | None:
    dual, version, given = level.duals.get(id(tensor), (None, 0, tensor))
    if dual is tensor and dual._version == version:
        return given
    with torch.enable_grad():
        push = level.push([tensor])
        tangent = None if push is None else push(*level.tangents)[0]
    if tangent is None:
        return None
    # Gradients flow through a tangent if they flow through the tensor or through a given tangent.
    with torch.set_grad_enabled(tensor.requires_grad or any(given.requires_grad for given in level.tangents)):
        return level.without_tangent(tangent)


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
    _current = _forward_levels.dual_level = _DualLevel()
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
    _current = _forward_levels.dual_level = None


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
    check_size(tangent, tensor)
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
    return _current.begin(tensor, tangent)


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
        return UnpackedDualTensor(_current.without_tangent(tensor), tangent)


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


def __dir__() -> list[str]:
    return __all__
