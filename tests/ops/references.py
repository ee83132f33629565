"""References that are not expressions: the functions of operators in NumPy, by name.

A function takes the operator's arguments by name, as arrays (floats in double precision). `without_reference` lists the
operators that have no reference here or in their definition, with the reasons.
"""

import itertools
import math
import statistics

import numpy as np

REFERENCES = {}


def of(*names):
    """Registers a function as the reference of operators."""

    def keep(function):
        REFERENCES.update(dict.fromkeys(names, function))
        return function

    return keep


def each(function):
    """Applies a function of numbers to arrays that broadcast, in double precision."""
    return np.vectorize(function, otypes=[np.float64])


# Special functions, by Gauss quadrature with full precision, by series, or by recurrence.

_PLACES, _WEIGHTS = np.polynomial.legendre.leggauss(256)


def integral(function, low, high):
    middle, half = (high + low) / 2, (high - low) / 2
    return half * np.sum(_WEIGHTS * function(middle + half * _PLACES))


def bessel_j(n):
    return each(lambda x: integral(lambda t: np.cos(n * t - x * np.sin(t)), 0, np.pi) / np.pi)


def bessel_y(n):
    def y(x):
        if x == 0:
            return -math.inf
        near = integral(lambda t: np.sin(x * np.sin(t) - n * t), 0, np.pi)
        far = integral(lambda t: (np.exp(n * t) + (-1) ** n * np.exp(-n * t)) * np.exp(-x * np.sinh(t)), 0, 8)
        return (near - far) / np.pi

    return each(y)


def bessel_i(n, scaled=False):
    def i(x):
        shift = abs(x) if scaled else 0
        return integral(lambda t: np.exp(x * np.cos(t) - shift) * np.cos(n * t), 0, np.pi) / np.pi

    return each(i)


def bessel_k(n, scaled=False):
    def k(x):
        if x == 0:
            return math.inf
        return integral(lambda t: np.exp(-x * (np.cosh(t) - scaled)) * np.cosh(n * t), 0, 9)

    return each(k)


def quantile(p):
    if 0 < p < 1:
        return statistics.NormalDist().inv_cdf(p)
    return math.inf if p == 1 else -math.inf if p == 0 else math.nan


def of_one(name, function):
    REFERENCES[name] = lambda **given: function(next(iter(given.values())))


for name, function in {
    "bessel_j0": bessel_j(0),
    "bessel_j1": bessel_j(1),
    "bessel_y0": bessel_y(0),
    "bessel_y1": bessel_y(1),
    "modified_bessel_i0": bessel_i(0),
    "modified_bessel_i1": bessel_i(1),
    "i1": bessel_i(1),
    "i1e": bessel_i(1, True),
    "modified_bessel_k0": bessel_k(0),
    "modified_bessel_k1": bessel_k(1),
    "scaled_modified_bessel_k0": bessel_k(0, True),
    "scaled_modified_bessel_k1": bessel_k(1, True),
    "spherical_bessel_j0": lambda x: np.sinc(x / np.pi),
    # Along a line above the real axis the integrand decays like a Gaussian.
    "airy_ai": each(
        lambda x: integral(lambda t: np.exp(1j * ((t + 1j) ** 3 / 3 + x * (t + 1j))).real, -9, 9) / 2 / np.pi
    ),
    "ndtr": each(lambda x: math.erfc(-x / math.sqrt(2)) / 2),
    "log_ndtr": each(lambda x: math.log(math.erfc(-x / math.sqrt(2)) / 2)),
    "ndtri": each(lambda p: quantile(p)),
    "erfcx": each(lambda x: math.exp(x * x) * math.erfc(x)),
    "erfinv": each(lambda y: quantile((y + 1) / 2) / math.sqrt(2)),
}.items():
    of_one(name if name == "erfinv" else f"special.{name}", function)


@each
def zeta(s, a):
    """The sum of `(a + k) ** -s`: a hundred terms, and the Euler-Maclaurin formula for the rest."""
    if not s > 1:
        return math.inf if s == 1 else math.nan
    if a == 0:
        return math.inf
    end = a + 100
    rest = (
        end ** (1 - s) / (s - 1)
        + end**-s / 2
        + s * end ** (-s - 1) / 12
        - s * (s + 1) * (s + 2) * end ** (-s - 3) / 720
    )
    return sum((a + k) ** -s for k in range(100)) + rest


