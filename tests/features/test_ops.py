"""OPS: Python operators and elementwise functions."""

import math

import numpy as np
import pytest

import rushlight as torch

A = [7.0, -7.0, 2.5]
B = [2.0, 3.0, -2.0]


@pytest.fixture
def a():
    return torch.tensor(A)


@pytest.fixture
def b():
    return torch.tensor(B)


def test_ops_1_minus_sign(a):
    """`-x` is `torch.neg(x)`."""
    assert (-a).tolist() == torch.neg(a).tolist() == [-7, 7, -2.5]


def test_ops_2_plus(a, b):
    """`x + y` is `torch.add(x, y)`."""
    assert (a + b).tolist() == torch.add(a, b).tolist() == [9, -4, 0.5]


def test_ops_3_minus(a, b):
    """`x - y` is `torch.sub(x, y)`."""
    assert (a - b).tolist() == torch.sub(a, b).tolist() == [5, -10, 4.5]


def test_ops_4_times(a, b):
    """`x * y` is `torch.mul(x, y)`."""
    assert (a * b).tolist() == torch.mul(a, b).tolist() == [14, -21, -5]


def test_ops_5_division_is_true_division():
    """Integers divide to floats; in place, a float tensor takes the quotient."""
    quotient = torch.tensor(7) / torch.tensor(2)
    assert quotient.item() == torch.div(torch.tensor(7), 2).item() == 3.5 and quotient.dtype is torch.float32
    x = torch.tensor([7.0])
    x /= 2
    assert x.item() == 3.5


def test_ops_6_floor_division():
    """`//` rounds down, also for negative numbers."""
    assert (torch.tensor([-7, 7]) // 2).tolist() == torch.floor_divide(torch.tensor([-7, 7]), 2).tolist() == [-4, 3]


def test_ops_7_remainder():
    """`%` has the sign of the divisor."""
    assert (torch.tensor([-7, 7]) % 3).tolist() == torch.remainder(torch.tensor([-7, 7]), 3).tolist() == [2, 1]
    assert (torch.tensor([7]) % -3).tolist() == [-2]


def test_ops_8_power():
    """`**` is `torch.pow`, also in place. Integers do not support negative exponents."""
    x = torch.tensor([2.0, 3.0])
    assert (x**2).tolist() == torch.pow(x, 2).tolist() == [4, 9]
    x **= 2
    assert x.tolist() == [4, 9]
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
        torch.tensor([2]) ** -1


def test_ops_9_matrix_product():
    """`x @ y` is `torch.matmul(x, y)`."""
    x, y = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0], [6.0]])
    assert (x @ y).tolist() == torch.matmul(x, y).tolist() == [[17], [39]]


def test_ops_10_order():
    """`>`, `>=`, `<`, `<=` compare element by element and return bool."""
    x, y = torch.tensor([1, 2, 3]), torch.tensor([2, 2, 2])
    assert (x > y).tolist() == torch.gt(x, y).tolist() == [False, False, True]
    assert (x >= y).tolist() == torch.ge(x, y).tolist() == [False, True, True]
    assert (x < y).tolist() == torch.lt(x, y).tolist() == [True, False, False]
    assert (x <= y).tolist() == torch.le(x, y).tolist() == [True, True, False]
    assert (x > y).dtype is torch.bool


def test_ops_11_equality(a, b):
    """`==` and `!=` compare element by element. A detached copy is equal everywhere."""
    assert (a == b).tolist() == torch.eq(a, b).tolist() == [False, False, False]
    assert (a != b).tolist() == torch.ne(a, b).tolist() == [True, True, True]
    leaf = a.requires_grad_()
    assert leaf.eq(leaf.detach().clone()).all().item() is True


def test_ops_12_absolute_value(a):
    """`abs(x)` is `torch.abs(x)`."""
    assert abs(a).tolist() == torch.abs(a).tolist() == [7, 7, 2.5]


