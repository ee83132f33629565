"""The namespace of the Python array API standard. Its public test suite runs separately; see `array_api_skips.txt`."""

import math
import operator
from pathlib import Path

import pytest

import rushlight as torch

xp = torch.ones(1).__array_namespace__()


def test_every_name_exists():
    for name in xp.__all__:
        assert hasattr(xp, name)


def test_versions():
    assert torch.ones(1).__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="version '1999.12' of the array API standard is not supported"):
        torch.ones(1).__array_namespace__(api_version="1999.12")


def test_numbers_take_the_dtype_of_the_array_beside_them():
    assert xp.add(torch.ones(2, dtype=torch.int8), 300 % 7).dtype is torch.int8
    assert xp.multiply(2.5, torch.ones(2, dtype=torch.float64)).dtype is torch.float64
    assert xp.pow(2, torch.arange(3)).tolist() == [1, 2, 4]


def test_no_dimension_is_no_lower_rank():
    assert xp.add(torch.ones(2, dtype=torch.int8), torch.tensor(1)).dtype is torch.int64
    assert xp.result_type(torch.tensor(1.0, dtype=torch.float64), torch.ones(2)) is torch.float64


def test_reductions_of_no_and_of_several_axes():
    x = torch.tensor([[1, 2], [3, 4]], dtype=torch.int16)
    z = torch.tensor([3 - 4j, 0])
    assert [xp.linalg.vector_norm(z, axis=(), ord=n).tolist() for n in (2, 0)] == [[5.0, 0.0], [1.0, 0.0]]
    assert xp.sum(x, axis=()).tolist() == x.tolist() and xp.sum(x).dtype is torch.int64
    assert xp.prod(x, axis=(0, 1)).item() == 24 and xp.prod(x, dtype=torch.int16).dtype is torch.int16
    assert xp.max(x, axis=(0, 1), keepdims=True).tolist() == [[4]]
    assert xp.var(xp.astype(x, torch.float64)).item() == 1.25


def test_the_next_number():
    values = [0.0, -0.0, 1.0, -1.5, math.inf, 5e-324]
    for x in values:
        for y in values:
            pair = (torch.tensor(n, dtype=torch.float64) for n in (x, y))
            found = xp.nextafter(*pair).item()
            assert (found, math.copysign(1, found)) == (math.nextafter(x, y), math.copysign(1, math.nextafter(x, y)))
    assert math.isnan(xp.nextafter(torch.tensor(1.0), math.nan).item())


def test_unique():
    found = xp.unique_all(torch.tensor([3, 1, 3, 2]))
    assert [part.tolist() for part in found] == [[1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2]]


def test_unique_complex_numbers():
    nan = complex(math.nan, 0)
    x = torch.tensor([[1 + 1j, nan], [1 + 1j, complex(0.0, -0.0)], [0j, nan]])
    values, indices, inverse, counts = xp.unique_all(x)
    assert str(values.tolist()) == "[-0j, (1+1j), (nan+0j), (nan+0j)]"
    assert indices.tolist() == [3, 0, 1, 5] and counts.tolist() == [2, 2, 1, 1]
    assert inverse.tolist() == [[1, 2], [1, 0], [0, 3]]
    assert xp.unique_counts(torch.zeros(0, dtype=torch.complex64)).counts.tolist() == []
    assert xp.unique_inverse(torch.tensor(3j)).inverse_indices.tolist() == 0
    assert xp.unique_values(torch.tensor([2j, 1j, 2j])).tolist() == [1j, 2j]


def test_quotients_and_rests():
    inf = math.inf
    quotients = xp.floor_divide(torch.tensor([inf, -inf, 1.0, inf, 7.0]), torch.tensor([2.0, 2.0, -inf, inf, -2.0]))
    assert str(quotients.tolist()) == "[inf, -inf, -0.0, nan, -4.0]"
    rests = xp.remainder(torch.tensor([-0.0, 0.0, 3.0, -3.0]), torch.tensor([1.0, -1.0, -3.0, 2.0]))
    assert str(rests.tolist()) == "[0.0, -0.0, -0.0, 1.0]"
    assert xp.floor_divide(7, torch.tensor([-2])).tolist() == [-4] and xp.remainder(5, torch.tensor([3])).tolist() == [
        2
    ]


def test_both_parts_of_complex_numbers_are_rounded():
    assert xp.round(torch.tensor([1.5 - 2.5j, -0.6 + 0.4j])).tolist() == [2 - 2j, -1 + 0j]
    assert xp.round(torch.tensor([7])).tolist() == [7]


def test_cumulative_sums_with_their_beginning():
    assert xp.cumulative_sum(torch.tensor([1, 2]), include_initial=True).tolist() == [0, 1, 3]