@each
def digamma(x):
    if x == 0:
        return -math.inf
    shift = 100
    y = x + shift
    return math.log(y) - 1 / (2 * y) - 1 / (12 * y**2) + 1 / (120 * y**4) - sum(1 / (x + k) for k in range(shift))


of_one("digamma", digamma)


@of("special.zeta")
def _(self, other):
    return zeta(self, other)


@of("polygamma", "polygamma.method")
def _(self, n):
    return (-1) ** (n + 1) * math.factorial(n) * zeta(n + 1, self) if n else digamma(self)


@of("mvlgamma")
def _(self, p):
    terms = sum(each(math.lgamma)(self - i / 2) for i in range(p))
    return terms + p * (p - 1) / 4 * math.log(math.pi)


@each
def lower_gamma(a, x):
    """The regularised incomplete gamma function, by its series."""
    terms = itertools.accumulate(range(1, 400), lambda term, k: term * x / (a + k), initial=1.0)
    return math.exp(a * math.log(x) - x - math.lgamma(a + 1)) * math.fsum(terms)


@of("igamma")
def _(self, other):
    return lower_gamma(self, other)


@of("igammac")
def _(self, other):
    return 1 - lower_gamma(self, other)


def polynomials(name, first, step, change=lambda x: x):
    """Polynomials in order: 1, `first(x)`, and then each from the two before it."""

    @each
    def value(x, n):
        x, before, now = change(x), 1.0, first(change(x))
        if n < 1:
            return float(n == 0)
        for k in range(1, int(n)):
            before, now = now, step(x, k, now, before)
        return now

    REFERENCES[f"special.{name}"] = lambda x, n: value(x, n)


for kind, first in {
    "t": lambda x: x,
    "u": lambda x: 2 * x,
    "v": lambda x: 2 * x - 1,
    "w": lambda x: 2 * x + 1,
}.items():
    polynomials(f"chebyshev_polynomial_{kind}", first, lambda x, k, b, a: 2 * x * b - a)
    polynomials(f"shifted_chebyshev_polynomial_{kind}", first, lambda x, k, b, a: 2 * x * b - a, lambda x: 2 * x - 1)
polynomials("hermite_polynomial_h", lambda x: 2 * x, lambda x, k, b, a: 2 * x * b - 2 * k * a)
polynomials("hermite_polynomial_he", lambda x: x, lambda x, k, b, a: x * b - k * a)
polynomials("laguerre_polynomial_l", lambda x: 1 - x, lambda x, k, b, a: ((2 * k + 1 - x) * b - k * a) / (k + 1))
polynomials("legendre_polynomial_p", lambda x: x, lambda x, k, b, a: ((2 * k + 1) * x * b - k * a) / (k + 1))


# Activations.


@of("_nan_to_num")
def _(self, nan, posinf, neginf):
    return np.nan_to_num(self, nan=nan, posinf=posinf, neginf=neginf)


@of("_elu", "_celu")
def _(self, **numbers):
    alpha, scale, inner = numbers.values()
    return np.where(self > 0, scale * self, scale * alpha * np.expm1(inner * self))


@of("_gelu")
def _(self, **_):
    return self * each(lambda x: math.erfc(-x / math.sqrt(2)) / 2)(self)


@of("_gelu_tanh")
def _(self, **_):
    return self / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (self + 0.044715 * self**3)))


# Reductions and statistics.


@of("cov")
def _(self, correction, fweights, aweights):
    return np.array(np.cov(self, ddof=correction, fweights=fweights, aweights=aweights))


@of("corrcoef")
def _(self):
    return np.array(np.corrcoef(self))


@of("sum_to_size")
def _(self, size):
    lead = self.ndim - len(size)
    dims = tuple(range(lead)) + tuple(lead + at for at, n in enumerate(size) if n == 1)
    return self.sum(dims, keepdims=True).reshape(size)


