"""Elementwise operators: torch's promotion, special values and errors, which the tests of the whole table do not cover."""

import decimal
import json
import math
import operator
import pathlib

import numpy as np
import pytest

import rushlight as torch

RECORDED = json.loads((pathlib.Path(__file__).parents[1] / "data" / "promotion.json").read_text())
DTYPES = "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 bool".split()
NUMBERS = {"bool": True, "int": 2, "float": 2.5, "complex": 1j}
OPERATORS = {
    "add": operator.add,
    "div": operator.truediv,
    "lt": operator.lt,
    "pow": operator.pow,
    "floor_divide": operator.floordiv,
    "atan2": torch.atan2,
    "maximum": torch.maximum,
    "where": lambda a, b: torch.where(torch.tensor([True]), a, b),
}

nan, inf = math.nan, math.inf


def same(tensor, expected):
    """Equal, with the signs of zeros."""
    got = tensor.numpy()
    wanted = np.array(expected, dtype=got.dtype)
    np.testing.assert_array_equal(got, wanted)
    if got.dtype.kind == "f":
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("case", RECORDED)
def test_promotion(case):
    name, kind = case.split(" ")
    for own, row in zip(DTYPES, RECORDED[case], strict=True):
        x = torch.tensor([1], dtype=getattr(torch, own))
        for other, letter in zip(NUMBERS if kind == "number" else DTYPES, row, strict=True):
            if kind == "number":
                y = NUMBERS[other]
            else:
                y = torch.tensor(1 if kind == "zero-dim" else [1], dtype=getattr(torch, other))
            try:
                found = str(OPERATORS[name](x, y).dtype).removeprefix("torch.")
                got = "?" if found == "complex32" else "abcdefghijkl"[DTYPES.index(found)]
            except (RuntimeError, TypeError) as error:
                # Their common dtype is complex32, which most operators do not accept.
                got = "?" if "not implemented for 'ComplexHalf'" in str(error) else "-"
            assert got == letter, (own, other)


