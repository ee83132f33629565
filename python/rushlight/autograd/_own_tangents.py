"""The forward derivative of a `Function` that has a ``jvp``, with dual tensors and in the transforms of `torch.func`.

Its ``jvp`` is called with the tangents of the arguments. Each result becomes a point at which tangents begin (`_forward_levels`).
"""

from __future__ import annotations

from functools import partial

import rushlight as torch
from rushlight import _C

from . import _forward_levels
from ._forward_levels import active_levels as active_levels
from ._forward_levels import only
from ._tangents import check_size, differentiable, tangents_visible
from ._vmap_levels import lifted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor

    from ._forward_levels import ForwardLevel


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


class _Call:
    """A call of a `Function` at one level, on its way from the tangents of its arguments to those of its results."""

    def __init__(self, kind: Any, level: ForwardLevel, args: Sequence[Any]) -> None:
        self.kind, self.level, self.args = kind, level, args
        self.vmaps = level.inner_vmaps()
        self.moving = [place for place, arg in enumerate(args) if differentiable(arg)]
        moved = [self.shown(args[place]) for place in self.moving]
        # One by one, because an argument that depends on no point has no tangent, even if it requires a gradient.
        pushes = self.outside(lambda: [level.push([one]) for one in moved]) if level.points else []
        self.pushes = pushes if any(pushes) else None
        # Before the call, which may change its arguments in place.
        known = None if self.pushes is None else level.known_tangents()
        self.along = None if known is None else self.along_arguments(known)

    def along_arguments(self, tangents: Sequence[Tensor]) -> list[Tensor | None]:
        assert self.pushes is not None
        pushes = self.pushes
        along = lambda *given: [None if push is None else push(*given)[0] for push in pushes]
        return self.outside(lambda: self.level.each(along, *tangents))

    def outside(self, function: Callable[[], Any]) -> Any:
        """Calls a function outside of the vmaps that begin inside of the level."""
        for number, _ in self.vmaps:
            function = partial(_C._vmap_outside, number, function)
        return function()

    def shown(self, tensor: Tensor) -> Tensor:
        """A tensor with the samples of these vmaps."""
        for number, size in reversed(self.vmaps):
            tensor = _C._remove_batch_dim(tensor, 0, number, size)
        return tensor

    def hidden(self, tensor: Tensor) -> Tensor:
        """The tensor that `shown` was given."""
        for number, size in self.vmaps:
            tensor = _C._add_batch_dim(tensor, 0, number, size)
        return tensor

    def finish(self, ctx: Any, results: tuple[Any, ...], surrounding: Sequence[ForwardLevel]) -> tuple[Any, ...]:
        """The results as points at which tangents begin."""
        level, dirty = self.level, ctx.__dict__.get("_marked_dirty", ())
        saved = [(tensor, tensor._version) for tensor in getattr(ctx, "saved_for_forward", ()) if _is_tensor(tensor)]

        def along_results(along: list[Tensor | None]) -> list[Tensor | None]:
            with only(surrounding):
                found = level.each(lambda *given: self._own_tangents(ctx, given, results, dirty), *along)
            return [None if one is None else level.without_tangent(one) for one in found]

        if self.along is not None:
            found = along_results(self.along)
            return tuple(self._begun(out, tangent, dirty) for out, tangent in zip(results, found))
        if self.vmaps:
            raise NotImplementedError(
                f"torch.func.linearize does not reach {self.kind.__name__}.jvp inside of vmap\n"
                "  torch.func.jvp calls it with the tangents it is given."
            )
        moved = [place for place, out in enumerate(results) if differentiable(out)]

        def extension(tangents: Sequence[Tensor]) -> list[Tensor]:
            for tensor, version in saved:
                if tensor._version != version:
                    raise RuntimeError(
                        "one of the variables needed for gradient computation has been modified by an inplace operation: "
                        f"{self.kind.__name__}.jvp uses a tensor at version {tensor._version}; expected version {version} instead."
                    )
            found = along_results(self.along_arguments(tangents))
            return [
                torch.zeros_like(results[place]) if t is None else t for place, t in enumerate(found) if place in moved
            ]

        level.extensions.append(extension)
        return tuple(
            level.begin(level.without_tangent(out, inside=True), None) if place in moved else out
            for place, out in enumerate(results)
        )

    def _own_tangents(
        self, ctx: Any, along: Sequence[Tensor | None], results: tuple[Any, ...], dirty: tuple[Tensor, ...]
    ) -> list[Tensor | None]:
        """The tangents that ``jvp`` returns for those of the arguments, None for results without one."""
        given: list[Tensor | None] = [None] * len(self.args)
        for place, tangent in zip(self.moving, along):
            # Copies, because `jvp` may change them in place.
            if tangent is not None:
                given[place] = self.hidden(tangent.clone())
            elif ctx.materialize_grads:
                given[place] = lifted(torch.zeros_like(self.args[place].detach()))
        found = own_tangents(self.kind, ctx, given, len(results))
        # As in torch, views are checked for dual tensors and `torch.func.linearize`.
        as_views = self.level is _forward_levels.dual_level or self.along is None
        for place, (out, tangent) in enumerate(zip(results, found)):
            if _is_tensor(out) and tangent is not None:
                _check_tangent(place, out, tangent, self.args, given, dirty, as_views)
        return [self.shown(one) if one is not None and _is_tensor(out) else None for out, one in zip(results, found)]

    def _begun(self, out: Any, tangent: Tensor | None, dirty: tuple[Tensor, ...]) -> Any:
        if not differentiable(out):
            return out
        level = self.level
        bare = self.outside(lambda: level.without_tangent(self.shown(out), inside=True))
        if tangent is None:
            return self.hidden(bare)
        dual = self.hidden(self.outside(lambda: level.begin(bare, tangent)))
        if out.requires_grad or all(out is not one for one in dirty):
            return dual
        # The argument that was changed is the result, so that it has the tangent from now on.
        out.detach_()
        return out.copy_(dual)