def _so_far(better):
    def reference(self, dim):
        if self.ndim == 0:
            return self, np.array(0)
        values, places = np.moveaxis(self, dim, 0).copy(), np.zeros(np.moveaxis(self, dim, 0).shape, np.int64)
        for at in range(1, len(values)):
            newer = better(values[at], values[at - 1])
            values[at] = np.where(newer, values[at], values[at - 1])
            places[at] = np.where(newer, at, places[at - 1])
        return np.moveaxis(values, 0, dim), np.moveaxis(places, 0, dim)

    return reference


REFERENCES["cummax"] = _so_far(np.greater_equal)
REFERENCES["cummin"] = _so_far(np.less_equal)


@of("renorm")
def _(self, p, dim, maxnorm):
    others = tuple(at for at in range(self.ndim) if at != dim % self.ndim)
    norms = (np.abs(self) ** p).sum(others, keepdims=True) ** (1 / p)
    return np.where(norms > maxnorm, self * (maxnorm / (norms + 1e-7)), self)


@of("cumulative_trapezoid.x")
def _(y, x, dim):
    y, x = np.moveaxis(y, dim, -1), np.moveaxis(np.broadcast_to(x, y.shape), dim, -1)
    return np.moveaxis(np.cumsum(np.diff(x) * (y[..., 1:] + y[..., :-1]) / 2, -1), -1, dim)