def test_division_rounds_as_it_is_asked_to():
    x, y = torch.tensor([7.0, -7.0, 7.0, -7.0]), torch.tensor([2.0, 2.0, -2.0, -2.0])
    same(torch.div(x, y, rounding_mode="floor"), [3.0, -4.0, -4.0, 3.0])
    same(torch.div(x, y, rounding_mode="trunc"), [3.0, -3.0, -3.0, 3.0])
    same(x % y, [1.0, 1.0, -1.0, -1.0])
    same(torch.fmod(x, y), [1.0, -1.0, 1.0, -1.0])
    same(torch.tensor([1.0, -1.0, 0.0]) // 0, [inf, -inf, nan])
    same(torch.tensor([0.0, -0.0]) // 5, [0.0, -0.0])


def test_whole_numbers_wrap():
    top = torch.tensor([2**63 - 1])
    assert (top + 1).tolist() == [-(2**63)]
    assert torch.neg(torch.tensor([-(2**63)])).tolist() == [-(2**63)]
    assert (torch.tensor([-(2**63)]) // -1).tolist() == [-(2**63)]
    assert (torch.tensor([200], dtype=torch.uint8) + 100).tolist() == [44]
    assert (torch.tensor([3, -1, 2]) ** torch.tensor([-1, -3, 62])).tolist() == [0, -1, 2**62]
    assert (torch.tensor([1]) << 64).tolist() == [0]
    assert (torch.tensor([-8]) >> 70).tolist() == [-1]


def test_comparison_with_numbers_that_the_dtype_cannot_hold():
    """The number wraps around like a value of that dtype."""
    x = torch.tensor([44, 255], dtype=torch.uint8)
    assert (x == 300).tolist() == [True, False]
    assert (x == -1).tolist() == [False, True]
    assert (x > 256).tolist() == [True, True]


def test_comparison_of_half_types_rounds_what_stands_beside_them():
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.tensor([0.1], dtype=dtype)
        assert (x == 0.1).all() and not (x < 0.1).any() and (x == torch.tensor(0.1)).all()
    assert (torch.tensor([inf], dtype=torch.float16) == 65536).all()


def test_neighbours_of_half_precision_numbers():
    numbers = [0.0, -0.0, 1.0, -1.0, 65504.0, inf, -inf, nan, 6e-8]
    x, y = (torch.tensor(grid.reshape(-1), dtype=torch.float16) for grid in np.meshgrid(numbers, numbers))
    wanted = np.nextafter(x.numpy(), y.numpy())
    found = torch.nextafter(x, y).numpy()
    np.testing.assert_array_equal(found, wanted)
    # NumPy does not distinguish the signs of zeros.
    told_apart = (found == found) & (x.numpy() != y.numpy())
    np.testing.assert_array_equal(np.signbit(found[told_apart]), np.signbit(wanted[told_apart]))


def test_nan_and_infinities():
    x, y = torch.tensor([nan, 1.0, nan]), torch.tensor([1.0, nan, nan])
    same(torch.maximum(x, y).isnan(), [True, True, True])
    same(torch.fmax(x, y), [1.0, 1.0, nan])
    same(torch.fmin(x, y), [1.0, 1.0, nan])
    same(torch.clamp(torch.tensor([nan, -3.0, 3.0]), -1, 1), [nan, -1.0, 1.0])
    same(torch.clamp(torch.tensor([1.0]), 2, -2), [-2.0])
    same(torch.relu(torch.tensor([nan, -0.0, -1.0])), [nan, 0.0, 0.0])
    same(torch.sign(torch.tensor([nan, -inf, 0.0])), [0.0, -1.0, 0.0])
    same(torch.logaddexp(torch.tensor([inf, -inf]), torch.tensor([inf, -inf])), [inf, -inf])
    same(torch.xlogy(torch.tensor([0.0, 0.0]), torch.tensor([0.0, nan])), [0.0, nan])
    same(torch.nan_to_num(torch.tensor([nan, inf, -inf])), [0.0, 3.4028234663852886e38, -3.4028234663852886e38])
    same(torch.round(torch.tensor([0.5, 1.5, -0.5])), [0.0, 2.0, -0.0])


def test_complex_quotients_do_not_overflow():
    big = torch.tensor([1e200 + 1e200j], dtype=torch.complex128)
    assert (big / big).tolist() == [1 + 0j]
    assert torch.sqrt(torch.tensor([-4 + 0j])).tolist() == [2j]


SIZES = [0.0, 1e-320, 1e-200, 1e-9, 0.3, 1 - 1e-16, 1.0, 1 + 1e-9, 1.5, 10.0, 705.0, 1e8, 1e17, 1e151, 1.7e308, inf]
AXIS = [*SIZES, *(-size for size in SIZES), nan]


@pytest.mark.parametrize("name", "asin acos atan asinh acosh atanh sin cos sinh cosh tanh expm1".split())
def test_complex_functions_at_their_edges(name):
    """As in C99, which does not specify the signs of some parts next to nan."""
    grid = np.array([complex(x, y) for x in AXIS for y in AXIS])
    if name == "expm1":  # for large arguments NumPy differs from C99
        grid = grid[np.isfinite(grid) & (np.abs(grid.real) <= 10)]
    with np.errstate(all="ignore"):
        wanted = getattr(np, name.replace("a", "arc", 1) if name[0] == "a" else name)(grid)
    found = getattr(torch, name)(torch.from_numpy(grid)).numpy()
    free = np.isnan(grid) | np.isnan(wanted)
    for ours, theirs in ((found.real, wanted.real), (found.imag, wanted.imag)):
        np.testing.assert_allclose(np.abs(ours), np.abs(theirs), rtol=1e-14, atol=1e-322)
        assert (np.signbit(ours) == np.signbit(theirs))[~free].all()


def test_complex_expm1_far_out():
    pairs = [(inf, 0), (inf, inf), (inf, nan), (-inf, inf), (-inf, nan), (-inf, -2.0), (nan, 0), (nan, 1), (1, inf)]
    found = torch.expm1(torch.tensor([complex(*pair) for pair in pairs], dtype=torch.complex128))
    same(found.real, [inf, inf, inf, -1, -1, -1, nan, nan, nan])
    same(found.imag, [0.0, nan, nan, 0.0, 0.0, -0.0, 0.0, nan, nan])
    # Beyond the largest finite number, only with the sine.
    assert torch.expm1(torch.tensor(709.9 + 1e-9j, dtype=torch.complex128)).imag.item() == pytest.approx(
        math.exp(709) * (math.exp(0.9) * 1e-9)
    )


def test_powers_by_common_numbers():
    x = torch.tensor([4.0, 0.25])
    for exponent in (2, 3, 0.5, -0.5, -1, -2, 0, 1, 2.5):
        np.testing.assert_allclose((x**exponent).numpy(), x.numpy() ** exponent, rtol=1e-6)


def test_results_in_place():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer"):
        x.t().add_(x)
    x.t().add_(1)
    assert x.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    y = torch.tensor([1.0, 2.0, 3.0])
    kept = y
    y *= 2
    y -= 1
    y **= 2
    assert kept is y and y.tolist() == [1.0, 9.0, 25.0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(8, 8), (33, 70), (3, 100, 41), (2, 65, 3, 40)], ids=str)
def test_operands_that_lie_across(dtype, shape):
    array = (np.arange(int(np.prod(shape))) % 100).reshape(shape)
    own, across = torch.from_numpy(array).to(dtype), torch.from_numpy(array.swapaxes(-1, -2).copy()).to(dtype)
    across = across.transpose(-1, -2)
    assert (own + across).tolist() == (2 * array).tolist()
    assert (
        torch.where(across > 50, across, own[..., :1]).tolist() == np.where(array > 50, array, array[..., :1]).tolist()
    )
    assert (
        across.to(torch.float32).tolist() == array.tolist()
        and across.to(torch.complex64).real.tolist() == array.tolist()
    )
    into = torch.zeros(array.swapaxes(-1, -2).shape, dtype=dtype).transpose(-1, -2)
    assert torch.add(own, own, out=into).tolist() == (2 * array).tolist()
    assert own.flip(-1).add(across).tolist() == (array[..., ::-1] + array).tolist()


@pytest.mark.parametrize("name", ["exp", "exp2", "sigmoid", "tanh", "erf", "log"])
def test_nan_stays_whatever_it_carries(name):
    bits = np.array([0x7FC00000, 0x7FC000C8, 0x7FC001FF, 0x7FFFFFFF, 0xFFC00001, 0xFFFFFE9C], dtype=np.uint32)
    assert np.isnan(getattr(torch, name)(torch.from_numpy(bits.view(np.float32))).numpy()).all()


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100, 1056])
def test_every_element_of_a_row_that_fills_no_block(n):
    array = np.linspace(-3, 3, n, dtype=np.float32)
    tensor = torch.from_numpy(array.copy())
    assert (tensor < 1).tolist() == (array < 1).tolist()
    tensor.mul_(2).add_(tensor)
    np.testing.assert_array_equal(tensor.numpy(), 4 * array)