def through(
    kind: Any,
    levels: Sequence[ForwardLevel],
    args: Sequence[Any],
    run: Callable[[], Any],
    context: Callable[[Any], Any],
) -> Any:
    """The results of ``run``, which calls a `Function` with a ``jvp``, with the tangents of some levels, the outermost first.
    ``context`` returns the context of the call, given its results."""
    calls = [(place, _Call(kind, level, args)) for place, level in enumerate(levels)]
    result = run()
    ctx = context(result)
    results = result if isinstance(result, tuple) else (result,)
    for place, call in calls:
        if call.pushes is not None:
            results = call.finish(ctx, results, levels[:place])
    return results if isinstance(result, tuple) else results[0]


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


def _check_tangent(
    place: int,
    out: Tensor,
    tangent: Tensor,
    args: Sequence[Any],
    given: Sequence[Tensor | None],
    dirty: tuple[Tensor, ...],
    as_views: bool,
) -> None:
    """Checks that a tangent was made as its output was: in place, or with ``as_views`` as a view."""
    with tangents_visible():
        if not out.requires_grad:
            raise RuntimeError(
                f"Function's jvp returned a gradient at position {place}, but  the corresponding forward output is not "
                "a differentiable Tensor.You should return None at that position instead."
            )
    if any(out is one for one in dirty):
        changed = [one for arg, one in zip(args, given) if arg is out]
        # An argument without a tangent gets the one that is returned.
        if all(one is not None and tangent is not one for one in changed):
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
            )
        return
    if as_views and any(_is_tensor(arg) and _shares(out, arg) for arg in args):
        if not tangent._is_view():
            raise RuntimeError(
                "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
            )
        if all(one is None or not _shares(tangent, one) for one in given):
            raise RuntimeError(
                "A custom Function is returning a view but the jvp is not returning a view of the given grad input."
            )
    check_size(tangent, out)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _shares(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same storage."""
    address = _address(tensor)
    return address != 0 and address == _address(other)


def _address(tensor: Tensor) -> int:
    for number, size, _ in reversed(_C._vmap_levels()):
        if number in _C._vmap_levels_of(tensor):
            tensor = _C._remove_batch_dim(tensor, 0, number, size)
    return tensor.untyped_storage().data_ptr()


def __dir__() -> list[str]:
    return []