def test_what_the_namespace_tells():
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["integral"] is torch.int64
    assert set(info.dtypes(kind="complex floating")) == {"complex64", "complex128"}
    assert xp.isdtype(torch.uint8, ("bool", "integral")) and not xp.isdtype(torch.uint8, "real floating")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: xp.squeeze(torch.ones(2), 0), "squeezed dimensions must have size 1"),
        (lambda: xp.isdtype(torch.int8, "numbers"), "unrecognized data type kind: 'numbers'"),
        (lambda: xp.nonzero(torch.tensor(1)), "nonzero needs at least one dimension"),
        (
            lambda: xp.linalg.cross(torch.ones(2, 3), torch.ones(1)),
            "vectors of three numbers are needed, but got 3 and 1",
        ),
        (lambda: xp.vecdot(torch.ones(2), torch.ones(3)), "2 and 3 elements along the axis"),
    ],
)
def test_errors(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_the_extensions():
    for extension in (xp.linalg, xp.fft):
        for name in extension.__all__:
            assert callable(getattr(extension, name))
    x = xp.asarray([[2.0, 1.0], [1.0, 2.0]])
    assert xp.linalg.eigh(x).eigenvalues.tolist() == pytest.approx([1.0, 3.0])
    assert xp.linalg.trace(xp.stack([x, x])).tolist() == [4.0, 4.0]
    assert xp.linalg.solve(x, xp.asarray([3.0, 3.0])).tolist() == pytest.approx([1.0, 1.0])
    assert xp.linalg.cross(torch.eye(3)[:2], torch.tensor([0.0, 0, 1])).tolist() == [[0, -1, 0], [1, 0, 0]]
    assert xp.fft.irfft(xp.fft.rfft(x, axis=0), n=2, axis=0).tolist() == x.tolist()


def text(number):
    """The sign of a number, including that of zero."""
    return str(number) if isinstance(number, float) else f"{number.real} {number.imag}"


FLOORS = [
    ("x1_i is +infinity and isfinite(x2_i) and x2_i > 0", math.inf, 2.0, "+infinity", "inf"),
    ("x1_i is +infinity and isfinite(x2_i) and x2_i < 0", math.inf, -2.0, "-infinity", "-inf"),
    ("x1_i is -infinity and isfinite(x2_i) and x2_i > 0", -math.inf, 2.0, "-infinity", "-inf"),
    ("x1_i is -infinity and isfinite(x2_i) and x2_i < 0", -math.inf, -2.0, "+infinity", "inf"),
    ("isfinite(x1_i) and x1_i > 0 and x2_i is -infinity", 1.0, -math.inf, "-0", "-0.0"),
    ("isfinite(x1_i) and x1_i < 0 and x2_i is +infinity", -1.0, math.inf, "-0", "-0.0"),
]
RESTS = [("x1_i is -0 and x2_i > 0", -0.0, 1.0, "+0", "0.0"), ("x1_i is +0 and x2_i < 0", 0.0, -1.0, "-0", "-0.0")]
PROMOTING = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "truediv",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "pow": "pow",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "bitwise_left_shift": "lshift",
    "bitwise_right_shift": "rshift",
}
COMPARING = {
    "less": ("lt", 300),
    "less_equal": ("le", 300),
    "greater": ("gt", 300),
    "greater_equal": ("ge", 300),
    "equal": ("eq", 306),
    "not_equal": ("ne", 306),
}


def differences():
    """A program for each entry of the list: the entry, the result of tensors, and the result of the standard."""
    special = "array_api_tests/test_special_cases.py::test_"
    for name, cases in (("floordiv", FLOORS), ("mod", RESTS)):
        for condition, x1, x2, words, wanted in cases:
            for form, symbol in (("binary", f"__{name}__"), ("iop", f"__i{name}__")):
                found = getattr(operator, symbol)(torch.tensor([x1]), torch.tensor([x2])).item()
                yield f"{special}{form}[{symbol}({condition}) -> {words}]", text(found), wanted
    for function, name in PROMOTING.items():
        entry = f"array_api_tests/test_operators_and_elementwise_functions.py::test_{function}[__{name}__(x1, x2)]"
        weak, strong = torch.tensor(1, dtype=torch.int64), torch.tensor([1], dtype=torch.int8)
        if name == "truediv":
            weak, strong = weak.double(), strong.float()
        found = getattr(operator, f"__{name}__")(weak, strong)
        yield entry, found.dtype, getattr(xp, function)(weak, strong).dtype
    for function, (name, number) in COMPARING.items():
        entry = f"array_api_tests/test_operators_and_elementwise_functions.py::test_{function}[__{name}__(x1, x2)]"
        weak, strong = torch.tensor(number), torch.tensor([50], dtype=torch.int8)
        yield entry, getattr(operator, f"__{name}__")(weak, strong).item(), getattr(xp, function)(weak, strong).item()
    try:
        masked = list(torch.ones(2, 0)[torch.ones(0, 0, dtype=torch.bool)].shape)
    except IndexError as error:
        masked = str(error).split("[")[0]
    yield "array_api_tests/test_array_object.py::test_getitem_masking", masked, [0]
    condition = "(real(x_i) is +0 or real(x_i) == -0) and imag(x_i) is +0"
    yield (
        f"{special}unary[expm1({condition}) -> 0 + 0j]",
        text(xp.expm1(torch.tensor(complex(-0.0, 0.0))).item()),
        "0.0 0.0",
    )
    condition = "real(x_i) is +infinity and isfinite(imag(x_i)) and imag(x_i) > 0"
    found = xp.tanh(torch.tensor(complex(math.inf, 2.0))).item()
    yield f"{special}unary[tanh({condition}) -> 1 + 0j]", text(found), "1.0 0.0"


def test_the_list_is_not_stale():
    entries = list(differences())
    lines = Path(__file__).with_name("array_api_skips.txt").read_text().splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    assert sorted(listed) == sorted(entry for entry, _, _ in entries)
    for entry, found, wanted in entries:
        assert found != wanted, entry
