"""Strategies for hypothesis: dtypes, shapes that broadcast or do not, and NumPy arrays with every kind of strides.

Arrays rather than tensors are drawn, since the array is the oracle as well: ``torch.from_numpy`` takes its strides over.
This is the only part of rushlight that imports hypothesis and NumPy, and nothing imports it unasked.
"""

import numpy as np
from hypothesis import strategies as st

__all__ = ["LAYOUTS", "arrays", "broadcastable_shapes", "dtypes", "operands", "shapes", "unbroadcastable_shapes"]

_KINDS = {
    "bool": ("bool",),
    "int": ("uint8", "int8", "int16", "int32", "int64"),
    "float": ("float16", "float32", "float64"),
    "complex": ("complex64", "complex128"),
}

#: How an array may lie in memory.
LAYOUTS = ("contiguous", "transposed", "sliced", "reversed", "expanded", "offset")


def dtypes(*kinds):
    """Names of dtypes of some kinds ("bool", "int", "float", "complex"), of all unless told."""
    return st.sampled_from([name for kind in kinds or _KINDS for name in _KINDS[kind]])


def shapes(max_rank=4, max_side=4):
    """Shapes from no dimension on, with sides from zero on."""
    return st.lists(st.integers(0, max_side), max_size=max_rank).map(tuple)


@st.composite
def broadcastable_shapes(draw, count=2, max_rank=4, max_side=4):
    """``(shapes, result)``: some shapes that broadcast, and to what."""
    whole = draw(shapes(max_rank, max_side))
    found = []
    for _ in range(count):
        rank = draw(st.integers(0, len(whole)))
        ones = draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
        found.append(tuple(1 if one else size for one, size in zip(ones, whole[len(whole) - rank :])))
    return found, np.broadcast_shapes(*found)


@st.composite
def unbroadcastable_shapes(draw, max_rank=4, max_side=4):
    """``(a, b, dimension)``: two shapes that do not broadcast; counted from the back they first differ in ``dimension``."""
    (a, b), _ = draw(broadcastable_shapes(2, max_rank - 1, max_side))
    rank = max(len(a), len(b))
    back = draw(st.integers(1, min(len(a), len(b)) + 1))
    left = draw(st.integers(0, max_side).filter(lambda size: size != 1))
    right = draw(st.integers(0, max_side).filter(lambda size: size not in (1, left)))

    def place(shape, size):
        keep = shape[len(shape) - back + 1 :] if back > 1 else ()
        before = shape[: len(shape) - len(keep)]
        return (*before, size, *keep)

    a, b = place(a, left), place(b, right)
    rank = max(len(a), len(b))
    return a, b, rank - back


@st.composite
def arrays(draw, shape, dtype, layout=None):
    """An array of small values with the given shape and a layout of `LAYOUTS`, drawn unless told."""
    return np.asarray(_lay_out(draw, tuple(shape), np.dtype(dtype), layout or draw(st.sampled_from(LAYOUTS))))


@st.composite
def operands(draw, *kinds, count=2, dtype=None):
    """A list of arrays that broadcast, of one dtype (drawn from ``kinds`` unless given), each with a layout of its own."""
    drawn, _ = draw(broadcastable_shapes(count))
    dtype = dtype or draw(dtypes(*kinds))
    return [draw(arrays(shape, dtype)) for shape in drawn]


def _lay_out(draw, shape, dtype, layout):
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rank = len(shape)

    def values(sizes):
        made = random.integers(0 if dtype.kind in "bu" else -8, 2 if dtype.kind == "b" else 9, sizes)
        if dtype.kind == "c":
            made = made + 1j * random.integers(-8, 9, sizes)
        return np.asarray(made / 4 if dtype.kind in "fc" else made).astype(dtype)

    if layout == "transposed":
        order = draw(st.permutations(range(rank)))
        made = values([shape[axis] for axis in order])
        return made.transpose(np.argsort(order)) if rank else made
    if layout == "sliced":
        steps = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
        made = values([size * step + 1 for size, step in zip(shape, steps)])
        return made[tuple(slice(1, 1 + size * step, step) for size, step in zip(shape, steps))].reshape(shape)
    if layout == "reversed":
        steps = draw(st.lists(st.sampled_from([1, -1]), min_size=rank, max_size=rank))
        return values(shape)[tuple(slice(None, None, step) for step in steps)]
    if layout == "expanded":
        ones = draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
        made = values([min(size, 1) if one else size for one, size in zip(ones, shape)])
        return np.lib.stride_tricks.as_strided(made, shape, np.broadcast_to(made, shape).strides)
    if layout == "offset":
        count = int(np.prod(shape))
        return values(count + 3)[3:].reshape(shape)
    return values(shape)
