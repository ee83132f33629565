"""Properties of operators, checked against NumPy: values, shapes, order of operands, ``out=`` and in-place forms.

It is used with `strategies`, which generates operands. It is never imported automatically, because it imports NumPy.
"""

import itertools
import warnings

import numpy as np

import rushlight as torch

__all__ = ["assert_broadcasts", "tensor_of"]

_TOLERANCES = {"float16": 2e-3, "float32": 1e-5, "complex64": 1e-5, "float64": 1e-12, "complex128": 1e-12}


def tensor_of(array):
    """A tensor that shares the memory and strides of an array. A read-only array gives a read-only tensor.

    >>> import numpy
    >>> from rushlight.testing.properties import tensor_of
    >>> tensor_of(numpy.arange(6.0).reshape(2, 3).T).stride()
    (1, 3)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)


def assert_broadcasts(function, oracle, arrays, in_place=None):
    """Raises AssertionError unless ``function`` of tensors equals ``oracle`` of the NumPy arrays, after broadcasting.

    Every order of the operands is checked: shape and values, the same with ``out=``, and with ``in_place`` (the name of
    a method) that an operand of the full shape is updated, and that every other raises an error and does not change.

    >>> import numpy
    >>> from rushlight.testing.properties import assert_broadcasts
    >>> assert_broadcasts(torch.add, numpy.add, [numpy.ones((2, 1)), numpy.ones(3)], in_place="add_")
    """
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    for order in itertools.permutations(arrays):
        with np.errstate(all="ignore"):
            wanted = np.asarray(oracle(*order))
        tensors = [tensor_of(array) for array in order]
        found = function(*tensors)
        assert tuple(found.shape) == shape, f"shape {tuple(found.shape)}, expected {shape}"
        _assert_close(found, wanted)
        out = torch.empty(0, dtype=found.dtype)
        assert function(*tensors, out=out) is out
        _assert_close(out, wanted)
        if in_place is not None:
            _assert_in_place(in_place, tensors, order[0].shape == shape, found, wanted)


def _assert_in_place(name, tensors, fits, found, wanted):
    own, *others = tensors
    own = own.clone()
    before = own.clone()
    if fits and torch.can_cast(found.dtype, own.dtype):
        assert getattr(own, name)(*others) is own
        _assert_close(own, wanted)
        return
    try:
        getattr(own, name)(*others)
    except RuntimeError:
        assert torch.equal(own, before), "an operand changed although the call raised an error"
    else:
        raise AssertionError(f"{name} of shape {tuple(own.shape)} took a result of shape {wanted.shape}")


def _assert_close(found, wanted):
    values = found.numpy()
    tolerance = max(_TOLERANCES.get(str(one.dtype), 0) for one in (values, wanted))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(values, wanted.astype(values.dtype), rtol=tolerance, atol=tolerance)


def __dir__():
    return __all__