def test_large_results_are_whole():
    x = torch.arange(9_000_001, dtype=torch.float32)
    total = x + x
    assert total[[0, 1, -2, -1]].tolist() == [0.0, 2.0, 17999998.0, 18000000.0]
    np.testing.assert_array_equal(total.numpy(), x.numpy() * 2)


REFUSED = [
    ("b - b", RuntimeError, "Subtraction, the `-` operator, with two bool tensors is not supported."),
    ("b - i", RuntimeError, "Subtraction, the `-` operator, with a bool tensor is not supported."),
    ("-b", RuntimeError, "Negation, the `-` operator, on a bool tensor is not supported."),
    ("+b", RuntimeError, "The `+` operator, on a bool tensor is not supported."),
    ("~f", TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors"),
    ("i ** -1", RuntimeError, "Integers to negative integer powers are not allowed."),
    ("i // 0", RuntimeError, "ZeroDivisionError"),
    ("i % 0", RuntimeError, "ZeroDivisionError"),
    ("f & i", NotImplementedError, "\"bitwise_and_cpu\" not implemented for 'Float'"),
    ("f << 1", NotImplementedError, "\"lshift_cpu\" not implemented for 'Float'"),
    ("c % c", NotImplementedError, "\"remainder_cpu\" not implemented for 'ComplexFloat'"),
    ("c // c", NotImplementedError, "\"div_floor_cpu\" not implemented for 'ComplexFloat'"),
    ("c < c", NotImplementedError, "\"lt_cpu\" not implemented for 'ComplexFloat'"),
    ("b ** b", NotImplementedError, "\"pow\" not implemented for 'Bool'"),
    ("torch.add(i, i, alpha=1.5)", RuntimeError, "For integral input tensors, argument alpha must not be a floating"),
    ("torch.add(f, f, alpha=True)", RuntimeError, "Boolean alpha only supported for Boolean results."),
    ("torch.add(f, f, alpha=1j)", RuntimeError, "For non-complex input tensors, argument alpha must not be a complex"),
    ("torch.floor(c)", NotImplementedError, "floor is not supported for complex inputs"),
    ("torch.sign(c)", NotImplementedError, "Unlike NumPy, torch.sign is not intended to support complex numbers."),
    ("torch.maximum(c, c)", RuntimeError, "maximum not implemented for complex tensors."),
    ("torch.clamp(f)", RuntimeError, "torch.clamp: At least one of 'min' or 'max' must not be None"),
    ("torch.where(i, f, f)", RuntimeError, "where expected condition to be a boolean tensor, but got a tensor with"),
    (
        "torch.lerp(f, torch.tensor([1.0, 2.0], dtype=torch.float64), 0.5)",
        RuntimeError,
        "expected dtype float for `end` but got dtype double",
    ),
    ("torch.relu(b)", RuntimeError, "Boolean inputs not supported for relu"),
    ("torch.isclose(i, f)", RuntimeError, "Long did not match Float"),
    ("i.float_power_(2)", RuntimeError, "the base given to float_power_ has dtype Long but the operation's result"),
    (
        "torch.float_power(f, 3, out=torch.empty(2))",
        RuntimeError,
        "the output given to float_power has dtype Float but the operation's result requires dtype Double",
    ),
    ("torch.gcd(f, torch.ones(3))", RuntimeError, "The size of tensor a (2) must match the size of tensor b (3)"),
    ("i.div_(2)", RuntimeError, "result type Float can't be cast to the desired output type Long"),
    ("c.abs_()", RuntimeError, "In-place abs is not supported for complex tensors."),
    ("divmod(i, 2)", TypeError, "unsupported operand type(s) for divmod(): 'Tensor' and 'int'"),
    ("i + None", TypeError, "unsupported operand type(s) for +: 'Tensor' and 'NoneType'"),
    ("i < None", TypeError, "'<' not supported between instances of 'Tensor' and 'NoneType'"),
    ("torch.remainder(2, 3)", TypeError, "remainder() received an invalid combination of arguments - got (int, int)"),
]


@pytest.mark.parametrize(("call", "error", "sentence"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refusals(call, error, sentence):
    scope = {
        "torch": torch,
        "b": torch.tensor([True, False]),
        "i": torch.tensor([1, 2]),
        "f": torch.tensor([1.0, 2.0]),
        "c": torch.tensor([1 + 0j, 2j]),
    }
    with pytest.raises(error) as caught:
        eval(call, scope)
    assert str(caught.value).startswith(sentence)


def test_equality_with_anything_else_is_false():
    x = torch.tensor([1])
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    assert hash(x) == hash(x) and len({x, x}) == 1


def test_reflected_operators():
    x = torch.tensor([1, 2, 4])
    assert (2 - x).tolist() == [1, 0, -2]
    assert (2 / x).tolist() == [2.0, 1.0, 0.5]
    y = torch.arange(1.0, 100.0)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert torch.equal(2.5 / y.to(dtype), y.to(dtype).reciprocal() * 2.5)
    assert (9 // x).tolist() == [9, 4, 2]
    assert (9 % x).tolist() == [0, 1, 1]
    assert (2**x).tolist() == [2, 4, 16]
    assert (6 & x).tolist() == [0, 2, 4]
    assert (8 >> x).tolist() == [4, 2, 0]
    assert (3 < x).tolist() == [False, False, True]


def test_activations_work_in_place():
    functional = torch.nn.functional
    for name in ("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "hardtanh", "hardswish"):
        x = torch.tensor([-1.0, 2.0])
        fresh = getattr(functional, name)(x)
        assert x.tolist() == [-1.0, 2.0]
        assert getattr(functional, name)(x, inplace=True) is x
        assert x.tolist() == fresh.tolist(), name


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_exponentials_of_large_numbers(dtype):
    def of(function, *numbers):
        return function(torch.tensor(numbers, dtype=dtype)).tolist()

    assert str(of(torch.exp, 800 + 0j, complex(800, -0.0), -800 + 3j)) == "[(inf+0j), (inf-0j), (-0+0j)]"
    assert of(torch.exp2, 1e20 + 0j) == [inf + 0j]
    assert of(torch.sigmoid, -800 + 0j, -800 + 1j, -1e38 + 0j) == [0, 0, 0]
    assert of(torch.sigmoid, 800 + 0j, 800 + 1j) == [1, 1]
    z = torch.tensor([0.3 - 2j, -3 + 1j, 5 + 0.5j], dtype=torch.complex128)
    np.testing.assert_allclose(torch.sigmoid(z).numpy(), 1 / (1 + np.exp(-z.numpy())), rtol=1e-14)
    np.testing.assert_allclose(torch.exp(z).numpy(), np.exp(z.numpy()), rtol=1e-15)


@pytest.mark.parametrize(("name", "base"), [("log", math.e), ("log2", 2), ("log10", 10)])
def test_complex_logarithms_near_the_unit_circle(name, base):
    """The logarithm of a magnitude close to one, compared with 60 digits."""
    points = [
        1.0000000288431856 - 8.268690442278634e-08j,
        0.6 + 0.8j,
        0.28 - 0.96j,
        -0.8000000001 + 0.6j,
        1j,
        0.9 + 0.1j,
    ]
    for z, ours in zip(
        points, getattr(torch, name)(torch.tensor(points, dtype=torch.complex128)).tolist(), strict=True
    ):
        with decimal.localcontext(prec=60):
            square = decimal.Decimal(z.real) ** 2 + decimal.Decimal(z.imag) ** 2
            exact = float(square.ln() / 2)
        assert ours.real == pytest.approx(exact / math.log(base), rel=1e-15, abs=0)


UNFIT = """
x(torch.float16).masked_fill(mask, -1e9)
x(torch.bfloat16).fill_(1e39)
x(torch.float16).clamp(max=1e9)
x(torch.float32).clamp(max=1e39)
x(torch.uint8).clamp(min=300)
x(torch.int32).clamp(max=2**40)
x(torch.int64).index_fill(0, torch.tensor([0]), math.nan)
x(torch.uint8).scatter(0, torch.tensor([0]), 300)
x(torch.uint8).scatter(0, torch.tensor([0]), 300, reduce="add")
torch.nn.functional.pad(x(torch.uint8), (1, 1), value=300)
torch.nn.functional.threshold(x(torch.uint8), 0, 300)
torch.where(mask, x(torch.uint8), 300)
x(torch.uint8).add(x(torch.uint8), alpha=300)
x(torch.float16).sub(x(torch.float16), alpha=1e9)
torch.rsub(x(torch.uint8), x(torch.uint8), alpha=300)
torch.addcmul(x(torch.float32), x(torch.float32), x(torch.float32), value=1e39)
torch.addmm(x(torch.int32)[None], x(torch.int32)[:, None], x(torch.int32)[None], alpha=2**40)
x(torch.uint8).pow(300)
torch.linspace(0, 300, 4, dtype=torch.uint8)
torch.histc(x(torch.float32), 4, 0, 1e39)
"""


@pytest.mark.parametrize("code", UNFIT.split("\n")[1:-1])
def test_numbers_that_a_dtype_does_not_hold_are_refused(code):
    """Otherwise they would silently wrap around or become infinite."""
    with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
        eval(
            code,
            {
                "torch": torch,
                "math": math,
                "x": lambda dtype: torch.zeros(3, dtype=dtype),
                "mask": torch.tensor([True, False, True]),
            },
        )


def test_numbers_that_fit_after_all():
    assert torch.zeros(2, dtype=torch.uint8).add(torch.ones(2, dtype=torch.uint8), alpha=-1).tolist() == [255, 255]
    assert torch.zeros(2).pow(1e39).tolist() == [0, 0]
    assert torch.zeros(2).clamp(max=math.inf).tolist() == [0, 0]
    assert (torch.zeros(2, dtype=torch.float16) + 1e9).tolist() == [math.inf, math.inf]


def test_logit_within_the_whole_interval():
    assert torch.logit(torch.tensor([-1.0, 0.5, 2.0]), eps=0.0).tolist() == [-float("inf"), 0, float("inf")]
    assert torch.logit(torch.tensor([-1.0, 2.0])).isnan().all()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_roots_and_inverses_of_infinite_numbers(dtype):
    x = torch.tensor([complex("inf"), complex("-inf"), complex("infj"), complex(np.inf, np.inf), 4, 0], dtype=dtype)
    for exponent, name in ((0.5, "sqrt"), (-0.5, "rsqrt"), (-1, "reciprocal")):
        assert np.array_equal((x**exponent).numpy(), getattr(x, name)().numpy(), equal_nan=True)
    assert (x**0.5)[0] == complex("inf") and (x**-1)[0] == 0


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "fix"])
def test_wide_unsigned_numbers_are_round(name, dtype):
    x = torch.tensor([0, 3, 60000], dtype=dtype)
    assert torch.equal(getattr(torch, name)(x), x)


def test_results_lie_as_their_operands():
    x = torch.zeros(4, 1, 5).permute(2, 1, 0)
    assert (x + torch.zeros(3, 1)).stride() == (1, 5, 15)
    assert torch.zeros(3, 8)[:, ::2].t().sin().stride() == (1, 4)
    assert (torch.zeros(3, 2).t() + torch.zeros(2, 3)).stride() == (1, 2)
    assert (torch.zeros(2, 3) + torch.zeros(3, 2).t()).stride() == (3, 1)
    assert torch.complex(torch.zeros(3, 2).t(), torch.zeros(3, 2).t()).stride() == (1, 2)


def test_powers_of_two_change_no_digits():
    """`ldexp` is exact for any exponent. An integer exponent does not change the dtype."""
    x = torch.tensor([0.0, 1e-30, 1.0, 3e-39, float("inf"), 1.0])
    found = torch.ldexp(x, torch.tensor([128, 140, -149, 10, -400, -1100]))
    assert found.tolist() == [0, float(x[1]) * 2.0**140, 2.0**-149, float(x[3]) * 1024, float("inf"), 0]
    wide = torch.ldexp(torch.tensor([1e-300, 1.0, 1e300], dtype=torch.float64), torch.tensor([1100, -1074, -2000]))
    assert wide.tolist() == [math.ldexp(1e-300, 1100), 5e-324, math.ldexp(1e300, -2000)]
    for dtype in (torch.float16, torch.bfloat16, torch.complex64):
        assert torch.ldexp(torch.ones(1, dtype=dtype), torch.tensor([3])).dtype == dtype
    assert torch.ldexp(torch.tensor([3]), torch.tensor([2])).dtype == torch.float32
    assert torch.ldexp(torch.ones(1), torch.tensor([0.5], dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_wide_unsigned_products_and_questions(bits):
    dtype = getattr(torch, f"uint{bits}")
    most = 2**bits - 1
    x = torch.tensor([most, 3, 0], dtype=dtype)
    assert (x * 3).tolist() == [most - 2, 9, 0] and (x * x).dtype == dtype
    assert torch.mul(x, 2, out=torch.empty(0, dtype=dtype)).tolist() == [most - 1, 6, 0]
    assert x.clone().mul_(x).tolist() == [1, 9, 0]
    assert torch.equal(x.any(), torch.tensor(True)) and x.all(0).item() is False
    assert torch.count_nonzero(x, dim=0).item() == 2
    assert x.isfinite().all() and not (x.isnan() | x.isinf() | x.isposinf() | x.isneginf() | x.signbit()).any()
    assert torch.equal(x.nan_to_num(), x) and torch.isin(x, x[:1]).tolist() == [True, False, False]
    assert (x == x).all() and (x ^ x).tolist() == [0, 0, 0] and (~x).tolist() == [0, most - 3, most]
    assert (x > 3).tolist() == [True, False, False]
    with pytest.raises(NotImplementedError, match=f"\"add_stub\" not implemented for 'UInt{bits}'"):
        x - 1
    with pytest.raises(RuntimeError, match=f"attempted to promote UInt{bits} and Bool"):
        x * torch.tensor([True])


def test_limits_are_all_numbers_or_all_tensors():
    x, low = torch.tensor([-1.0, 2.0]), torch.zeros(2)
    assert torch.clamp(x, low, low + 1).tolist() == x.clamp(0, 1).tolist() == [0, 1]
    for call in (lambda: torch.clamp(x, low, 1), lambda: x.clamp_(min=0, max=low), lambda: torch.clip(x, 0, low)):
        with pytest.raises(TypeError, match=r"cla?i?m?p_?\(\) received an invalid combination of arguments - got"):
            call()
    with pytest.raises(RuntimeError, match="value cannot be converted to type double without overflow"):
        x.clamp(max=1j)
    with pytest.raises(NotImplementedError, match="clamp is not supported for complex types"):
        torch.clamp_min(x, 1j)


def test_numbers_keep_their_digits_in_derivatives():
    """Derivatives compute with numbers in double precision, whatever the default dtype is."""
    x = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(torch.lerp(x, x.detach(), 0.2), x)[0].item() == 0.8
    below = torch.tensor([-0.5], dtype=torch.float64, requires_grad=True)
    slope = torch.autograd.grad(torch.celu(below, 0.3), below)[0].item()
    assert slope == pytest.approx(math.exp(-0.5 / 0.3), rel=1e-14)
    slope = torch.autograd.grad(torch.special.zeta(1.3, x), x)[0].item()
    assert slope == pytest.approx(-1.3 * torch.special.zeta(2.3, x).item(), rel=1e-14)


def test_operands_that_meet_the_result_are_read_first():
    """If one of two overlapping operands has gaps, the result is that of a copy. Two without gaps are an error."""
    for change, other in [
        (lambda x: x[0], lambda x: x[:, 0]),
        (lambda x: x[:, 1:], lambda x: x[:, :-1]),
        (lambda x: x.diagonal(), lambda x: x[0]),
        (lambda x: x[:2, :2], lambda x: x[1:, 1:]),
    ]:
        x, wanted = torch.arange(9.0).view(3, 3), torch.arange(9.0).view(3, 3)
        change(x).add_(other(x))
        change(wanted).copy_(change(wanted) + other(wanted).clone())
        assert torch.equal(x, wanted)
    z = torch.tensor([1 + 1j, 2 + 3j])
    assert z.add_(z.real).tolist() == [2 + 1j, 4 + 3j]
    x = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        x[1:].add_(x[:-1])


def test_one_element_that_stands_for_many_is_filled():
    assert torch.zeros(1).expand(3).fill_(2).tolist() == [2.0, 2.0, 2.0]
    assert torch.ones(2, 1).expand(2, 3).zero_().tolist() == [[0.0] * 3] * 2
    assert torch.ones(1).expand(2).fill_(torch.tensor(4.0)).tolist() == [4.0, 4.0]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.zeros(1).expand(3).add_(1)


def test_the_first_derivative_of_digamma_ends_at_zero():
    assert torch.polygamma(1, torch.tensor([math.inf, 0.0])).tolist() == [0.0, math.inf]


def test_results_that_are_not_needed_may_change():
    """As in torch, the gradients need only the inputs, so that the results may be changed in place."""
    for function in (torch.logaddexp, torch.logaddexp2):
        a = torch.tensor([0.5, 1.0], requires_grad=True)
        function(a, a * 2).add_(1).sum().backward()
        assert a.grad is not None
    a = torch.tensor([0.5], requires_grad=True)
    torch.erfinv(a).add_(1).sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_rounded_beside_halves(dtype):
    """Operands of other dtypes become halves first, except a number that multiplies or divides."""
    torch.manual_seed(0)
    x = (torch.rand(500) * 6 - 3).to(dtype)
    number = 2.3
    half = torch.tensor(number, dtype=dtype).item()
    wide, zero_dim = x.float(), torch.tensor(number, dtype=torch.float64)
    for other in (number, zero_dim):
        assert torch.equal(x + other, (wide + half).to(dtype))
        assert torch.equal(x - other, (wide - half).to(dtype))
        assert torch.equal(other - x, (half - wide).to(dtype))
        assert torch.equal(torch.fmod(x, other), torch.fmod(wide, half).to(dtype))
        assert torch.equal(torch.remainder(x, other), torch.remainder(wide, half).to(dtype))
        assert torch.equal(x * other, (wide * number).to(dtype))
        assert torch.equal(x / other, (wide / number).to(dtype))
        assert torch.equal(torch.floor_divide(x, other), torch.floor_divide(wide, number).to(dtype))
    assert torch.equal(zero_dim * x, (half * wide).to(dtype))
    assert torch.equal(x.abs() ** number, (wide.abs() ** half).to(dtype))
    assert torch.equal(torch.add(x, x, alpha=number), (wide + half * wide).to(dtype))
    assert torch.equal(torch.sub(x, x, alpha=number), (wide - half * wide).to(dtype))
    assert torch.nn.functional.hardshrink(torch.tensor([half], dtype=dtype), number) == 0
    integers = torch.randint(-5000, 5000, (500,))
    assert torch.equal(x + integers, (wide + integers.to(dtype).float()).to(dtype))
    assert torch.equal(x * integers, (wide * integers.to(dtype).float()).to(dtype))


def test_powers_of_negative_numbers_have_complex_gradients():
    for base in (-1, torch.tensor(-1.0), torch.tensor(-1.0 + 0j)):
        z = torch.tensor(1.5 + 0.5j, requires_grad=True)
        torch.pow(base, z).backward(torch.tensor(1.0 + 0j))
        assert torch.allclose(z.grad, torch.tensor(0.6531 + 0j), atol=1e-4)


def test_clamps_in_place_as_functions_take_tensors():
    x = torch.tensor([-2.0, 3.0])
    assert torch.clamp_min_(x, torch.tensor([0.0, 4.0])) is x and x.tolist() == [0, 4]
    assert torch.clamp_max_(x, torch.tensor([-1.0, 5.0])) is x and x.tolist() == [-1, 4]


@pytest.mark.parametrize("name", ["sin", "sigmoid", "erfinv", "rsqrt", "exp2", "lgamma"])
def test_shared_elements_are_refused_before_dtypes(name):
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
    ):
        getattr(torch.ones(1, dtype=torch.int64).expand(3), f"{name}_")()
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        getattr(torch.ones(3, dtype=torch.int64), f"{name}_")()


def test_the_gradient_of_an_exponent_is_rounded_after_each_product():
    x = torch.tensor([[1.7, -2.3], [3.1, 0.7], [-1.9, 2.2]], dtype=torch.bfloat16)
    y = torch.tensor([1.3, -0.6], dtype=torch.bfloat16, requires_grad=True)
    direction = torch.tensor([[0.3, 0.7], [-1.1, 0.9], [0.45, -0.35]], dtype=torch.bfloat16)
    result = torch.ldexp(x, y)
    expected = (direction * result.detach() * 0.6931471805599453).sum(0)
    assert torch.autograd.grad(result, y, direction)[0].tolist() == expected.tolist() == [-6.40625, -0.8046875]


def test_thresholds_of_expanded_tensors():
    """A second change of an element changes nothing; other operators refuse such a tensor in place."""
    for sizes in ((3,), (2, 3)):
        x = torch.tensor([0.0]).expand(sizes)
        assert (
            torch.threshold_(x, 0.5, 1.0) is x
            and torch.equal(x, torch.ones(sizes))
            and x.untyped_storage().nbytes() == 4
        )
    x = torch.tensor([[1.0], [-2.0]]).expand(2, 3).t()
    assert torch.nn.functional.threshold(x, 0.0, -5.0, inplace=True).tolist() == [[1, -5]] * 3
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.zeros(1).expand(3).relu_()