def test_ops_13_bits(a, b):
    """`&`, `|`, `^` work on the bits of integers and on bool, but not on floats."""
    x, y = torch.tensor([12]), torch.tensor([10])
    assert [(x & y).item(), (x | y).item(), (x ^ y).item()] == [8, 14, 6]
    p, q = torch.tensor([True, True, False]), torch.tensor([True, False, False])
    assert (p & q).tolist() == [True, False, False] and (p | q).tolist() == [True, True, False]
    assert (p ^ q).tolist() == [False, True, False]
    for operation in (torch.Tensor.__and__, torch.Tensor.__or__, torch.Tensor.__xor__):
        with pytest.raises(RuntimeError, match="not implemented for 'Float'"):
            operation(a, b)


def test_ops_14_shifts(a):
    """`<<` and `>>` shift the bits of integers. For floats the error contains operator and dtype."""
    assert (torch.tensor([3]) << 2).item() == 12 and (torch.tensor([-8]) >> 1).item() == -4
    with pytest.raises(RuntimeError, match="(?s)'Float'.*bitwise_left_shift"):
        a << 1
    with pytest.raises(RuntimeError, match="(?s)'Float'.*bitwise_right_shift"):
        a >> 1


def test_ops_15_not():
    """`~` inverts every bit of an integer, and is the logical not of bool."""
    assert (~torch.tensor([5, -1])).tolist() == [-6, 0]
    assert (~torch.tensor([True, False])).tolist() == [False, True]
    assert (~torch.ByteTensor([0, 1, 200])).tolist() == [255, 254, 55]


def test_ops_16_in_place_forms():
    """`x += y` and similar operators change x's memory and version. Results of an incompatible dtype are errors."""
    x = torch.tensor([8.0])
    memory = x.data_ptr()
    alias = x
    x += 2
    x -= 1
    x *= 4
    x /= 3
    x //= 5
    x **= 3
    x %= 5
    assert x is alias and x.data_ptr() == memory and x._version == 7
    assert x.item() == 3  # 8, 10, 9, 36, 12, 2, 8, 3
    n = torch.tensor([6])
    n &= 3
    n |= 8
    n ^= 1
    n <<= 2
    n >>= 1
    assert n.item() == 22  # 6, 2, 10, 11, 44, 22
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        n += 1.5


def test_ops_17_words_of_logic(a):
    """`and`, `or` and `not` need one truth value. For several elements the error names the operators to use."""
    one, none = torch.tensor([1.0]), torch.tensor(0.0)
    assert (one and 5) == 5 and (none or 5) == 5 and (not none) is True
    for ask in (lambda: a and 5, lambda: a or 5, lambda: not a):
        with pytest.raises(RuntimeError, match="(?s)more than one value is ambiguous.*x & y, x | y, ~x"):
            ask()


def test_ops_18_numbers_on_the_left():
    """A Python number does not change the dtype of the tensor, on either side."""
    x = torch.tensor([2.0])
    for result, value in ((2 * x, 4), (1 / x, 0.5), (x * x * 3, 12), (3 - x, 1), (2**x, 4), (5 // x, 2), (5 % x, 1)):
        assert result.dtype is torch.float32 and result.item() == value
    assert (2 * torch.tensor([2.0], dtype=torch.float16)).dtype is torch.float16


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "tanh"])
def test_ops_19_accurate_functions(name):
    """Single precision is within 2 ULP of the exact value. Invalid arguments give the results of C99."""
    x = torch.linspace(0.01, 80, 20_000)
    exact = getattr(np, name)(x.numpy().astype("float64"))
    found = getattr(torch, name)(x).numpy()
    assert (np.abs(found - exact) <= 2 * np.spacing(np.abs(exact).astype("float32"))).all()
    assert math.isnan(getattr(torch, name)(torch.tensor(math.nan)).item())


