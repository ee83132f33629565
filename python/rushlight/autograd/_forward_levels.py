"""The levels of forward derivatives: one of each transform of `torch.func` that runs, and the one of dual tensors.

A level has points at which tangents begin: those that were given, and the results of functions with a ``jvp`` of their own
(`_own_tangents`). What lies between two points is differentiated by `_tangents.pushforward`.

    level = ForwardLevel([point], [tangent])
    with level:
        y = function(point)
    level.push([y])(tangent)  # [the tangent of y]
"""

from __future__ import annotations

import threading

import rushlight as torch
from rushlight import _C, autograd
from rushlight._modes import _Mode
from rushlight.autograd._vmap_levels import Level, mapped

from ._tangents import basis, pushforward, released, tangents_visible, tracked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Self

    from rushlight import Tensor

    _Found = Sequence[Tensor | None]


class _State(threading.local):
    #: The key of the level whose tangents are computed.
    computing: object = None
    #: The levels of the transforms that run, the outermost first.
    inside: tuple[ForwardLevel, ...] = ()
    hides_dual = False


_state = _State()
#: The level of dual tensors, which surrounds the others.
dual_level: ForwardLevel | None = None


def active_levels() -> tuple[ForwardLevel, ...]:
    """The levels at which a call has tangents, the outermost first."""
    outermost = () if dual_level is None or _state.hides_dual else (dual_level,)
    return (*outermost, *_state.inside)


class only(_Mode):
    """Inside the block, no levels but the given ones are active."""

    __slots__ = ("_levels", "_saved")

    def __init__(self, levels: Sequence[ForwardLevel]) -> None:
        self._levels = tuple(level for level in levels if level is not dual_level)
        self._before = len(self._levels) == len(levels)

    def __enter__(self) -> None:
        self._saved = _state.inside, _state.hides_dual
        _state.inside, _state.hides_dual = self._levels, self._before

    def __exit__(self, *exception: object) -> None:
        _state.inside, _state.hides_dual = self._saved


class _Without(autograd.Function):
    """A view without the tangent of a level. Gradients and tangents of other levels are propagated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, key: object) -> Tensor:
        ctx.key = key
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None]:
        return None if ctx.key is _state.computing else grad, None


class _Linear(autograd.Function):
    """Zeros whose gradients are pulled back to tangents."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, pull: Any, zeros: Sequence[Tensor], *tangents: Tensor) -> tuple[Tensor, ...]:
        ctx.pull = pull
        return tuple(zeros)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *ctx.pull(gradients)


