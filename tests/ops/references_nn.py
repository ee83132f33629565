"""References of neural network operators and of linear algebra; see `references`."""

import itertools
import math

import numpy as np
from references import REFERENCES, of


def tuple_of(value, count):
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return values * count if len(values) == 1 else values


# Windows: convolutions and pooling, one output position at a time.


def _windows(x, rank, kernel, stride, padding, dilation, fill, sizes=None):
    """(output position, its window) for the last `rank` dimensions of padded `x`."""
    pads = [(0, 0)] * (x.ndim - rank) + [
        (p, p + 2 * k * d + s) for p, k, d, s in zip(padding, kernel, dilation, stride)
    ]
    wide = np.pad(x, pads, constant_values=fill)
    for place in np.ndindex(*sizes):
        cut = [slice(n * s, n * s + (k - 1) * d + 1, d) for n, s, k, d in zip(place, stride, kernel, dilation)]
        yield place, wide[(..., *cut)]


def _counts(x, rank, kernel, stride, padding, dilation, ceil=False):
    """The number of windows along each dimension; with `ceil` also one that begins within the padded input."""
    counts = []
    for size, k, s, p, d in zip(x.shape[-rank:], kernel, stride, padding, dilation):
        room = size + 2 * p - d * (k - 1) - 1
        count = -(-room // s) + 1 if ceil else room // s + 1
        counts.append(count - 1 if ceil and (count - 1) * s >= size + p else count)
    return counts


def _conv(rank):
    def reference(input, weight, bias, stride, padding, dilation, groups):
        kernel = weight.shape[2:]
        stride, dilation = tuple_of(stride, rank), tuple_of(dilation, rank)
        x = input[None] if input.ndim == rank + 1 else input
        if padding == "same":
            sides = [d * (k - 1) for k, d in zip(kernel, dilation)]
            x = np.pad(x, [(0, 0), (0, 0), *[(side // 2, side - side // 2) for side in sides]])
        padding = (0,) * rank if isinstance(padding, str) else tuple_of(padding, rank)
        sizes = _counts(x, rank, kernel, stride, padding, dilation)
        result = np.zeros((len(x), len(weight), *sizes), np.result_type(x, weight))
        own, out = x.shape[1] // groups, len(weight) // groups
        for place, window in _windows(x, rank, kernel, stride, padding, dilation, 0, sizes):
            for g in range(groups):
                part, filters = window[:, g * own : (g + 1) * own], weight[g * out : (g + 1) * out]
                result[(slice(None), slice(g * out, (g + 1) * out), *place)] = np.tensordot(
                    part, filters, (range(1, rank + 2), range(1, rank + 2))
                )
        if bias is not None:
            result = result + bias.reshape(-1, *[1] * rank)
        return result[0] if input.ndim == rank + 1 else result

    return reference


def _conv_transpose(rank):
    def reference(input, weight, bias, stride, padding, output_padding, groups, dilation):
        stride, padding, dilation = (tuple_of(value, rank) for value in (stride, padding, dilation))
        more, kernel = tuple_of(output_padding, rank), weight.shape[2:]
        x = input[None] if input.ndim == rank + 1 else input
        full = [(n - 1) * s + d * (k - 1) + 1 + m for n, s, k, d, m in zip(x.shape[2:], stride, kernel, dilation, more)]
        own, out = x.shape[1] // groups, weight.shape[1]
        wide = np.zeros((len(x), out * groups, *full), np.result_type(x, weight))
        for place in np.ndindex(*x.shape[2:]):
            cut = [slice(n * s, n * s + (k - 1) * d + 1, d) for n, s, k, d in zip(place, stride, kernel, dilation)]
            for g in range(groups):
                part = x[(slice(None), slice(g * own, (g + 1) * own), *place)]
                spread = np.tensordot(part, weight[g * own : (g + 1) * own], (1, 0))
                wide[(slice(None), slice(g * out, (g + 1) * out), *cut)] += spread
        inside = [slice(p, size - p) for p, size in zip(padding, full)]
        result = wide[(..., *inside)]
        if bias is not None:
            result = result + bias.reshape(-1, *[1] * rank)
        return result[0] if input.ndim == rank + 1 else result

    return reference


def _max_pool(rank, with_places):
    def reference(self, kernel_size, stride, padding, dilation, ceil_mode):
        kernel, padding, dilation = (tuple_of(value, rank) for value in (kernel_size, padding, dilation))
        stride = tuple_of(stride, rank) if stride else kernel
        sizes = _counts(self, rank, kernel, stride, padding, dilation, ceil_mode)
        low = np.iinfo(self.dtype).min if self.dtype.kind in "iu" else -np.inf
        places = np.arange(math.prod(self.shape[-rank:])).reshape(self.shape[-rank:])
        own = _windows(self, rank, kernel, stride, padding, dilation, low, sizes)
        numbers = _windows(places, rank, kernel, stride, padding, dilation, -1, sizes)
        result = np.zeros((*self.shape[:-rank], *sizes), self.dtype)
        where = np.zeros(result.shape, np.int64)
        for (place, window), (_, number) in zip(own, numbers):
            flat = np.where(number >= 0, window, low).reshape(*self.shape[:-rank], -1)
            result[(..., *place)] = flat.max(-1)
            where[(..., *place)] = number.reshape(-1)[flat.argmax(-1)]
        # Any index is correct among equal integers.
        return (result, where if self.dtype.kind == "f" else ...) if with_places else result

    return reference


def _max_pool_if_asked(rank):
    def reference(input, return_indices, **windows):
        return _max_pool(rank, return_indices)(input, **windows)

    return reference


def _avg_pool(rank):
    def reference(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override=None):
        kernel, padding, ones = tuple_of(kernel_size, rank), tuple_of(padding, rank), (1,) * rank
        stride = tuple_of(stride, rank) if stride else kernel
        sizes = _counts(self, rank, kernel, stride, padding, ones, ceil_mode)
        result = np.zeros((*self.shape[:-rank], *sizes), self.dtype)
        shape = self.shape[-rank:]
        for place, window in _windows(self, rank, kernel, stride, padding, ones, 0, sizes):
            count = 1
            for n, s, k, p, size in zip(place, stride, kernel, padding, shape):
                low, high = n * s - p, min(n * s - p + k, size + p)
                count *= high - low if count_include_pad else min(high, size) - max(low, 0)
            result[(..., *place)] = window.reshape(*self.shape[:-rank], -1).sum(-1) / (divisor_override or count)
        return result

    return reference


def _adaptive(rank):
    def reference(self, output_size):
        sizes = [size or own for size, own in zip(tuple_of(output_size, rank), self.shape[-rank:])]
        result = np.zeros((*self.shape[:-rank], *sizes), self.dtype)
        for place in np.ndindex(*sizes):
            cut = [
                slice(n * own // size, -(-(n + 1) * own // size))
                for n, size, own in zip(place, sizes, self.shape[-rank:])
            ]
            result[(..., *place)] = self[(..., *cut)].reshape(*self.shape[:-rank], -1).mean(-1)
        return result

    return reference


def _adaptive_max(rank):
    def reference(output_size, return_indices=True, **rest):
        (own,) = rest.values()
        sizes = [size or n for size, n in zip(tuple_of(output_size, rank), own.shape[-rank:])]
        result = np.zeros((*own.shape[:-rank], *sizes), own.dtype)
        where = np.zeros(result.shape, np.int64)
        places = np.arange(math.prod(own.shape[-rank:])).reshape(own.shape[-rank:])
        for place in np.ndindex(*sizes):
            cut = [
                slice(n * all_ // size, -(-(n + 1) * all_ // size)) for n, size, all_ in zip(place, sizes, places.shape)
            ]
            flat = own[(..., *cut)].reshape(*own.shape[:-rank], -1)
            result[(..., *place)] = flat.max(-1)
            where[(..., *place)] = places[tuple(cut)].reshape(-1)[flat.argmax(-1)]
        return result, where

    return reference


for rank in (1, 2, 3):
    REFERENCES[f"nn.functional.adaptive_max_pool{rank}d_with_indices"] = _adaptive_max(rank)
    REFERENCES[f"conv{rank}d"] = REFERENCES[f"conv{rank}d.padding"] = _conv(rank)
    REFERENCES[f"conv_transpose{rank}d"] = _conv_transpose(rank)
    REFERENCES[f"max_pool{rank}d"] = _max_pool(rank, False)
    REFERENCES[f"nn.functional.max_pool{rank}d"] = _max_pool_if_asked(rank)
    REFERENCES[f"max_pool{rank}d_with_indices"] = _max_pool(rank, True)
    REFERENCES[f"nn.functional.avg_pool{rank}d"] = _avg_pool(rank)
    REFERENCES[f"nn.functional.adaptive_avg_pool{rank}d"] = _adaptive(rank)


def _columns(size, kernel, dilation, padding, stride):
    """For each column of `unfold`, the positions of its elements in the padded input."""
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in zip(size, kernel, dilation, padding, stride)]
    for column, place in enumerate(np.ndindex(*counts)):
        yield (
            column,
            tuple(slice(n * s, n * s + (k - 1) * d + 1, d) for n, s, k, d in zip(place, stride, kernel, dilation)),
        )


@of("_adaptive_max")
def _(self, output):
    return _adaptive_max(len(output))(output, self=self)


@of("nn.functional.unfold.im2col")
def _(input, kernel_size, dilation, padding, stride):
    kernel, dilation, padding, stride = (tuple_of(value, 2) for value in (kernel_size, dilation, padding, stride))
    wide = np.pad(input, [(0, 0)] * (input.ndim - 2) + [(p, p) for p in padding])
    lead = (*input.shape[:-3], -1)
    columns = [
        wide[(..., *cut)].reshape(lead) for _, cut in _columns(input.shape[-2:], kernel, dilation, padding, stride)
    ]
    return np.stack(columns, -1)


@of("nn.functional.fold")
def _(input, output_size, kernel_size, dilation, padding, stride):
    size, kernel, dilation, padding, stride = (
        tuple_of(value, 2) for value in (output_size, kernel_size, dilation, padding, stride)
    )
    lead = (*input.shape[:-2], input.shape[-2] // math.prod(kernel))
    wide = np.zeros((*lead, *[n + 2 * p for n, p in zip(size, padding)]), input.dtype)
    for column, cut in _columns(size, kernel, dilation, padding, stride):
        wide[(..., *cut)] += input[..., column].reshape(*lead, *kernel)
    return wide[(..., *[slice(p, p + n) for n, p in zip(size, padding)])]


# Attention, normalisation, recurrence.


def _softmax(x):
    with np.errstate(all="ignore"):
        weights = np.exp(x - np.max(x, -1, keepdims=True))
        return np.nan_to_num(weights / weights.sum(-1, keepdims=True))


@of("nn.functional.scaled_dot_product_attention")
def _(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    if dropout_p:
        return None
    if enable_gqa:
        key, value = (np.repeat(x, query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ key.swapaxes(-1, -2) * (scale or 1 / math.sqrt(query.shape[-1]))
    if is_causal:
        attn_mask = np.tri(*scores.shape[-2:], dtype=bool)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    return _softmax(scores) @ value


def _normal(x, dims, eps, weight, bias, mean=None, var=None):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    mean = x.mean(dims, keepdims=True) if mean is None else mean.reshape(shape)
    var = x.var(dims, keepdims=True) if var is None else var.reshape(shape)
    x = (x - mean) / np.sqrt(var + eps)
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


@of("nn.functional.batch_norm")
def _(input, running_mean, running_var, weight, bias, training, momentum, eps):
    dims = (0, *range(2, input.ndim))
    return _normal(input, dims, eps, weight, bias, *((None, None) if training else (running_mean, running_var)))


@of("nn.functional.instance_norm")
def _(input, weight, bias, eps, **_):
    return _normal(input, tuple(range(2, input.ndim)), eps, weight, bias)


@of("nn.functional.local_response_norm")
def _(input, size, alpha, beta, k):
    square = np.pad(input**2, [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (input.ndim - 2))
    sums = sum(square[:, at : at + input.shape[1]] for at in range(size))
    return input / (k + alpha * sums / size) ** beta


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _cell(kind, x, state, w_ih, w_hh, b_ih, b_hh, project=None):
    own, past = x @ w_ih.T + b_ih, state[0] @ w_hh.T + b_hh
    if kind in ("tanh", "relu"):
        return (np.tanh(own + past) if kind == "tanh" else np.maximum(own + past, 0),)
    if kind == "gru":
        (r, z, n), (hr, hz, hn) = np.split(own, 3, -1), np.split(past, 3, -1)
        r, z = _sigmoid(r + hr), _sigmoid(z + hz)
        return ((1 - z) * np.tanh(n + r * hn) + z * state[0],)
    i, f, g, o = np.split(own + past, 4, -1)
    cell = _sigmoid(f) * state[1] + _sigmoid(i) * np.tanh(g)
    hidden = _sigmoid(o) * np.tanh(cell)
    return (hidden if project is None else hidden @ project.T, cell)


@of("lstm_cell")
def _(input, hx, w_ih, w_hh, b_ih, b_hh):
    return _cell("lstm", input, hx, w_ih, w_hh, *(0 if b is None else b for b in (b_ih, b_hh)))


def _recurrent(kind):
    def reference(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        states = hx if kind == "lstm" else (hx,)
        x = input.swapaxes(0, 1) if batch_first else input
        ways, lasts = 1 + bidirectional, []
        each = len(params) // (num_layers * ways)
        for layer in range(num_layers):
            sides = []
            for way in range(ways):
                at = layer * ways + way
                own = params[at * each : (at + 1) * each]
                biases = own[2:4] if has_biases else (0, 0)
                project = own[-1] if each == 2 + 2 * has_biases + 1 else None
                state, steps = tuple(part[at] for part in states), []
                for step in reversed(range(len(x))) if way else range(len(x)):
                    state = _cell(kind, x[step], state, *own[:2], *biases, project)
                    steps.append(state[0])
                sides.append(np.stack(steps[::-1] if way else steps))
                lasts.append(state)
            x = np.concatenate(sides, -1)
        ends = [np.stack(parts) for parts in zip(*lasts)]
        return (x.swapaxes(0, 1) if batch_first else x, *ends)

    return reference


REFERENCES |= {"rnn_tanh": _recurrent("tanh"), "rnn_relu": _recurrent("relu"), "gru": _recurrent("gru")}
REFERENCES["lstm"] = _recurrent("lstm")


@of("_linear_recurrence")
def _(self, factor, dim):
    values, factors = np.moveaxis(self, dim, 0).copy(), np.moveaxis(factor, dim, 0)
    for at in range(1, len(values)):
        values[at] += factors[at] * values[at - 1]
    return np.moveaxis(values, 0, dim)


# Losses and embeddings.


def _log_softmax(x, dim):
    x = x - x.max(dim, keepdims=True)
    return x - np.log(np.exp(x).sum(dim, keepdims=True))


def _reduced(losses, reduction):
    return {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]


def _nll(input, target, weight, ignore_index, reduction, smoothing=0.0):
    """The negative scores of the target classes. The mean divides by their weights."""
    dim = 0 if input.ndim == 1 else 1
    weight = np.ones(input.shape[dim]) if weight is None else weight
    counts = target != ignore_index
    right = np.where(counts, target, 0)
    own = -np.take_along_axis(input, np.expand_dims(right, dim), dim).squeeze(dim) * weight[right] * counts
    all_ = -(np.moveaxis(input, dim, -1) * weight).sum(-1) * counts
    losses = own * (1 - smoothing) + all_ * smoothing / input.shape[dim]
    return losses.sum() / (weight[right] * counts).sum() if reduction == "mean" else _reduced(losses, reduction)


@of("nn.functional.nll_loss")
def _(input, target, weight, ignore_index, reduction, **_):
    return _nll(input, target, weight, ignore_index, reduction)


@of("nn.functional.cross_entropy")
def _(input, target, weight, ignore_index, reduction, label_smoothing, **_):
    dim = 0 if input.ndim == 1 else 1
    scores = _log_softmax(input, dim)
    if target.shape != input.shape:
        return _nll(scores, target, weight, ignore_index, reduction, label_smoothing)
    target = target * (1 - label_smoothing) + label_smoothing / input.shape[dim]
    losses = -(np.moveaxis(scores * target, dim, -1) * (1 if weight is None else weight)).sum(-1)
    return losses.sum() / (input.size / input.shape[dim]) if reduction == "mean" else _reduced(losses, reduction)


@of("_binary_cross_entropy")
def _(self, target):
    return -(target * np.log(self) + (1 - target) * np.log(1 - self))


@of("_mse_loss")
def _(self, target, reduction):
    return _reduced((self - target) ** 2, ("none", "mean", "sum")[reduction])


@of("nn.functional.kl_div")
def _(input, target, reduction, log_target, **_):
    losses = np.exp(target) * (target - input) if log_target else target * (np.log(target) - input)
    return losses.sum() / len(input) if reduction == "batchmean" else _reduced(losses, reduction)


@of("nn.functional.multilabel_margin_loss")
def _(input, target, reduction, **_):
    losses = []
    for scores, classes in zip(np.atleast_2d(input), np.atleast_2d(target)):
        right = list(itertools.takewhile(lambda label: label >= 0, classes))
        others = [at for at in range(len(scores)) if at not in right]
        pairs = itertools.product(right, others)
        losses.append(sum(max(0, 1 - scores[a] + scores[b]) for a, b in pairs) / len(scores))
    losses = np.array(losses) if input.ndim > 1 else np.array(losses[0])
    return _reduced(losses, reduction)


@of("nn.functional.cosine_embedding_loss")
def _(input1, input2, target, margin, reduction, **_):
    input1, input2 = input1 * 1.0, input2 * 1.0
    norms = np.sqrt(((input1**2).sum(-1) + 1e-12) * ((input2**2).sum(-1) + 1e-12))
    cosine = (input1 * input2).sum(-1) / norms
    losses = np.where(target == 1, 1 - cosine, np.where(target == -1, np.maximum(cosine - margin, 0), 0))
    return _reduced(losses, reduction)


@of("nn.functional.multilabel_soft_margin_loss")
def _(input, target, weight, reduction, **_):
    losses = -(target * np.log(_sigmoid(input)) + (1 - target) * np.log(_sigmoid(-input)))
    return _reduced((losses * (1 if weight is None else weight)).mean(-1), reduction)


@of("nn.functional.multi_margin_loss")
def _(input, target, p, margin, weight, reduction, **_):
    losses = []
    for scores, right in zip(np.atleast_2d(input), np.atleast_1d(target)):
        own = np.maximum(0, margin - scores[right] + np.delete(scores, right)) ** p
        losses.append(own.sum() * (1 if weight is None else weight[right]) / len(scores))
    return _reduced(np.array(losses) if input.ndim > 1 else np.array(losses[0]), reduction)


@of("nn.functional.triplet_margin_loss")
def _(anchor, positive, negative, margin, p, eps, swap, reduction, **_):
    def distance(a, b):
        return (np.abs(a - b + eps) ** p).sum(-1) ** (1 / p)

    far = distance(anchor, negative)
    far = np.minimum(far, distance(positive, negative)) if swap else far
    return _reduced(np.maximum(0, distance(anchor, positive) - far + margin), reduction)


@of("rrelu")
def _(input, lower, upper, training, **_):
    return None if training and lower != upper else np.where(input > 0, input, input * (lower + upper) / 2)


@of("dropout")
def _(input, p, train):
    return None if train and 0 < p < 1 else input * (0 if train and p else 1)


@of("embedding_dense_backward")
def _(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq and grad_output.dtype.kind != "f":
        return None
    result = np.zeros((num_weights, grad_output.shape[-1]), grad_output.dtype)
    counts = np.bincount(indices.reshape(-1), minlength=num_weights)
    for row, grad in zip(indices.reshape(-1), grad_output.reshape(-1, grad_output.shape[-1])):
        if row != padding_idx:
            result[row] += grad / counts[row] if scale_grad_by_freq else grad
    return result


@of("embedding_renorm_")
def _(self, indices, max_norm, norm_type):
    result = self.copy()
    for row in np.unique(indices):
        norm = np.linalg.norm(result[row], norm_type)
        if norm > max_norm:
            result[row] *= max_norm / (norm + 1e-7)
    return result


@of("embedding_bag")
def _(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx, **_):
    ends = offsets if include_last_offset else [*offsets, len(indices)]
    bags = []
    for start, end in itertools.pairwise(ends):
        kept = [at for at in range(start, end) if indices[at] != padding_idx]
        rows = weight[indices[kept]] * (1 if per_sample_weights is None else per_sample_weights[kept][:, None])
        empty = np.zeros(weight.shape[1])
        bags.append([rows.sum(0), rows.mean(0) if kept else empty, rows.max(0) if kept else empty][mode])
    return np.stack(bags), ..., ..., ...


@of("affine_grid_generator")
def _(theta, size, align_corners):
    def places(n):
        return np.linspace(-1, 1, n) * (1 if align_corners or n == 1 else (n - 1) / n)

    axes = [places(n) if n > 1 else np.zeros(1) for n in size[2:]]
    grid = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(size[2:])], -1)
    return np.einsum("...k,njk->n...j", grid, theta)


# Linear algebra.


@of("linalg.solve_triangular")
def _(self, B, upper, left, unitriangular):
    a = np.triu(self) if upper else np.tril(self)
    if unitriangular:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return np.linalg.solve(a, B) if left else np.linalg.solve(a.swapaxes(-1, -2), B.swapaxes(-1, -2)).swapaxes(-1, -2)


@of("triangular_solve")
def _(self, A, upper, transpose, unitriangular):
    a = np.triu(A) if upper else np.tril(A)
    return np.linalg.solve(a.swapaxes(-1, -2) if transpose else a, self), ...


@of("cholesky_solve")
def _(self, input2, upper):
    factor = np.triu(input2).conj().swapaxes(-1, -2) if upper else np.tril(input2)
    return np.linalg.solve(factor @ factor.conj().swapaxes(-1, -2), self)


@of("cholesky")
def _(self, upper):
    factor = np.linalg.cholesky(self)
    return factor.conj().swapaxes(-1, -2) if upper else factor


@of("linalg.cholesky_ex")
def _(self, upper, check_errors):
    factor = np.linalg.cholesky(self)
    return (factor.conj().swapaxes(-1, -2) if upper else factor), np.zeros(self.shape[:-2], np.int32)


def _unpacked(data, pivots):
    """P, L and U from the factors in one matrix and the exchanged rows."""
    m, n = data.shape[-2:]
    k = min(m, n)
    order = np.arange(m)
    for at, other in enumerate(pivots):
        order[[at, other - 1]] = order[[other - 1, at]]
    p = np.zeros((m, m), data.dtype)
    p[order, np.arange(m)] = 1
    return p, np.tril(data[:, :k], -1) + np.eye(m, k), np.triu(data[:k])


@of("lu_unpack")
def _(LU_data, LU_pivots, unpack_data, unpack_pivots):
    return _unpacked(LU_data, LU_pivots)


def _lu_solve(data, pivots, b, left=True, adjoint=False):
    p, lower, upper = _unpacked(data, pivots)
    a = p @ lower @ upper
    a = a.conj().T if adjoint else a
    return np.linalg.solve(a, b) if left else np.linalg.solve(a.T, b.swapaxes(-1, -2)).swapaxes(-1, -2)


@of("linalg.lu_solve")
def _(LU, pivots, B, left, adjoint):
    return _lu_solve(LU, pivots, B, left, adjoint)


@of("lu_solve")
def _(self, LU_data, LU_pivots):
    return _lu_solve(LU_data, LU_pivots, self)


def _reflections(vectors, tau, columns):
    m = len(vectors)
    result = np.eye(m, dtype=np.result_type(vectors, tau))
    for at, factor in enumerate(tau):
        v = np.where(np.arange(m) > at, vectors[:, at], 0) + np.eye(m)[at]
        result = result @ (np.eye(m) - factor * np.outer(v, v.conj()))
    return result[:, :columns]


@of("linalg.householder_product", "orgqr")
def _(tau=None, input2=None, **rest):
    (own,) = rest.values()
    tau = input2 if tau is None else tau
    flat = zip(own.reshape(-1, *own.shape[-2:]), tau.reshape(-1, tau.shape[-1])) if own.size else ()
    parts = [_reflections(a, t, own.shape[-1]) for a, t in flat]
    return np.reshape(parts, own.shape) if parts else own


@of("ormqr", "_reflect")
def _(self, left, transpose=None, adjoint=None, **rest):
    tau, other = rest.values()
    result = np.empty_like(other)
    for place in np.ndindex(self.shape[:-2]):
        q = _reflections(self[place], tau[place], self.shape[-2])
        q = q.conj().T if transpose or adjoint else q
        result[place] = q @ other[place] if left else other[place] @ q
    return result


@of("_linalg_slogdet")
def _(A):
    return tuple(np.linalg.slogdet(A))


@of("linalg.pinv.rcond")
def _(self, rcond, hermitian):
    return np.linalg.pinv(self, rcond)


@of("linalg.lstsq")
def _(self, b, **_):
    return np.linalg.pinv(self) @ b, ..., ..., ...
