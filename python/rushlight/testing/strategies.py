"""Strategies for hypothesis: dtypes, shapes that broadcast or do not, and NumPy arrays with all kinds of strides.

Arrays are for comparison with NumPy: ``torch.from_numpy`` keeps their strides. `tensors` generates the same tensors as
`fuzz`. Only this module of rushlight imports hypothesis and NumPy, and nothing imports it automatically.
"""

import numpy as np
from hypothesis import strategies as st

import rushlight as torch

from . import _drawing
from ._drawing import LAYOUTS
from ._operands import draw_operands

__all__ = [
    "LAYOUTS",
    "arrays",
    "broadcastable_shapes",
    "dtypes",
    "operands",
    "shapes",
    "tensors",
    "unbroadcastable_shapes",
]

_KINDS = {
    "bool": ("bool",),
    "int": ("uint8", "int8", "int16", "int32", "int64"),
    "float": ("float16", "float32", "float64"),
    "complex": ("complex64", "complex128"),
}


def _choose(draw):
    """hypothesis as a source of choices."""
    return lambda count: draw(st.integers(0, count - 1))


def dtypes(*kinds):
    """The names of dtypes of the given kinds ("bool", "int", "float", "complex"), of all kinds by default.

    >>> import hypothesis
    >>> hypothesis.find(dtypes("bool"), lambda name: True)
    'bool'
    """
    return st.sampled_from([name for kind in kinds or _KINDS for name in _KINDS[kind]])


@st.composite
def shapes(draw, max_rank=4, max_side=4):
    """Shapes. They may have no dimensions, and sizes may be zero.

    >>> import hypothesis
    >>> len(hypothesis.find(shapes(), lambda shape: len(shape) == 2))
    2
    """
    return _drawing.shape(_choose(draw), max_rank, max_side)


@st.composite
def broadcastable_shapes(draw, count=2, max_rank=4, max_side=4):
    """``(shapes, result)``: shapes that broadcast, and their common shape.

    >>> import hypothesis
    >>> _, result = hypothesis.find(broadcastable_shapes(2), lambda drawn: len(drawn[1]) == 2)
    >>> len(result)
    2
    """
    found = _drawing.broadcastable_shapes(_choose(draw), count, max_rank, max_side)
    return found, np.broadcast_shapes(*found)


@st.composite
def unbroadcastable_shapes(draw, max_rank=4, max_side=4):
    """``(a, b, dimension)``: two shapes that do not broadcast, and the last dimension in which they conflict.

    >>> import hypothesis
    >>> a, b, dimension = hypothesis.find(unbroadcastable_shapes(), lambda drawn: True)
    >>> torch.broadcast_shapes(a, b)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    RuntimeError: Shape mismatch: objects cannot be broadcast to a single shape
    """
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
    """An array of small values with the given shape and a layout of `LAYOUTS`, random by default.

    >>> import hypothesis
    >>> hypothesis.find(arrays((2, 3), "float32"), lambda array: array.strides[1] < 0).shape
    (2, 3)
    """
    return np.asarray(_lay_out(draw, tuple(shape), np.dtype(dtype), layout or draw(st.sampled_from(LAYOUTS))))


@st.composite
def operands(draw, *kinds, count=2, dtype=None):
    """A list of arrays that broadcast, of one dtype (random among ``kinds`` by default), each with its own layout.

    >>> import hypothesis
    >>> {array.dtype.kind for array in hypothesis.find(operands("float"), lambda pair: pair[0].ndim > pair[1].ndim)}
    {'f'}
    """
    drawn, _ = draw(broadcastable_shapes(count))
    dtype = dtype or draw(dtypes(*kinds))
    return [draw(arrays(shape, dtype)) for shape in drawn]


@st.composite
def tensors(draw, *operands, dtype=torch.float64, max_rank=3, max_side=3):
    """A list of tensors of a dtype, one per `testing.operand`: views of leaves, as in `fuzz`.

    >>> import hypothesis
    >>> (drawn,) = hypothesis.find(tensors(torch.testing.operand()), lambda made: made[0].dim() == 1)
    >>> drawn.dtype
    torch.float64
    """
    layouts, memories, _ = draw_operands(_choose(draw), operands, dtype, max_rank, max_side)
    made = []
    for layout, memory in zip(layouts, memories):
        inexact = memory.is_floating_point() or memory.is_complex()
        leaf = memory.detach().to(dtype) if inexact else memory
        made.append(layout.view(leaf.requires_grad_(memory.requires_grad)))
    return made


def _lay_out(draw, shape, dtype, kind):
    layout = _drawing.layout(_choose(draw), shape, kind)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = random.integers(0 if dtype.kind in "bu" else -8, 2 if dtype.kind == "b" else 9, layout.base)
    if dtype.kind == "c":
        made = made + 1j * random.integers(-8, 9, layout.base)
    made = np.asarray(made / 4 if dtype.kind in "fc" else made).astype(dtype)
    for name, argument in layout.steps:
        made = _STEPS[name](made, argument)
    return made


def _expand(array, shape):
    return np.lib.stride_tricks.as_strided(array, shape, np.broadcast_to(array, shape).strides)


#: NumPy's names for the steps of a layout.
_STEPS = {"index": np.ndarray.__getitem__, "permute": np.transpose, "reshape": np.reshape, "expand": _expand}


def __dir__():
    return __all__
