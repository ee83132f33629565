"""Sharding rules: how functions work on parts, so that no tensor has to be whole.

A rule lists strategies for one dimension of a mesh: how each operand may lie, how the result lies then, and how the gradients of
the operands come out of the function. The dimensions of a mesh are independent. For each of them, the strategy is chosen that
moves the fewest elements; every list ends with that of whole tensors.
"""

import math
from typing import NamedTuple

import rushlight as torch

from ._api import DTensor, wrapped
from ._layout import Averaged, GradientPlaced, Spec, is_cut, local_shape
from .placement_types import Partial, Replicate, Shard, _NormPartial


class Strategy(NamedTuple):
    """How the operands lie, the result, and the gradients of the operands if they lie otherwise than these."""

    given: tuple
    result: object
    grads: tuple = ()


R, P = Replicate(), Partial()


def whole_of(count):
    """The strategy of whole tensors."""
    return Strategy((R,) * count, R)


def partials(operands, reductions=()):
    """The kinds of `Partial` among the placements of tensors, or those of some reductions."""
    found = {one for tensor in operands for one in tensor._spec.placements if one.is_partial()}
    return sorted(
        (one for one in found if not reductions or (one.reduce_op in reductions and type(one) is Partial)), key=repr
    )


def records(operands):
    """Whether a call with these tensors is recorded. The gradients of extremes and products are not those of the ranks' parts."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in operands)


def _cost(now, wanted, elements):
    if now == wanted:
        return 0
    if now.is_replicate():
        # Cutting is free, but the gradient has to be joined.
        return 0.5 if wanted.is_partial() else 1
    return elements * (2 if now.is_partial() else 1) + 2


def run(operands, strategies, shape, call, several=False):
    """Calls a function with parts.

    Args:
        operands: the tensors on the mesh.
        strategies: those of one dimension of the mesh.
        shape: the shape of the whole result.
        call: gets the layout of the result and the parts, and returns a part of the result.
        several: the function has several results, and `shape` is a list of their shapes.
    """
    mesh = operands[0]._spec.mesh
    chosen = []
    for mesh_dim in range(mesh.ndim):
        now = [tensor._spec.placements[mesh_dim] for tensor in operands]
        # As in torch, a sum becomes whole and is not cut, and a single operand is not cut elsewhere.
        fixed = [placement.is_partial() or (len(now) == 1 and is_cut(placement)) for placement in now]
        usable = [
            one
            for one in strategies
            if all(not stays or wanted in (placement, R) for stays, placement, wanted in zip(fixed, now, one.given))
        ]
        cost = lambda one, now=now: sum(
            _cost(placement, wanted, tensor._spec.shape.numel())
            for placement, wanted, tensor in zip(now, one.given, operands)
        )
        chosen.append(min(usable, key=cost))
    parts = [
        _part(
            tensor,
            tuple(strategy.given[number] for strategy in chosen),
            tuple((strategy.grads or strategy.given)[number] for strategy in chosen),
        )
        for number, tensor in enumerate(operands)
    ]
    results = tuple(strategy.result for strategy in chosen)
    if several:
        specs = [Spec(mesh, results, torch.Size(one)) for one in shape]
        return tuple(wrapped(part, spec) for part, spec in zip(call(specs[0], *parts), specs))
    spec = Spec(mesh, results, torch.Size(shape))
    return wrapped(call(spec, *parts), spec)


def _part(tensor, placements, grads):
    """This rank's part under some placements, whose gradient comes in others."""
    moved = tensor if tensor._spec.placements == placements else tensor._moved(placements)
    local = moved._local_tensor
    # The gradient of a part of a sum is that of the sum, on every rank.
    same = all(grad == placement or placement.is_partial() for grad, placement in zip(grads, placements))
    return local if same else GradientPlaced.apply(local, moved._spec, grads)


# Functions of elements.

#: Reductions of parts that keep sums and multiples.
_SUMS = ("sum", "avg")
#: Functions that add tensors, and those that may scale a tensor by a number.
_LINEAR = frozenset("add sub subtract neg negative __add__ __sub__ __radd__ __neg__ rsub __rsub__".split())
_SCALES = frozenset("mul multiply div divide true_divide __mul__ __rmul__ __truediv__ __div__".split())


