"""The functions that have a sharding rule besides those of elements (`_rules`)."""

import math

import rushlight as torch
from rushlight._answers import registering

from ._api import DTensor
from ._layout import Spec, extent, local_shape
from ._loss import cross_entropy_of_classes, is_parallel
from ._rules import P, R, Strategy, along, partials, product, records, reduction, regrouped, run, whole_of
from .placement_types import Partial, Shard, _NormPartial

#: The functions by name. They return NotImplemented for calls that need whole tensors.
SHARDED: dict = {}
rule = registering(SHARDED)


@rule("linear")
def _linear(func, input, weight, bias=None):
    found = product(input, weight, bias, transposed=True) if weight.dim() == 2 else None
    if found is None:
        return NotImplemented
    operands = [input, weight] if bias is None else [input, weight, bias]
    return run(operands, *found, lambda spec, *parts: func(*parts))


@rule("mm", "matmul", "bmm", "__matmul__")
def _matmul(func, input, other):
    found = product(input, other) if isinstance(input, DTensor) and isinstance(other, DTensor) else None
    return NotImplemented if found is None else run([input, other], *found, lambda spec, *parts: func(*parts))


@rule("addmm")
def _addmm(func, input, mat1, mat2, *, beta=1, alpha=1):
    found = product(mat1, mat2, input) if input.dim() == 1 and input.size(0) == mat2.size(1) else None
    if found is None:
        return NotImplemented
    return run([mat1, mat2, input], *found, lambda spec, a, b, c: func(c, a, b, beta=beta, alpha=alpha))


