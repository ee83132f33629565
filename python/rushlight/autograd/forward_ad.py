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
    from collections.abc import Callable
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
        #: Each dual tensor by its id, its version, and the tangent that it was made with.
        self.duals: dict[int, tuple[Tensor, int, Tensor]] = {}
        # The graph refers to the level by this key, because the level itself would keep all points alive.
        self.key = object()
        self.recording = _C._is_recording()
        # Inference mode does not record, not even for tangents.
        self.mode = nullcontext() if torch.is_inference_mode_enabled() else forward_recording()
        self.mode.__enter__()


_current: _Level | None = None
#: The key of the level whose tangents are currently computed.
_asked: object = None


def __getattr__(name: str) -> Any:
    # A private name of torch that libraries read: there is one level at a time.
    if name == "_current_level":
        return -1 if _current is None else 0
    raise AttributeError(f"module 'torch.autograd.forward_ad' has no attribute {name!r}")


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
    dual, version, given = level.duals.get(id(tensor), (None, 0, tensor))
    if dual is tensor and dual._version == version:
        return given
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
    if tangent.stride() != tensor.stride():
        tangent = torch.empty_like(tensor).copy_(tangent)
    _current.duals[id(dual)] = dual, dual._version, tangent
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
    """The context for `Function.jvp`. Its saved tensors are those that `forward` saved for forward mode."""

    def __init__(self, ctx: Any) -> None:
        self.__dict__.update(_ctx=ctx, saved_tensors=getattr(ctx, "saved_for_forward", ()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._ctx, name)


def through_function(kind: Any, ctx: Any, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
    """The results of ``run``, which calls a `Function` with a custom ``jvp``, with the tangents that ``jvp`` returns."""
    # Before the call, which may change its arguments in place.
    tangents = [unpack_dual(arg).tangent if isinstance(arg, Tensor) else None for arg in args]
    result = run()
    if all(tangent is None for tangent in tangents):
        return result
    # Copies, because `jvp` may change them in place.
    given = [
        tangent.clone() if tangent is not None else torch.zeros_like(arg) if differentiable(arg) else None
        for arg, tangent in zip(args, tangents)
    ]
    found = kind.jvp(_ForwardContext(ctx), *given)
    results = result if isinstance(result, tuple) else (result,)
    found = found if isinstance(found, tuple) else (found,)
    if len(found) != len(results):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(results)} but got {len(found)})"
        )
    dirty = ctx.__dict__.get("_marked_dirty", ())
    for place, (out, tangent) in enumerate(zip(results, found)):
        if tangent is not None and not isinstance(tangent, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {place}.")
        if isinstance(out, Tensor) and tangent is not None:
            _check_tangent(place, out, tangent, args, given, dirty)
    duals = tuple(
        _with_tangent(out, tangent, any(out is one for one in dirty)) if isinstance(out, Tensor) else out
        for out, tangent in zip(results, found)
    )
    return duals if isinstance(result, tuple) else duals[0]


def _check_tangent(
    place: int,
    out: Tensor,
    tangent: Tensor,
    args: tuple[Any, ...],
    given: list[Tensor | None],
    dirty: tuple[Tensor, ...],
) -> None:
    """Checks that a tangent was made as its output was: in place, or as a view."""
    with tangents_visible():
        if not out.requires_grad:
            raise RuntimeError(
                f"Function's jvp returned a gradient at position {place}, but  the corresponding forward output is not "
                "a differentiable Tensor.You should return None at that position instead."
            )
    if any(out is one for one in dirty):
        if all(tangent is not one for arg, one in zip(args, given) if arg is out):
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
            )
        return
    if any(isinstance(arg, Tensor) and _shares(out, arg) for arg in args):
        if not tangent._is_view():
            raise RuntimeError(
                "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
            )
        if all(one is None or not _shares(tangent, one) for one in given):
            raise RuntimeError(
                "A custom Function is returning a view but the jvp is not returning a view of the given grad input."
            )


def _shares(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same storage."""
    address = tensor.untyped_storage().data_ptr()
    return address != 0 and address == other.untyped_storage().data_ptr()


def _with_tangent(out: Tensor, tangent: Tensor | None, is_dirty: bool) -> Tensor:
    level = _current
    if tangent is None or level is None:
        return out
    dual = make_dual(_without_tangent(out, level), _without_tangent(tangent, level))
    if not is_dirty or out.requires_grad:
        return dual
    # The argument that was changed is the result, so that it has the tangent from now on.
    out.detach_()
    return out.copy_(dual)


def __dir__() -> list[str]:
    return __all__