def elementwise(func, name, args, kwargs, operands, put):
    """A function of each element, whose operands are broadcast."""
    if name == "where" and len(args) + len(kwargs) == 1:
        return NotImplemented  # the places of elements
    first = operands[0]._spec
    if not first.partial and all(tensor._spec == first for tensor in operands):
        parts = [tensor._local_tensor for tensor in operands]
        return wrapped(func(*put(args, parts), **put(kwargs, parts[_count(args) :])), first)
    shapes = [tensor._spec.shape for tensor in operands]
    try:
        shape = torch.broadcast_shapes(*shapes)
    except RuntimeError:
        return NotImplemented
    strategies = []
    for dim, size in enumerate(shape):
        given, grads = [], []
        for own in shapes:
            at = dim - (len(shape) - len(own))
            cut = at >= 0 and own[at] == size
            given.append(Shard(at) if cut else R)
            grads.append(Shard(at) if cut else P)
        strategies.append(Strategy(tuple(given), Shard(dim), tuple(grads)))
    linear = partials(operands, _SUMS)
    if _keeps_sums(name, args, kwargs) and all(own == shape for own in shapes):
        strategies += [Strategy((one,) * len(operands), one) for one in linear]
    elif name in _SCALES and not kwargs and len(args) == len(operands) == 2:
        # A sum is multiplied or divided by a tensor that every rank has.
        strategies += [Strategy((one, R), one, (one, one)) for one in linear]
        if "div" not in name:
            strategies += [Strategy((R, one), one, (one, one)) for one in linear]
    strategies.append(whole_of(len(operands)))

    def call(spec, *parts):
        return func(*put(args, parts), **put(kwargs, parts[_count(args) :]))

    return run(operands, strategies, shape, call)


def _keeps_sums(name, args, kwargs):
    """Whether a sum of parts becomes the sum of the results: only tensors on the mesh are added, or one is scaled by a number."""
    if name in _LINEAR:
        return all(isinstance(one, DTensor) for one in (*args, *kwargs.values()))
    scaled = len(args) == 2 and isinstance(args[0], DTensor) and isinstance(args[1], (int, float, complex))
    return name in _SCALES and scaled and not kwargs


def _count(value):
    if isinstance(value, DTensor):
        return 1
    if isinstance(value, (list, tuple)):
        return sum(map(_count, value))
    return 0


# Products.


def product(left, right, bias=None, transposed=False):
    """Strategies of a product of matrices, with an optional bias along the last dimension, and the shape of the result.

    None if the shapes are not those of a product of which the last two dimensions of both are matrices.
    """
    a, b = left._spec.shape, right._spec.shape
    if len(a) < 2 - transposed or len(b) < 2 or not (len(b) == 2 or len(a) == len(b)):
        return None
    if bias is not None and tuple(bias._spec.shape) != (b[-2 if transposed else -1],):
        return None
    batch = len(b) - 2
    if (batch and a[:batch] != b[:batch]) or a[-1] != b[-1 if transposed else -2]:
        return None
    shape = (*a[:-1], b[-2 if transposed else -1])
    inner, outer = (len(b) - 1, len(b) - 2) if transposed else (len(b) - 2, len(b) - 1)
    last = len(a) - 1
    extra = lambda placement: () if bias is None else (placement,)
    strategies = [
        Strategy((R, Shard(outer), *extra(Shard(0))), Shard(len(shape) - 1), (P, Shard(outer), *extra(Shard(0)))),
        # The bias is added by one rank.
        Strategy((Shard(last), Shard(inner), *extra(P)), P),
    ]
    for one in partials((left, right), _SUMS):
        strategies += [
            Strategy(given, one, (one, one, *extra(one))) for given in ((one, R, *extra(one)), (R, one, *extra(one)))
        ]
    for dim in range(last):
        if dim < batch:
            strategies.append(
                Strategy((Shard(dim), Shard(dim), *extra(R)), Shard(dim), (Shard(dim), Shard(dim), *extra(P)))
            )
        else:
            strategies.append(Strategy((Shard(dim), R, *extra(R)), Shard(dim), (Shard(dim), P, *extra(P))))
    strategies.append(whole_of(3 if bias is not None else 2))
    return strategies, shape


# Reductions.


def _dims(dim, count):
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(count))
    return tuple(one % count for one in ((dim,) if isinstance(dim, int) else dim))


#: Reductions whose result is that of the results of parts, by the same reduction.
_OF_PARTS = {"max": "max", "amax": "max", "min": "min", "amin": "min", "prod": "product", "all": "product"}


def _joined_by(name, tensor, at, has_indices):
    """What the reductions of parts along a dimension are of that of the whole, or None if they are nothing."""
    if name == "sum" or name == "any":
        return P
    if name == "mean":
        # Averages of unequal parts are not that of the whole.
        spec = tensor._spec
        ranks = [spec.mesh.size(dim) for dim, one in enumerate(spec.placements) if one.is_shard(at)]
        others = any(one.is_partial() and one.reduce_op != "avg" for one in spec.placements)
        others |= any(
            is_cut(one) and spec.shape[one.dim] % spec.mesh.size(dim) for dim, one in enumerate(spec.placements)
        )
        return P if others or spec.shape[at] % math.prod(ranks) else Partial("avg")
    if name == "vector_norm":
        return None
    known = name in _OF_PARTS and not has_indices and not records([tensor])
    # Each rank must have an element, as there is no extreme of none.
    spec = tensor._spec
    ranks = math.prod(spec.mesh.size(dim) for dim, one in enumerate(spec.placements) if is_cut(one) and one.dim == at)
    return Partial(_OF_PARTS[name]) if known and spec.shape[at] % ranks == 0 and spec.shape[at] else None