def test_ops_19_special_values():
    """Infinities, zeros and denormals, for all functions of the requirement."""
    numbers = torch.tensor([0.0, -1.0, math.inf])
    assert torch.log(numbers)[0] == -math.inf and torch.log(numbers)[1].isnan() and torch.log(numbers)[2] == math.inf
    assert torch.sqrt(numbers)[1].isnan() and torch.exp(-numbers).tolist()[2] == 0
    assert torch.exp(torch.tensor(-100.0)).item() == pytest.approx(3.78e-44, abs=1.5e-45)
    assert math.copysign(1, torch.sqrt(torch.tensor(-0.0)).item()) == -1
    assert torch.tensor([3.0]).pow(2).item() == 9
    assert torch.atan2(torch.tensor([1.0, -0.0]), torch.tensor([-1.0, -1.0])).tolist() == pytest.approx(
        [3 * math.pi / 4, -math.pi]
    )
    assert torch.cumprod(torch.tensor([1, 2, 3, 4]), 0).tolist() == [1, 2, 6, 24]


def test_ops_20_logsumexp():
    """The largest summand is subtracted first, so that nothing overflows."""
    assert torch.logsumexp(torch.tensor([1000.0, 0.0]), 0).item() == 1000
    assert torch.logsumexp(torch.tensor([-1000.0, -1000.0]), 0).item() == pytest.approx(-1000 + math.log(2))


def test_ops_21_relu_and_softmax():
    """They are functions and methods of tensors. A softmax sums to one along `dim`."""
    assert torch.relu(torch.tensor([-1.0, 2.0])).tolist() == torch.tensor([-1.0, 2.0]).relu().tolist() == [0, 2]
    x = torch.tensor([[0.0, 0.0], [0.0, math.log(3)]])
    assert torch.softmax(x, dim=1)[1].tolist() == pytest.approx([0.25, 0.75])
    assert torch.softmax(x, dim=0)[:, 1].tolist() == pytest.approx([0.25, 0.75])
    assert x.log_softmax(-1)[0].tolist() == pytest.approx([-math.log(2)] * 2)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.softmax(x, dim=2)


def test_ops_22_transposition():
    """`t()` supports up to two dimensions. `.T` is the same as a property."""
    x = torch.arange(6).reshape(2, 3)
    assert x.t().shape == x.T.shape == (3, 2) and x.t().tolist() == x.T.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert torch.arange(3).t().tolist() == [0, 1, 2] and torch.tensor(1).t().shape == ()
    with pytest.raises(RuntimeError, match=r"t\(\) expects a tensor with <= 2 dimensions, but self is 3D"):
        torch.zeros(1, 2, 3).t()


#: By the dtype of a tensor: the result dtypes of torch 2.13 with each of `others`.
PROMOTED = {
    "bool": "bool int64 float32 complex64 uint8 float16 bfloat16 float64 int64",
    "uint8": "uint8 uint8 float32 complex64 uint8 float16 bfloat16 float64 uint8",
    "int16": "int16 int16 float32 complex64 int16 float16 bfloat16 float64 int16",
    "int64": "int64 int64 float32 complex64 int64 float16 bfloat16 float64 int64",
    "float16": "float16 float16 float16 complex32 float16 float16 float32 float64 float16",
    "bfloat16": "bfloat16 bfloat16 bfloat16 complex64 bfloat16 float32 bfloat16 float64 bfloat16",
    "float32": "float32 float32 float32 complex64 float32 float32 float32 float64 float32",
    "float64": "float64 float64 float64 complex128 float64 float64 float64 float64 float64",
    "complex64": "complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex128 complex64",
}


def others():
    one = {name: torch.ones(1, dtype=getattr(torch, name)) for name in ("uint8", "float16", "bfloat16", "float64")}
    return [True, 1, 1.0, 1j, *one.values(), torch.tensor(1)]


@pytest.mark.parametrize("name", PROMOTED)
def test_ops_23_promotion(name):
    """Numbers and zero-dimensional tensors change the category of a dtype, never its width. Other tensors change both."""
    x = torch.ones(1, dtype=getattr(torch, name))
    assert [str(torch.result_type(x, other)) for other in others()] == [f"torch.{n}" for n in PROMOTED[name].split()]
    for other in (1.0, torch.ones(1, dtype=torch.float64), torch.tensor(1)):
        assert (x * other).dtype is torch.result_type(x, other)
