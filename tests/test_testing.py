"""`torch.testing`: accepted arguments, errors and messages."""

import math
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight.testing import assert_close, make_tensor

T = torch.tensor

MISMATCHES = [
    (
        lambda: assert_close(T([1.0, 2.0, 3.0]), T([1.0, 2.0, 4.0])),
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\n"
        "Greatest absolute difference: 1.0 at index (2,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.25 at index (2,) (up to 1.3e-06 allowed)",
    ),
    (
        lambda: assert_close(T([[1.0, 2.0], [3.0, 5.0]]), T([[1.0, 2.0], [3.0, 4.0]]), rtol=0, atol=0.5),
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\n"
        "Greatest absolute difference: 1.0 at index (1, 1) (up to 0.5 allowed)\n"
        "Greatest relative difference: 0.25 at index (1, 1) (up to 0 allowed)",
    ),
    (
        lambda: assert_close(T([1, 2, 3]), T([1, 2, 4])),
        "Tensor-likes are not equal!\n\nMismatched elements: 1 / 3 (33.3%)\n"
        "Greatest absolute difference: 1 at index (2,)\nGreatest relative difference: 0.25 at index (2,)",
    ),
    (
        lambda: assert_close(T(1.0), T(2.0)),
        "Scalars are not close!\n\nExpected 2.0 but got 1.0.\n"
        "Absolute difference: 1.0 (up to 1e-05 allowed)\nRelative difference: 0.5 (up to 1.3e-06 allowed)",
    ),
    (
        lambda: assert_close(T([1.0, 2.0]), T([1.0, 2.0, 3.0])),
        "The values for attribute 'shape' do not match: torch.Size([2]) != torch.Size([3]).",
    ),
    (
        lambda: assert_close(T([1.0]), T([1.0], dtype=torch.float64)),
        "The values for attribute 'dtype' do not match: torch.float32 != torch.float64.",
    ),
    (
        lambda: assert_close(T([1.0, float("nan")]), T([1.0, float("nan")])),
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: nan at index (1,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: nan at index (1,) (up to 1.3e-06 allowed)",
    ),
    (
        lambda: assert_close(T([0.0, 1.0]), T([0.0, float("inf")])),
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: inf at index (1,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: nan at index (1,) (up to 1.3e-06 allowed)",
    ),
    (
        lambda: assert_close([T([1.0]), T([2.0])], [T([1.0]), T([3.0])]),
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 1 (100.0%)\n"
        "Greatest absolute difference: 1.0 at index (0,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.3333333432674408 at index (0,) (up to 1.3e-06 allowed)\n\n"
        "The failure occurred for item [1]",
    ),
    (
        lambda: assert_close({"a": 1}, {"b": 1}),
        "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['b']\n"
        "Additional keys in the actual mapping: ['a']",
    ),
    (lambda: assert_close([1], [1, 2]), "The length of the sequences mismatch: 1 != 2"),
    (
        lambda: assert_close(1.0, 1.1),
        "Scalars are not close!\n\nExpected 1.1 but got 1.0.\n"
        "Absolute difference: 0.10000000000000009 (up to 1e-07 allowed)\n"
        "Relative difference: 0.09090909090909098 (up to 1e-07 allowed)",
    ),
    (
        lambda: assert_close(1, 2),
        "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\nRelative difference: 0.5",
    ),
    (lambda: assert_close(True, False), "Booleans mismatch: True is not False"),
    (lambda: assert_close(1, 1.0), "The (d)types do not match: <class 'int'> != <class 'float'>."),
    (lambda: assert_close(T([1.0]), T([2.0]), msg="mine"), "mine"),
    (lambda: assert_close(1, 2, msg=lambda text: "mine: " + text.split("!")[0]), "mine: Scalars are not equal"),
]


@pytest.mark.parametrize(("check", "text"), MISMATCHES)
def test_mismatches_in_torchs_words(check, text):
    with pytest.raises(AssertionError) as caught:
        check()
    assert str(caught.value) == text


def test_what_is_close():
    assert_close(T([1.0, 2.0]), T([1.0, 2.0000002]))
    assert_close(T([1.0, float("nan")]), T([1.0, float("nan")]), equal_nan=True)
    assert_close(T([float("inf")]), T([float("inf")]))
    assert_close(T([1.0], requires_grad=True), T([1.0]))
    assert_close(T([]), T([]))
    assert_close({"a": [1.0, None]}, {"a": [1.00000001, None]})
    assert_close(T([1.0]), T([1.0], dtype=torch.float64), check_dtype=False)
    assert_close(T([1.0, 2.0], dtype=torch.bfloat16), T([1.0, 2.015625], dtype=torch.bfloat16))


def test_none_arrays_and_numbers_of_numpy():
    for actual, expected, text in (
        (T([1.0]), None, "None mismatch: tensor([1.]) is not None"),
        ([1, None], [1, 2], "None mismatch: None is not 2\n\nThe failure occurred for item [1]"),
        (
            np.ones(1),
            np.ones(1, "float32"),
            "The values for attribute 'dtype' do not match: torch.float64 != torch.float32.",
        ),
        (np.bool_(True), False, "Booleans mismatch: True is not False"),
    ):
        with pytest.raises(AssertionError) as caught:
            assert_close(actual, expected)
        assert str(caught.value) == text
    assert_close([np.ones(2), np.float32(1), np.int64(3), np.bool_(True)], [np.ones(2), 1.0, 3, True])
    assert_close(1, np.int64(1), allow_subclasses=False)

    class A(torch.Tensor):
        pass

    class B(torch.Tensor):
        pass

    assert_close(T([1.0]).as_subclass(A), T([1.0]))
    for actual, expected in (
        (T([1.0]).as_subclass(A), T([1.0]).as_subclass(B)),
        (np.ones(1), T([1.0])),
        (np.array(["a"]), np.array(["a"])),
    ):
        with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
            assert_close(actual, expected)


def test_misuse():
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol' must be either specified or omitted, but got no atol"):
        assert_close(T([1.0]), T([1.0]), rtol=1)
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type <class 'float'>"):
        assert_close(1.0, T(1.0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_make_tensor_of_floats(dtype):
    made = make_tensor(50, 20, dtype=dtype)
    values = made.reshape(-1).tolist()
    parts = [part for v in values for part in ((v.real, v.imag) if isinstance(v, complex) else (v,))]
    assert made.shape == (50, 20) and made.dtype is dtype
    assert -9 <= min(parts) < -7 and 7 < max(parts) <= 9


@pytest.mark.parametrize(("dtype", "low", "high"), [(torch.int32, -9, 9), (torch.uint8, 0, 9), (torch.bool, 0, 1)])
def test_make_tensor_of_integers(dtype, low, high):
    values = make_tensor((500,), dtype=dtype).tolist()
    assert set(values) == set(range(low, high + 1))


def test_make_tensor_options():
    made = make_tensor(3, 4, dtype=torch.float32, noncontiguous=True, requires_grad=True)
    assert not made.is_contiguous() and made.requires_grad and made.is_leaf
    assert made.stride() == (8, 2) and made.storage_offset() == 1
    assert 0 not in make_tensor(200, dtype=torch.int64, exclude_zero=True).tolist()
    with pytest.raises(ValueError, match="`low` must be less than `high`"):
        make_tensor(3, dtype=torch.float32, low=2, high=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int16, torch.bool, torch.float8_e5m2])
def test_numbers_between_gaps_are_every_other_one(dtype):
    torch.manual_seed(0)
    dense = make_tensor(2, 6, dtype=dtype)
    torch.manual_seed(0)
    assert make_tensor((2, 3), dtype=dtype, noncontiguous=True).tolist() == dense[:, 1::2].tolist()


def test_nothing_imports_hypothesis_unasked():
    code = "import sys, rushlight.testing; sys.exit('hypothesis' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_properties_find_what_does_not_broadcast():
    from rushlight.testing.properties import assert_broadcasts, tensor_of

    column, row = np.arange(3.0).reshape(3, 1), np.arange(2.0)
    assert_broadcasts(torch.add, np.add, [column, row], in_place="add_")
    assert_broadcasts(torch.add, np.add, [np.ones((3, 2)), row], in_place="add_")
    with pytest.raises(AssertionError):
        assert_broadcasts(lambda a, b, out=None: torch.add(a, b * 0, out=out), np.add, [column, row])
    with pytest.raises(AssertionError, match=r"shape \(3, 1\), expected \(3, 2\)"):
        assert_broadcasts(lambda a, b, out=None: torch.add(a, 1, out=out), np.add, [column, row])
    assert tensor_of(row[::-1]).stride() == (-1,)


def test_bounds_are_cut_at_those_of_the_dtype():
    make = torch.testing.make_tensor
    assert make(1000, dtype=torch.uint8, low=-2, high=3).unique().tolist() == [0, 1, 2]
    assert make(20, dtype=torch.int32, low=1.5, high=2.5).unique().tolist() == [2]
    for low, high in ((-3e38, 3e38), (-math.inf, math.inf)):
        wide = make(1000, dtype=torch.float32, low=low, high=high)
        assert wide.isfinite().all() and wide.min() < -1e38 and wide.max() > 1e38
    assert make(3, dtype=torch.complex64)._base is None
    for dtype in (torch.float32, torch.complex64):
        with pytest.warns(FutureWarning, match="Passing `low==high`"):
            assert (make(3, dtype=dtype, low=2, high=2).real == 2).all()
    for dtype, low, high, sentence in (
        (torch.uint8, 300, 400, r"is \[300, 400\), but torch.uint8 only supports \[0, 256\)"),
        (torch.bool, 2, 7, r"is \[2, 7\), but torch.bool only supports \[0, 2\)"),
        (torch.float16, 70000, 80000, r"but torch.float16 only supports \[-65504.0, 65504.0\)"),
        (torch.float32, math.nan, 2, "`low` and `high` cannot be NaN, but got low=nan and high=2"),
        (torch.int32, 2, 2, "`low` must be less than `high`, but got 2 >= 2"),
    ):
        with pytest.raises(ValueError, match=sentence):
            make(3, dtype=dtype, low=low, high=high)