class ForwardLevel:
    """A level. Inside the block it is active.

    Args:
        points: the points at which tangents begin.
        tangents: theirs, if they are known.
        samples: the number of all elements of the points, if the tangents are all unit vectors. These have a dimension in
            front of their point's.
    """

    def __init__(
        self, points: Sequence[Tensor] = (), tangents: Sequence[Tensor] | None = None, samples: int | None = None
    ) -> None:
        self.points = list(points)
        self.tangents = None if tangents is None else list(tangents)
        self.samples = samples
        #: What computes the tangents of later points from those of earlier ones, if tangents are not known.
        self.extensions: list[Callable[[Sequence[Tensor]], list[Tensor]]] = []
        # The graph refers to the level by this key, because the level itself would keep all points alive.
        self.key = object()
        #: The tensors at later points by their ids, with their versions and the numbers of the points.
        self._begun: dict[int, tuple[Tensor, int, int]] = {}
        self.recording = _C._is_recording()
        self._vmaps = {number for number, _, _ in _C._vmap_levels()}

    def __enter__(self) -> Self:
        self._outer = _state.inside
        _state.inside = (*self._outer, self)
        return self

    def __exit__(self, *exception: object) -> None:
        _state.inside = self._outer

    def begins_in(self, vmap: int) -> bool:
        """Whether the level begins inside of a vmap."""
        return vmap in self._vmaps

    def known_tangents(self) -> list[Tensor] | None:
        """The tangents of the points, if they are known."""
        if self.tangents is None and self.samples is not None:
            self.tangents = _unit_vectors(self.points, self.samples)
        return self.tangents

    def push(self, outputs: Sequence[Tensor]) -> Callable[..., _Found] | None:
        """The tangents of outputs as a function of those of all points so far. None if no output depends on a point."""
        with _Computing(self.key):
            found = pushforward(outputs, self.points)
        if found is None:
            return None
        along, reached = found

        points = tuple(self.points)
        begun = self._numbers_of_points(outputs)

        def tangents_of(*tangents: Tensor) -> _Found:
            with tangents_visible(False):
                followed = any(tangents[number].requires_grad for number in reached)
            # `along` records for tangents only. Gradients of tangents that require them go through `_with_gradients`.
            bare = [tangent.detach() for tangent in tangents] if followed else tangents
            with _Computing(self.key):
                found = along(bare)
            whole = self._with_gradients(outputs, points, tangents, found) if followed else found
            # Such an output has the tangent itself, whose dtype may be another one.
            return [one if point is None else tangents[point] for one, point in zip(whole, begun)]

        return tangents_of

    def _numbers_of_points(self, outputs: Sequence[Tensor]) -> list[int | None]:
        """For each output, the number of the point that begins there, or None."""
        numbers: list[int | None] = []
        for output in outputs:
            tensor, version, number = self._begun.get(id(output), (None, 0, 0))
            numbers.append(number if tensor is output and tensor._version == version else None)
        return numbers

    def _with_gradients(
        self, outputs: Sequence[Tensor], points: Sequence[Tensor], tangents: Sequence[Tensor], found: _Found
    ) -> _Found:
        """Tangents of outputs with a history in which they are linear in those of the points."""
        known = {number: one for number, one in enumerate(found) if one is not None}

        def pull(gradients: Sequence[Tensor]) -> Sequence[Tensor | None]:
            with tangents_visible(), _Computing(self.key):
                used = [
                    (outputs[number], one) for number, one in zip(known, gradients) if outputs[number].requires_grad
                ]
                ends, weights = zip(*used)
                graph = torch.is_grad_enabled()
                return autograd.grad(ends, points, weights, retain_graph=True, create_graph=graph, allow_unused=True)

        zeros = _Linear.apply(pull, [torch.zeros_like(one) for one in known.values()], *tangents[: len(points)])
        whole = list(found)
        for number, zero in zip(known, zeros):
            whole[number] = known[number] + zero
        return whole

    def each(self, function: Callable[..., Iterable[Any]], *tensors: Any) -> list[Any]:
        """A function of tangents, which are tensors or None, for each unit vector if the level has these."""
        if self.samples is None:
            return list(function(*tensors))
        with Level(self.samples) as level:
            found = function(*(None if one is None else level.hide(one, 0) for one in tensors))
            return [None if one is None else level.show(one) for one in found]

    def inner_vmaps(self) -> list[tuple[int, int]]:
        """The numbers and sizes of the vmaps that begin inside of this level. Its points show their samples."""
        return [(number, size) for number, size, _ in _C._vmap_levels() if number not in self._vmaps]

    def without_tangent(self, tensor: Tensor, inside: bool = False) -> Tensor:
        """A view that has no tangent of this level. ``inside``: gradients of transforms inside of the level are kept too. They
        begin at views of its points, which `released` does not tell from them."""
        kept = inside and tensor.requires_grad
        left = tensor if kept else released(tensor, self.points, self.recording)
        with tangents_visible():
            kept = left.requires_grad
        return _Without.apply(left, self.key) if kept else left

    def begin(self, tensor: Tensor, tangent: Tensor | None) -> Tensor:
        """A view of a tensor at which tangents begin, with the one given, or with that of an extension."""
        point, own = tracked(tensor, forward=True)
        self.points.append(point)
        if tangent is not None:
            assert self.tangents is not None
            self.tangents.append(tangent)
        self._begun[id(own)] = own, own._version, len(self.points) - 1
        return own


def _unit_vectors(points: Sequence[Tensor], count: int) -> list[Tensor]:
    """The unit vectors of all points as tangents of each, in a dimension in front."""
    vectors, before = [], 0
    for point in points:
        own = torch.zeros(count, *point.shape, dtype=point.dtype, device=point.device)
        own[before : before + point.numel()] = basis(point.detach())
        before += point.numel()
        vectors.append(own)
    return vectors


def jacobian_by_columns(level: ForwardLevel, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[list[Tensor]]:
    """The derivatives of each output with respect to each input, which are the first points of the level."""
    push = level.push(outputs)

    def along(*tangents: Tensor) -> list[Tensor]:
        found = [None] * len(outputs) if push is None else push(*tangents)
        return [torch.zeros_like(y) if t is None else t for y, t in zip(outputs, found)]

    columns: list[list[Any]] = []
    if level.tangents is None:
        for number, x in enumerate(inputs):

            def along_one(unit: Tensor, number: int = number) -> list[Tensor]:
                return along(*(unit if other == number else torch.zeros_like(y) for other, y in enumerate(inputs)))

            columns.append(mapped(along_one, basis(x.detach())))
    else:
        sizes = [x.numel() for x in inputs]
        parts = [found.split(sizes) for found in level.each(along, *level.tangents)]
        columns = [[one[number] for one in parts] for number in range(len(inputs))]
    matrices: list[list[Tensor]] = []
    for number, output in enumerate(outputs):
        matrices.append([])
        for x, found in zip(inputs, columns):
            whole = found[number].reshape((*x.shape, *output.shape))
            order = [*range(x.dim(), whole.dim()), *range(x.dim())]
            matrices[-1].append(whole.permute(order))
    return matrices


class _Computing(_Mode):
    """Inside the block, the tangents of a level are computed."""

    __slots__ = ("_key", "_saved")

    def __init__(self, key: object) -> None:
        self._key = key

    def __enter__(self) -> None:
        self._saved, _state.computing = _state.computing, self._key

    def __exit__(self, *exception: object) -> None:
        _state.computing = self._saved


def __dir__() -> list[str]:
    return []
