"""The forward derivative of a `Function` that has a ``jvp``, in the transforms of `torch.func`.

These compute tangents by running backward twice (`_tangents`). Then the gradients of such a function must come from its ``jvp``
and not from its ``backward``, which may be missing. They do: ``jvp`` is linear, and its gradient is the backward derivative
that fits it.
"""

from __future__ import annotations

import threading

import rushlight as torch
from rushlight import autograd
from rushlight._modes import _Mode
from rushlight.autograd._maps import lifted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor


class _State(threading.local):
    pushing = False


_state = _State()


class pushing(_Mode):
    """Inside the block, backward runs to find tangents."""

    __slots__ = ("_mode",)
    _mode: bool

    def __init__(self, mode: bool = True) -> None:
        self._mode = mode

    def __enter__(self) -> None:
        self._before, _state.pushing = _state.pushing, self._mode

    def __exit__(self, *exception: object) -> None:
        _state.pushing = self._before


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


def own_tangents(kind: Any, ctx: Any, tangents: Sequence[Tensor | None], count: int) -> tuple[Tensor | None, ...]:
    """The tangents of ``count`` results that the ``jvp`` of a `Function` returns.

    Raises:
        RuntimeError: it returns another number of them, or something else.
    """
    found = kind.jvp(_ForwardContext(ctx), *tangents)
    found = found if isinstance(found, tuple) else (found,)
    if len(found) != count:
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {count} but got {len(found)})"
        )
    for place, tangent in enumerate(found):
        if tangent is not None and not isinstance(tangent, torch.Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {place}.")
    return found


def with_own_jvp(kind: Any) -> Any:
    """The `Function` with tangents by its ``jvp``. Gradients are those of its ``backward`` as before."""
    made = vars(kind).get("_with_own_jvp")
    if made is not None:
        return made

    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        return _transposed(kind, ctx, gradients) if _state.pushing else kind.backward(ctx, *gradients)

    # `vjp` is another name for `backward`.
    either = staticmethod(backward)
    made = type(kind.__name__, (kind,), {"backward": either, "vjp": either, "__module__": kind.__module__})
    # The class keeps it, so that both die together.
    kind._with_own_jvp = made
    return made


def remember_forms(ctx: Any, args: Sequence[Any]) -> None:
    """Keeps in the context what tangents of the arguments look like. The arguments themselves would use memory."""
    ctx._forms = [
        (x.shape, x.dtype, x.device)
        if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())
        else None
        for x in args
    ]


def _transposed(kind: Any, ctx: Any, gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """The gradients of the arguments by the ``jvp``: as it is linear, its derivative at ones holds everywhere. Zeros would not
    do, for which a ``jvp`` may return early, or divide by their norm."""
    starts = [
        None if form is None else lifted(torch.ones(form[0], dtype=form[1], device=form[2])).detach().requires_grad_()
        for form in ctx._forms
    ]
    with torch.enable_grad(), pushing(False):
        # Copies, because `jvp` may change them in place.
        given = [None if start is None else start.clone() for start in starts]
        found = own_tangents(kind, ctx, given, len(gradients))
        pairs = [(tangent, g) for tangent, g in zip(found, gradients) if tangent is not None and g is not None]
        if not all(tangent.requires_grad for tangent, _ in pairs):
            _check_zero(kind, ctx, starts, found)
        pairs = [(tangent, g) for tangent, g in pairs if tangent.requires_grad]
        if not pairs:
            return (None,) * len(starts)
        outputs, weights = zip(*pairs)
        wanted = [start for start in starts if start is not None]
        values = iter(autograd.grad(outputs, wanted, weights, create_graph=True, allow_unused=True))
    return tuple(None if start is None else next(values) for start in starts)


def _check_zero(kind: Any, ctx: Any, starts: Sequence[Tensor | None], recorded: Sequence[Tensor | None]) -> None:
    """Raises an error for a tangent that depends on others in a way that was not recorded: it would become zero."""
    with torch.no_grad():
        ones = [None if start is None else torch.ones_like(start) for start in starts]
        found = own_tangents(kind, ctx, ones, len(recorded))
    for tangent, own in zip(found, recorded):
        if tangent is not None and own is not None and not own.requires_grad and tangent.any():
            raise NotImplementedError(
                f"{kind.__name__}.jvp computes a tangent outside of recorded operators, such as with NumPy\n"
                "  torch.func needs the derivative of jvp. torch.autograd.forward_ad calls it alone."
            )


def __dir__() -> list[str]:
    return []