@rule("embedding")
def _embedding(
    func, input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    if max_norm is not None or scale_grad_by_freq or sparse or not isinstance(input, DTensor):
        return NotImplemented
    rows, width = weight._spec.shape
    if padding_idx is not None and not -rows <= padding_idx < rows:
        return NotImplemented
    strategies = [Strategy((R, Shard(1)), Shard(input.dim())), Strategy((R, Shard(0)), P)]
    strategies += [Strategy((Shard(dim), R), Shard(dim), (Shard(dim), P)) for dim in range(input.dim())]
    padding = None if padding_idx is None else padding_idx % rows

    def call(spec, indices, part):
        if part.size(0) == rows:
            return func(indices, part, padding_idx)
        # Each rank looks up the rows that it has; all others are zero.
        cut = tuple(Shard(0) if placement.is_partial() else R for placement in spec.placements)
        first = extent(Spec(spec.mesh, cut, weight._spec.shape))[1][0]
        inside = (indices >= first) & (indices < first + part.size(0))
        own = torch.where(inside, indices - first, 0)
        if part.size(0) == 0:
            return part.new_zeros((*indices.shape, width)) + part.sum()
        found = func(own, part, None)
        if padding is not None:
            found = torch.where((indices == padding).unsqueeze(-1), found.detach(), found)
        return torch.where(inside.unsqueeze(-1), found, 0)

    return run([input, weight], [*strategies, whole_of(2)], (*input._spec.shape, width), call)


@rule("sum", "mean", "amax", "amin", "logsumexp", "any", "all", "prod")
def _reduced(func, input, dim=None, keepdim=False, **options):
    everything = isinstance(dim, (list, tuple)) and not dim and func.__name__ not in ("sum", "mean", "amax", "amin")
    if isinstance(dim, torch.dtype) or everything:
        return NotImplemented
    return reduction(func, func.__name__, input, dim, keepdim, options)


@rule("max", "min")
def _extreme(func, input, dim=None, keepdim=False):
    if isinstance(dim, torch.Tensor):
        return NotImplemented
    return reduction(func, func.__name__, input, dim, keepdim, {}, has_indices=dim is not None)


@rule("argmax", "argmin")
def _place_of_extreme(func, input, dim=None, keepdim=False):
    return NotImplemented if dim is None else reduction(func, func.__name__, input, dim, keepdim, {})


@rule("var", "std")
def _spread(func, input, dim=None, *args, keepdim=False, **options):
    if dim is None or isinstance(dim, bool) or args:
        return NotImplemented
    return reduction(func, func.__name__, input, dim, keepdim, options)


@rule("vector_norm")
def _vector_norm(func, input, ord=2, dim=None, keepdim=False, *, dtype=None):
    shape, count = input._spec.shape, input.dim()
    dims = tuple(range(count)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if not all(-count <= one < count for one in dims):
        return NotImplemented
    dims = {one % count for one in dims}
    made = [1 if at in dims else size for at, size in enumerate(shape) if keepdim or at not in dims]
    strategies = []
    for at in range(count):
        if at not in dims:
            strategies.append(Strategy((Shard(at),), Shard(at if keepdim else at - sum(one < at for one in dims))))
        elif not records([input]) and input.size(at):
            strategies.append(Strategy((Shard(at),), _of_norms(ord)))
    if not records([input]):
        strategies += [
            Strategy((one,), one) for one in partials([input]) if one == _of_norms(ord) and one.reduce_op != "sum"
        ]
        strategies += [Strategy((one,), one) for one in partials([input]) if one == _NormPartial("sum", ord)]

    def call(spec, part):
        if part.numel() == 0 and math.isinf(ord):
            # The norm of no elements is less than any other, or greater.
            kind = part.abs().dtype if dtype is None else dtype
            return part.new_full(local_shape(spec), 0.0 if ord > 0 else math.inf, dtype=kind)
        return func(part, ord, dim, keepdim, dtype=dtype)

    return run([input], [*strategies, whole_of(1)], made, call)


def _of_norms(order):
    """What the norms of parts are of that of the whole."""
    if math.isinf(order):
        return Partial("max" if order > 0 else "min")
    return Partial("sum") if order == 0 else _NormPartial("sum", order)


@rule("index_select")
def _index_select(func, input, dim, index):
    return _gathered(func, input, dim, index, lambda one, at: R)


@rule("gather")
def _gather(func, input, dim, index, *, sparse_grad=False):
    if sparse_grad or index.dim() != input.dim():
        return NotImplemented
    return _gathered(
        func, input, dim, index, lambda one, at: Shard(one) if index.size(one) == input.size(one) else None
    )


def _gathered(func, input, dim, index, placed):
    """Elements that are chosen along a dimension. `placed` tells how the indices lie if another one is cut."""
    count = input.dim()
    if not isinstance(index, DTensor) or not -count <= dim < count:
        return NotImplemented
    at = dim % count
    kept = [(one, placed(one, at)) for one in range(count) if one != at]
    strategies = [Strategy((Shard(one), other), Shard(one)) for one, other in kept if other is not None]
    shape = list(index._spec.shape if func.__name__ == "gather" else input._spec.shape)
    shape[at] = index._spec.shape[at if func.__name__ == "gather" else 0] if index.dim() else 1
    return run([input, index], [*strategies, whole_of(2)], shape, lambda spec, *parts: func(parts[0], dim, parts[1]))


@rule("softmax", "log_softmax", "cumsum", "cumprod")
def _of_lines(func, input, dim=None, *args, **options):
    if dim is None or not -input.dim() <= dim < input.dim():
        return NotImplemented
    kept = [Strategy((Shard(one),), Shard(one)) for one in range(input.dim()) if one != dim % input.dim()]
    call = lambda spec, part: func(part, dim, *args, **options)
    return run([input], [*kept, whole_of(1)], input._spec.shape, call)


@rule("sort")
def _sorted(func, input, dim=-1, *args, **options):
    return _lines_and_places(input, dim, None, lambda part: func(part, dim, *args, **options))


@rule("topk")
def _largest(func, input, k, dim=-1, *args, **options):
    return _lines_and_places(input, dim, k, lambda part: func(part, k, dim, *args, **options))


def _lines_and_places(input, dim, count, call):
    """Elements of each line along a dimension and their places, so many or all."""
    shape = list(input._spec.shape)
    if not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        return NotImplemented
    kept = [Strategy((Shard(one),), Shard(one)) for one in range(len(shape)) if one != dim % len(shape)]
    shape[dim] = shape[dim] if count is None else count
    kind = []

    def both(spec, part):
        result = call(part)
        kind.append(type(result))
        return result

    found = run([input], [*kept, whole_of(1)], [shape, shape], both, several=True)
    return kind[0](found)


@rule("layer_norm", "rms_norm")
def _normalised(func, input, normalized_shape, weight=None, bias=None, eps=None, **options):
    count = len(normalized_shape)
    if tuple(input.shape[input.dim() - count :]) != tuple(normalized_shape):
        return NotImplemented
    given = {"weight": weight, "bias": bias}
    names = [name for name, value in given.items() if value is not None]
    strategies = [
        Strategy((Shard(dim), *(R,) * len(names)), Shard(dim), (Shard(dim), *(P,) * len(names)))
        for dim in range(input.dim() - count)
    ]
    if eps is not None:
        options["eps"] = eps

    def call(spec, part, *others):
        return func(part, normalized_shape, **dict(zip(names, others)), **options)

    operands = [input, *(given[name] for name in names)]
    return run(operands, [*strategies, whole_of(len(operands))], input._spec.shape, call)


@rule("dropout")
def _dropout(func, input, *args, **options):
    kept = [Strategy((Shard(dim),), Shard(dim)) for dim in range(input.dim())]
    call = lambda spec, part: func(part, *args, **options)
    return run([input], [*kept, whole_of(1)], input._spec.shape, call)


@rule("scaled_dot_product_attention")
def _attention(func, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **options):
    shapes = [one._spec.shape for one in (query, key, value)]
    if attn_mask is not None or any(len(shape) != 4 or shape[:2] != shapes[0][:2] for shape in shapes):
        return NotImplemented
    strategies = [Strategy((Shard(dim),) * 3, Shard(dim)) for dim in (0, 1)]
    call = lambda spec, *parts: func(*parts, None, dropout_p, is_causal, **options)
    return run([query, key, value], [*strategies, whole_of(3)], (*shapes[0][:-1], shapes[2][-1]), call)


@rule("cross_entropy")
def _cross_entropy(
    func,
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    if is_parallel() and any(one.is_shard(1 if input.dim() > 1 else 0) for one in input._spec.placements):
        if weight is not None or label_smoothing != 0.0 or size_average is not None or reduce is not None:
            raise NotImplementedError("loss_parallel: cross_entropy with weights of classes or smoothed labels")
        return cross_entropy_of_classes(input, target, ignore_index, reduction)
    if weight is not None or reduction == "mean" or not isinstance(target, DTensor):
        return NotImplemented
    if input.dim() < 2 or target.dim() != input.dim() - 1:
        return NotImplemented
    shape = target._spec.shape if reduction == "none" else ()
    strategies = [
        Strategy((Shard(dim if dim == 0 else dim + 1), Shard(dim)), Shard(dim) if reduction == "none" else P)
        for dim in range(target.dim())
    ]
    options = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}
    return run([input, target], [*strategies, whole_of(2)], shape, lambda spec, *parts: func(*parts, **options))


# Views.


def _sizes(args):
    return tuple(args[0]) if len(args) == 1 and not isinstance(args[0], int) else args


@rule("view", "reshape")
def _view(func, input, *shape, **options):
    given = shape or tuple(options.values())
    if len(given) == 1 and isinstance(given[0], torch.dtype):
        return _reinterpreted(func, input, given[0])
    shape = _sizes(given)
    old = input._spec.shape
    if any(not isinstance(size, int) for size in shape) or shape.count(-1) > 1 or 0 in shape:
        return NotImplemented
    known = -math.prod(shape) if -1 in shape else math.prod(shape)
    if (-1 in shape and (known == 0 or old.numel() % known != 0)) or (-1 not in shape and known != old.numel()):
        return NotImplemented
    return regrouped(input, tuple(old.numel() // known if size == -1 else size for size in shape))


def _reinterpreted(func, input, dtype):
    """The memory as elements of another dtype, which are along the last dimension if they have another size."""
    old = input._spec.shape
    shape = torch.empty(old, dtype=input.dtype, device="meta").view(dtype).shape
    kept = [Strategy((Shard(dim),), Shard(dim)) for dim in range(len(old) - (dtype.itemsize != input.itemsize))]
    return run([input], [*kept, whole_of(1)], shape, lambda spec, part: func(part, dtype))


@rule("flatten")
def _flatten(func, input, start_dim=0, end_dim=-1):
    shape, count = input._spec.shape, input.dim()
    if count == 0 or not (-count <= start_dim < count and -count <= end_dim < count):
        return NotImplemented
    first, last = start_dim % count, end_dim % count
    if first > last:
        return NotImplemented
    return regrouped(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@rule("unflatten")
def _unflatten(func, input, dim, sizes):
    shape = list(input._spec.shape)
    if not -len(shape) <= dim < len(shape):
        return NotImplemented
    dim %= len(shape)
    return _view(func, input, *shape[:dim], *_settled(shape[dim], tuple(sizes)), *shape[dim + 1 :])


def _settled(whole, sizes):
    known = -math.prod(sizes)
    return tuple(whole // known if size == -1 else size for size in sizes) if -1 in sizes and known else sizes


def _permuted(input, order, call):
    shape = input._spec.shape
    kept = [(old, new) for new, old in enumerate(order)]
    return along(input, kept, tuple(shape[old] for old in order), call)


@rule("transpose", "swapaxes", "swapdims")
def _transpose(func, input, dim0, dim1):
    count = input.dim()
    if not (-count <= dim0 < count and -count <= dim1 < count):
        return NotImplemented
    order = list(range(count))
    order[dim0 % count], order[dim1 % count] = order[dim1 % count], order[dim0 % count]
    return _permuted(input, order, lambda spec, part: part.transpose(dim0, dim1))


@rule("t", "T", "mT")
def _turned(func, input):
    if input.dim() != 2:
        return NotImplemented
    return _permuted(input, [1, 0], lambda spec, part: part.t())


@rule("permute")
def _permute(func, input, *places, dims=None):
    dims, count = _sizes(places if dims is None else (dims,)), input.dim()
    if sorted(dim % count for dim in dims) != list(range(count)):
        return NotImplemented
    return _permuted(input, [dim % count for dim in dims], lambda spec, part: part.permute(dims))


@rule("expand")
def _expanded(func, input, *shape, **options):
    sizes, old = _sizes(shape or tuple(options.values())), input._spec.shape
    new = len(sizes) - len(old)
    if new < 0 or not all(isinstance(size, int) for size in sizes) or any(size < 0 for size in sizes[:new]):
        return NotImplemented
    sizes = [*sizes[:new], *(own if size == -1 else size for size, own in zip(sizes[new:], old))]
    if any(own not in (1, size) for size, own in zip(sizes[new:], old)):
        return NotImplemented
    kept = [(dim, new + dim) for dim, own in enumerate(old) if own == sizes[new + dim]]
    return along(input, kept, sizes, lambda spec, part: part.expand(local_shape(spec)))


@rule("flip")
def _flipped(func, input, *dims, **options):
    dims, count = _sizes(dims or tuple(options.values())), input.dim()
    if not all(isinstance(dim, int) and -count <= dim < count for dim in dims):
        return NotImplemented
    kept = [(dim, dim) for dim in range(count) if dim not in {one % count for one in dims}]
    return along(input, kept, input._spec.shape, lambda spec, part: part.flip(dims))


@rule("unsqueeze")
def _unsqueeze(func, input, dim):
    count = input.dim()
    if not -count - 1 <= dim <= count:
        return NotImplemented
    at, shape = dim % (count + 1), input._spec.shape
    kept = [(one, one + (one >= at)) for one in range(count)]
    return along(input, kept, (*shape[:at], 1, *shape[at:]), lambda spec, part: part.unsqueeze(at))


@rule("squeeze")
def _squeeze(func, input, dim=None):
    shape = input._spec.shape
    if not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        return NotImplemented
    at = dim % len(shape)
    if shape[at] != 1:
        return along(input, [(one, one) for one in range(len(shape))], shape, lambda spec, part: part.view_as(part))
    kept = [(one, one - (one > at)) for one in range(len(shape)) if one != at]
    return along(input, kept, (*shape[:at], *shape[at + 1 :]), lambda spec, part: part.squeeze(at))


@rule("view_as_complex", "view_as_real")
def _other_view(func, input):
    shape, real = input._spec.shape, func.__name__ == "view_as_complex"
    if real and (not shape or shape[-1] != 2):
        return NotImplemented
    kept = [(one, one) for one in range(len(shape) - real)]
    return along(input, kept, shape[:-1] if real else (*shape, 2), lambda spec, part: func(part))


@rule("split", "chunk", "unbind")
def _divided(func, input, *args, **options):
    dim = options.get("dim", (args[0] if args else 0) if func.__name__ == "unbind" else args[1] if len(args) > 1 else 0)
    shape = input._spec.shape
    if not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        return NotImplemented
    at = dim % len(shape)
    # The sizes are those of a tensor without memory.
    sizes = [tuple(part.shape) for part in func(torch.empty(shape, device="meta"), *args, **options)]
    gone = func.__name__ == "unbind"
    kept = [(one, one - (gone and one > at)) for one in range(len(shape)) if one != at]
    return along(input, kept, sizes, lambda spec, part: func(part, *args, **options), several=True)


@rule("cat", "concat", "stack")
def _joined(func, tensors, dim=0):
    given = list(tensors)
    if not given or any(not isinstance(one, DTensor) for one in given):
        return NotImplemented
    shapes, count, new = [one._spec.shape for one in given], given[0].dim(), func.__name__ == "stack"
    if not -count - new <= dim < count + new or any(len(shape) != count for shape in shapes):
        return NotImplemented
    at = dim % (count + new)
    kept = [(one, one + (new and one >= at)) for one in range(count) if new or one != at]
    shape = func([torch.empty(shape, device="meta") for shape in shapes], dim).shape
    strategies = [Strategy((Shard(one),) * len(given), Shard(other)) for one, other in kept]
    strategies += [Strategy((one,) * len(given), one) for one in partials(given)]
    strategies.append(whole_of(len(given)))
    return run(given, strategies, shape, lambda spec, *parts: func(list(parts), dim))


@rule("__getitem__")
def _taken(func, input, index):
    keys = list(index) if isinstance(index, tuple) else [index]
    if any(
        not (key is None or key is Ellipsis or isinstance(key, (int, slice))) or isinstance(key, bool) for key in keys
    ):
        return NotImplemented
    shape = input._spec.shape
    used = sum(key is not None and key is not Ellipsis for key in keys)
    if used > len(shape) or keys.count(Ellipsis) > 1:
        return NotImplemented
    at = keys.index(Ellipsis) if Ellipsis in keys else len(keys)
    keys[at : at + 1] = [slice(None)] * (len(shape) - used)
    made, kept, old = torch.empty(shape, device="meta")[tuple(keys)].shape, [], 0
    new = 0
    for key in keys:
        if isinstance(key, slice) and key == slice(None):
            kept.append((old, new))
        old += key is not None
        new += not isinstance(key, int)
    return along(input, kept, made, lambda spec, part: part[tuple(keys)])
