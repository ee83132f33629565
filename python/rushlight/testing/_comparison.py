"""Comparison of tensors, arrays, numbers, and sequences and mappings of them, with torch's tolerances and messages."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rushlight as torch
from rushlight._warnings import warn

__all__ = ["assert_allclose", "assert_close"]

_FLOAT32 = (1.3e-6, 1e-5)
_FLOAT64 = (1e-7, 1e-7)
_TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.complex32: (1e-3, 1e-5),
    torch.float32: _FLOAT32,
    torch.complex64: _FLOAT32,
    torch.float64: _FLOAT64,
    torch.complex128: _FLOAT64,
}
_OF_NUMBERS = {float: _FLOAT64, complex: _FLOAT64}


class _Mismatch(Exception):
    """A pair of values that differ, and its position in nested containers."""

    def __init__(self, text, place=()):
        super().__init__(text)
        self.place = place

    def text(self):
        where = "".join(f"[{key!r}]" for key in self.place)
        return f"{self}\n\nThe failure occurred for item {where}" if where else str(self)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raises AssertionError unless ``abs(actual - expected) <= atol + rtol * abs(expected)`` everywhere.

    The tolerances depend on the dtype and are zero for integers; for two dtypes the larger ones are used. NumPy arrays
    are compared with arrays, NumPy numbers with any numbers, sequences and mappings element by element. ``msg``
    replaces the message, or is a function that changes it.

    >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0000001]))
    """
    if (rtol is None) != (atol is None):
        given = "no rtol" if rtol is None else "no atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got {given}.")
    tolerance = None if rtol is None else (rtol, atol)
    checks = {"dtype": check_dtype, "device": check_device, "layout": check_layout, "stride": check_stride}
    try:
        _compare(actual, expected, tolerance, equal_nan, checks, allow_subclasses)
    except _Mismatch as found:
        text = found.text()
        raise AssertionError(msg(text) if callable(msg) else msg or text) from None


def _compare(actual, expected, tolerance, equal_nan, checks, allow_subclasses):
    def inner(key, a, b):
        try:
            _compare(a, b, tolerance, equal_nan, checks, allow_subclasses)
        except _Mismatch as found:
            raise _Mismatch(str(found), (key, *found.place)) from None

    actual, expected = _plain(actual), _plain(expected)
    if actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(f"None mismatch: {actual} is not {expected}")
    elif (tensors := _tensors(actual, expected, allow_subclasses)) is not None:
        _compare_tensors(*tensors, tolerance, equal_nan, checks)
    elif isinstance(actual, bool) and isinstance(expected, bool):
        if actual is not expected:
            raise _Mismatch(f"Booleans mismatch: {actual} is not {expected}")
    elif _is_number(actual) and _is_number(expected):
        _compare_numbers(actual, expected, tolerance, equal_nan, checks["dtype"])
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise _Mismatch(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for place, (a, b) in enumerate(zip(actual, expected)):
            inner(place, a, b)
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        missing, additional = expected.keys() - actual.keys(), actual.keys() - expected.keys()
        if missing or additional:
            raise _Mismatch(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing)}\n"
                f"Additional keys in the actual mapping: {sorted(additional)}"
            )
        for key in expected:
            inner(key, actual[key], expected[key])
    else:
        raise TypeError(_unable(actual, expected))


def _plain(value):
    """Converts a NumPy number to a Python number."""
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def _tensors(actual, expected, allow_subclasses):
    """Two tensors, or two arrays as tensors. None for other types."""
    same = type(actual) is type(expected)
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if not (same or (allow_subclasses and related)):
        return None
    if isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor):
        return actual.detach(), expected.detach()
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(actual, numpy.ndarray):
        return None
    try:
        return torch.as_tensor(actual), torch.as_tensor(expected)
    except TypeError:  # arrays of strings or objects
        return None


def _unable(actual, expected):
    return f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."


def _is_number(value):
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)


def _is_sequence(value):
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _close(a, b, rtol, atol, equal_nan):
    if a == b:
        return True
    if a != a or b != b:
        return equal_nan and a != a and b != b
    gap = abs(a - b)
    return not math.isinf(gap) and not math.isinf(abs(b)) and gap <= atol + rtol * abs(b)