def _middle(self, dim, keepdim):
    order = np.argsort(self, axis=dim, kind="stable")
    place = np.take(order, [(self.shape[dim] - 1) // 2], axis=dim) if self.ndim else np.array(0)
    values = np.take_along_axis(self, place, dim) if self.ndim else self
    return (values, place) if keepdim or not self.ndim else (values.squeeze(dim), place.squeeze(dim))


# Samples have no equal floats. For equal integers any index is correct, so that only values are compared.
REFERENCES["median.dim"] = REFERENCES["nanmedian.dim"] = lambda self, dim, keepdim: (
    _middle(self, dim, keepdim)[0],
    ...,
)


@of("topk")
def _(self, k, dim, largest, sorted):
    if self.ndim == 0:
        return self, ...
    ordered = np.sort(self, axis=dim)
    ordered = np.flip(ordered, dim) if largest else ordered
    return np.take(ordered, np.arange(k), axis=dim), ...


@of("mode")
def _(self, dim, keepdim):
    def most(row):
        values, counts = np.unique(row, return_counts=True)
        return values[counts.argmax()]

    values = np.apply_along_axis(most, dim, self) if self.ndim else self
    return np.expand_dims(values, dim) if keepdim and self.ndim else values, ...


@of("histc")
def _(self, bins, min, max):
    low, high = (self.min(), self.max()) if min == max else (min, max)
    return np.histogram(self, bins, (low, high))[0]


# Indices.


def _after(change):
    """The reference of an operator that returns its first argument with changes."""

    def reference(self, **rest):
        result = self.copy()
        changed = change(result, **rest)
        return result if changed is None else changed

    return reference


def _along(dim, index):
    return (slice(None),) * dim + (index,)


def _add(self, dim, index, source, alpha):
    np.add.at(self, _along(dim % max(self.ndim, 1), index), source * alpha)


def _copy(self, dim, index, source):
    self[_along(dim % max(self.ndim, 1), index)] = source


def _fill(self, dim, index, value):
    self[_along(dim % max(self.ndim, 1), index)] = value


REFERENCES |= {
    "index_add": _after(_add),
    "index_copy": _after(_copy),
    "index_fill": _after(_fill),
    "index_fill.int_Tensor": _after(_fill),
}


def _put(self, indices, values, accumulate, **_):
    (np.add.at if accumulate else lambda a, at, b: a.__setitem__(at, b))(self, tuple(indices), values)


REFERENCES["index_put"] = _after(_put)


@of("put")
def _(self, index, source, accumulate):
    flat = self.reshape(-1).copy()
    if accumulate:
        np.add.at(flat, index.reshape(-1), source.reshape(-1))
    else:
        flat[index.reshape(-1)] = source.reshape(-1)
    return flat.reshape(self.shape)


@of("_index")
def _(self, indices, dims):
    # The operator's order of dimensions: those of the indices replace the first dimension.
    where = [slice(None)] * self.ndim
    for dim, index in zip(dims, indices):
        where[dim] = index
    found = self[tuple(where)]
    apart = any(b - a > 1 for a, b in itertools.pairwise(dims))
    rank = np.broadcast(*indices).ndim
    return np.moveaxis(found, range(rank), range(dims[0], dims[0] + rank)) if apart else found


def _scatter(self, dim, index, put):
    for place in np.ndindex(index.shape):
        target = list(place)
        if target:
            target[dim] = index[place]
        self[tuple(target)] = put(self[tuple(target)], place)
    return self


def _scattered(join):
    def reference(self, dim, index, src=None, value=None, reduce=None):
        given = (lambda place: src[place]) if src is not None else lambda place: value
        ways = {None: join, "add": lambda a, b: a + b, "multiply": lambda a, b: a * b}
        return _scatter(self.copy(), dim, index, lambda old, place: ways[reduce](old, given(place)))

    return reference


REFERENCES |= dict.fromkeys(
    ["scatter", "scatter.value", "scatter.reduce", "scatter.value_reduce"], _scattered(lambda old, new: new)
)
REFERENCES["scatter_add"] = _scattered(lambda old, new: old + new)


def _merged(self, dim, index, source, reduce, include_self):
    """`scatter_reduce` element by element: reduces the list of values for each index."""
    lists = {}
    for place in np.ndindex(index.shape):
        target = list(place)
        if target:
            target[dim] = int(index[place])
        lists.setdefault(tuple(target), []).append(source[place])
    result = self.copy()
    ways = {"sum": sum, "prod": math.prod, "amax": max, "amin": min}
    for target, values in lists.items():
        values = [*([self[target]] if include_self else []), *values]
        if reduce == "mean":
            total = sum(values) / len(values)
            result[target] = math.floor(total) if self.dtype.kind in "iu" else total
        else:
            result[target] = ways[reduce](values)
    return result


@of("scatter_reduce")
def _(self, dim, index, src, reduce, include_self):
    return _merged(self, dim, index, src, reduce, include_self)


@of("index_reduce")
def _(self, dim, index, source, reduce, include_self):
    spread = index.reshape([-1 if at == dim % self.ndim else 1 for at in range(self.ndim)])
    return _merged(self, dim, np.broadcast_to(spread, source.shape), source, reduce, include_self)


@of("masked_scatter", "masked_scatter.out_of_place")
def _(self, mask, source):
    shape = np.broadcast_shapes(self.shape, mask.shape)
    result, mask = np.broadcast_to(self, shape).copy(), np.broadcast_to(mask, shape)
    result[mask] = source.reshape(-1)[: mask.sum()]
    return result


@of("nonzero_static")
def _(self, size, fill_value):
    found = np.argwhere(self)[:size]
    return np.concatenate([found, np.full((size - len(found), self.ndim), fill_value)])


# Concatenation, and parts of tensors.


@of("diag_embed")
def _(self, offset, dim1, dim2):
    size = self.shape[-1] + abs(offset)
    result = np.zeros((*self.shape[:-1], size, size), self.dtype)
    places = np.arange(self.shape[-1])
    result[..., places + max(-offset, 0), places + max(offset, 0)] = self
    return np.moveaxis(result, (-2, -1), (dim1, dim2))


@of("block_diag")
def _(tensors):
    blocks = [np.atleast_2d(block) for block in tensors]
    result = np.zeros(np.sum([block.shape for block in blocks], 0), np.result_type(*tensors))
    row = col = 0
    for block in blocks:
        result[row : row + block.shape[0], col : col + block.shape[1]] = block
        row, col = row + block.shape[0], col + block.shape[1]
    return result


@of("slice_scatter")
def _(self, src, dim, start, end, step):
    result = self.copy()
    result[_along(dim % self.ndim, slice(start, end, step))] = src
    return result


@of("select_scatter")
def _(self, src, dim, index):
    result = self.copy()
    result[_along(dim % self.ndim, index)] = src
    return result


@of("diagonal_scatter")
def _(self, src, offset, dim1, dim2):
    result = self.copy()
    places = np.arange(src.shape[-1])
    np.moveaxis(result, (dim1, dim2), (-2, -1))[..., places + max(-offset, 0), places + max(offset, 0)] = src
    return result


@of("as_strided_scatter")
def _(self, src, size, stride, storage_offset):
    result = self.reshape(-1).copy()
    for place in np.ndindex(*size):
        result[(storage_offset or 0) + sum(n * step for n, step in zip(place, stride))] = src[place]
    return result.reshape(self.shape)


@of("fill_diagonal")
def _(self, fill_value, wrap):
    result = self.copy()
    np.fill_diagonal(result, fill_value, wrap)
    return result


def _padded(own, pad, **how):
    """NumPy's `pad`, also with negative widths."""
    pads = _pads(pad, own.ndim)
    cut = own[tuple(slice(max(-a, 0), size - max(-b, 0)) for (a, b), size in zip(pads, own.shape))]
    return np.pad(cut, [(max(a, 0), max(b, 0)) for a, b in pads], **how)


def _pads(pad, rank):
    return [(0, 0)] * (rank - len(pad) // 2) + [tuple(pad[at : at + 2]) for at in range(len(pad) - 2, -1, -2)]


@of("constant_pad_nd")
def _(self, pad, value):
    return _padded(self, pad, constant_values=value)


@of("nn.functional.pad", "_pad_borders")
def _(mode, pad=None, padding=None, value=None, **rest):
    own = rest.get("input", rest.get("self"))
    pad = pad if pad is not None else padding
    if mode == "constant":
        return _padded(own, pad, constant_values=value or 0)
    return _padded(own, pad, mode={"replicate": "edge", "circular": "wrap"}.get(mode, mode))


@of("cartesian_prod")
def _(tensors):
    grids = np.meshgrid(*tensors, indexing="ij")
    return tensors[0] if len(tensors) == 1 else np.stack([grid.reshape(-1) for grid in grids], -1)


# Linear algebra with a unique result.


@of("cholesky_inverse")
def _(self, upper):
    factor = np.triu(self).conj().swapaxes(-2, -1) if upper else np.tril(self)
    return np.linalg.inv(factor @ factor.conj().swapaxes(-2, -1))


@of("linalg.matrix_norm", "linalg.norm", "linalg.norm.ord_str")
def _(dim, keepdim, ord=None, **rest):
    own = rest.get("A", rest.get("self"))
    dim = tuple(dim) if isinstance(dim, (list, tuple)) and len(dim) > 1 else dim
    return np.linalg.norm(own, ord, dim, keepdim)


@of("frobenius_norm")
def _(self, dim, keepdim):
    return np.sqrt((np.abs(self) ** 2).sum(tuple(dim) if isinstance(dim, (list, tuple)) else dim, keepdims=keepdim))


@of("linalg.matrix_rank")
def _(tol=None, rtol=None, atol=None, **rest):
    own = rest.get("input", rest.get("self", rest.get("A")))
    return np.array(np.linalg.matrix_rank(own, tol=atol))


# Losses.


def _reduced(losses, reduction):
    return {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]


@of("nn.functional.l1_loss")
def _(reduction, weight=None, **rest):
    own, target = itertools.islice(rest.values(), 2)
    if weight is not None:
        # The mean divides by the weights.
        total = np.abs(own - target) * weight
        return total.sum() / weight.sum() if reduction == "mean" else _reduced(total, reduction)
    return _reduced(np.abs(own - target), reduction)


@of("nn.functional.poisson_nll_loss")
def _(input, target, log_input, full, eps, reduction, **_):
    input = input * 1.0
    losses = np.exp(input) - target * input if log_input else input - target * np.log(input + eps)
    if full:
        stirling = target * np.log(target) - target + 0.5 * np.log(2 * np.pi * target)
        losses = losses + np.where(target > 1, stirling, 0)
    return _reduced(losses, reduction)


@of("nn.functional.gaussian_nll_loss")
def _(input, target, var, full, eps, reduction):
    var = np.maximum(var, eps)
    return _reduced((np.log(var) + (input - target) ** 2 / var) / 2 + full * math.log(2 * math.pi) / 2, reduction)