def _stays(name, placement, tensor, has_indices):
    """Whether the reduction of what a placement stands for is that of the reductions of the parts."""
    if isinstance(placement, _NormPartial):
        return False
    if placement.reduce_op == "sum":
        return name in ("sum", "mean")
    if placement.reduce_op == "avg":
        return name == "mean"
    own = name in _OF_PARTS and name != "all" and not has_indices and not records([tensor])
    return own and _OF_PARTS[name] == placement.reduce_op


def reduction(func, name, tensor, dim, keepdim, options, has_indices=False):
    """A function that reduces dimensions."""
    shape = tensor._spec.shape
    if any(not -len(shape) <= one < len(shape) for one in ((dim,) if isinstance(dim, int) else dim or ())):
        return NotImplemented
    dims = _dims(dim, len(shape)) if shape else ()
    made = [1 if at in dims else size for at, size in enumerate(shape) if keepdim or at not in dims]
    strategies = []
    for at in range(len(shape)):
        if at not in dims:
            strategies.append(Strategy((Shard(at),), Shard(at if keepdim else at - sum(one < at for one in dims))))
        elif (joined := _joined_by(name, tensor, at, has_indices)) is not None:
            strategies.append(Strategy((Shard(at),), joined))
    strategies += [Strategy((one,), one) for one in partials([tensor]) if _stays(name, one, tensor, has_indices)]
    strategies.append(whole_of(1))
    count = math.prod(shape[at] for at in dims)

    def call(spec, part):
        if name == "mean" and spec.partial:
            parts = math.prod(shape[at] // part.shape[at] for at in dims if part.shape[at])
            if all(one.reduce_op == "avg" for one in spec.placements if one.is_partial()):
                made = torch.mean(part, dims, keepdim=keepdim, **options)
                return made if parts == 1 else Averaged.apply(made, parts)
            return torch.sum(part, dims, keepdim=keepdim, **options) / count
        if dim is None:
            return func(part, **options)
        return func(part, dim, keepdim=keepdim, **options)

    if not has_indices:
        return run([tensor], strategies, made, call)
    kind = []

    def both(spec, part):
        result = call(spec, part)
        kind.append(type(result))
        return result

    values = run([tensor], strategies, [made, made], both, several=True)
    return kind[0](values)


# Views.


def along(tensor, kept, shape, call, several=False):
    """A function that leaves some dimensions alone.

    Args:
        tensor: the tensor.
        kept: pairs of a dimension, and that of the result which it becomes.
        shape, call, several: as in `run`.
    """
    strategies = [Strategy((Shard(one),), Shard(other)) for one, other in kept]
    kinds = [Strategy((one,), one) for one in partials([tensor])]
    return run([tensor], [*strategies, *kinds, whole_of(1)], shape, call, several)


def regrouped(tensor, shape):
    """Another shape of the same elements, whose sizes may be cut where the first factor of a group of dimensions is."""
    old = tensor._spec.shape
    ranks = [tensor._spec.mesh.size(dim) for dim, one in enumerate(tensor._spec.placements) if is_cut(one)]
    kept = []
    for first, second in _groups(old, shape):
        same = old[first] == shape[second]
        if same or all(old[first] % count == 0 and shape[second] % count == 0 for count in ranks):
            kept.append((first, second))
    cut = [placement.dim for placement in tensor._spec.placements if is_cut(placement)]
    if len(set(cut)) < len(cut):
        kept = [pair for pair in kept if old[pair[0]] % math.prod(ranks) == 0 == shape[pair[1]] % math.prod(ranks)]
    return along(tensor, kept, shape, lambda spec, part: part.reshape(local_shape(spec)))


def _groups(old, new):
    """The first dimensions of the smallest groups of dimensions that have equally many elements in two shapes."""
    found, one, other = [], 0, 0
    while one < len(old) and other < len(new):
        start = one, other
        left, right = old[one], new[other]
        one, other = one + 1, other + 1
        while left != right:
            if left < right:
                if one == len(old):
                    return found
                left, one = left * old[one], one + 1
            else:
                if other == len(new):
                    return found
                right, other = right * new[other], other + 1
        # Dimensions of one element before the first larger one stand for nothing.
        while start[0] < one - 1 and old[start[0]] == 1:
            start = start[0] + 1, start[1]
        while start[1] < other - 1 and new[start[1]] == 1:
            start = start[0], start[1] + 1
        found.append(start)
    return found