def _allowed(bound, kind):
    """The text about a tolerance in a message. Empty if equality is required."""
    return f" (up to {bound} allowed)" if kind == "close" else ""


def _compare_numbers(actual, expected, tolerance, equal_nan, check_type):
    if check_type and type(actual) is not type(expected):
        raise _Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    own = max(_OF_NUMBERS.get(type(value), (0, 0)) for value in (actual, expected))
    rtol, atol = own if tolerance is None else tolerance
    if _close(actual, expected, rtol, atol, equal_nan):
        return
    gap = abs(actual - expected)
    relative = gap / abs(expected) if expected != 0 else math.inf
    kind = "equal" if rtol == atol == 0 else "close"
    raise _Mismatch(
        f"Scalars are not {kind}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {gap}{_allowed(atol, kind)}\nRelative difference: {relative}{_allowed(rtol, kind)}"
    )


def _compare_tensors(actual, expected, tolerance, equal_nan, checks):
    def alike(name, a, b, wanted=True):
        if wanted and a != b:
            raise _Mismatch(f"The values for attribute {name!r} do not match: {a} != {b}.")

    alike("shape", actual.shape, expected.shape)
    alike("device", actual.device, expected.device, checks["device"])
    alike("dtype", actual.dtype, expected.dtype, checks["dtype"])
    alike("layout", actual.layout, expected.layout, checks["layout"])
    alike("stride()", actual.stride(), expected.stride(), checks["stride"])
    if actual.device.type == "meta" or expected.device.type == "meta":
        return
    own = [_TOLERANCES.get(tensor.dtype, (0, 0)) for tensor in (actual, expected)]
    rtol, atol = (max(own[0][0], own[1][0]), max(own[0][1], own[1][1])) if tolerance is None else tolerance
    a, b = actual.reshape(-1).tolist(), expected.reshape(-1).tolist()
    wrong = [n for n, (x, y) in enumerate(zip(a, b)) if x != y and not _close(x, y, rtol, atol, equal_nan)]
    if wrong:
        raise _Mismatch(_tensor_text(actual, expected, wrong, rtol, atol))


def _tensor_text(actual, expected, wrong, rtol, atol):
    count = actual.numel()
    kind = "equal" if rtol == atol == 0 else "close"
    x, y = actual.reshape(-1), expected.reshape(-1)
    if x.dtype is torch.bool:
        x, y = x.to(torch.int64), y.to(torch.int64)
    elif x.dtype.is_floating_point and x.dtype.itemsize == 1:
        x, y = x.float(), y.float()  # there is no difference of 8-bit floats
    gaps = abs(x - y)
    lines = [f"Tensor-likes are not {kind}!\n"]
    if actual.dim() > 0:
        lines.append(f"Mismatched elements: {len(wrong)} / {count} ({len(wrong) / count:.1%})")
    for name, values, bound in (("absolute", gaps, atol), ("relative", gaps / abs(y), rtol)):
        values = values.tolist()
        # NaN is treated as the largest value.
        at = max(wrong, key=lambda n: math.inf if values[n] != values[n] else values[n])
        at = next((n for n in wrong if values[n] != values[n]), at)
        index = f" at index {_index(at, actual.shape)}" if actual.dim() > 0 else ""
        lines.append(f"Greatest {name} difference: {values[at]}{index}{_allowed(bound, kind)}")
    if actual.dim() == 0:
        _, absolute, relative = (line.removeprefix("Greatest ").capitalize() for line in lines)
        return f"Scalars are not {kind}!\n\nExpected {expected.item()} but got {actual.item()}.\n{absolute}\n{relative}"
    return "\n".join(lines)


def _index(flat, shape):
    index = []
    for size in reversed(shape):
        flat, rest = divmod(flat, size)
        index.insert(0, rest)
    return tuple(index)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Deprecated form of `assert_close`, with a warning: NaN equals NaN, and dtypes may differ.

    Raises:
        AssertionError: as in `assert_close`.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     torch.testing.assert_allclose(torch.tensor([1.0, torch.nan]), [1, torch.nan])
    """
    warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
        "Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
    )
    assert_close(
        torch.as_tensor(actual),
        torch.as_tensor(expected),
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )
