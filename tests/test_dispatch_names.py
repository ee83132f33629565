"""The overloads under which modes see the calls of programs. The names are those that torch 2.13 shows."""

import pytest

import rushlight as torch
from rushlight.utils._python_dispatch import TorchDispatchMode

SEEN = """
i << 1: __lshift__.Scalar
i >> i: __rshift__.Tensor
1 << i: bitwise_left_shift.Scalar_Tensor
i.bitwise_left_shift(1): bitwise_left_shift.Tensor_Scalar
i.bitwise_right_shift_(i): bitwise_right_shift_.Tensor
x ** 2: pow.Tensor_Scalar
2 ** x: pow.Scalar
x.pow_(2): pow_.Scalar
x.pow_(x): pow_.Tensor
x.ldexp_(i): ldexp_.default
torch.ldexp(x, i): ldexp.Tensor
x.transpose_(0, 1): transpose_.default
x.transpose(0, 1): transpose.int
x.xlogy_(2): xlogy_.Scalar_Other
torch.xlogy(2, x): xlogy.Scalar_Self
x.clamp_min_(x): clamp_min_.Tensor
x.clamp_max(1): clamp_max.default
x.div_(2, rounding_mode="floor"): div_.Tensor_mode
x.floor_divide_(2): floor_divide_.Tensor
x.floor_divide(2): floor_divide.default
x.scatter(0, i, x): scatter.src
x.scatter_(dim=0, index=i, value=2.0): scatter_.value
x.scatter_(0, i, 2.0, reduce="multiply"): scatter_.value_reduce
x.index_fill(0, i[0], 3.0): index_fill.int_Scalar
torch.xlogy(input=x, other=x): xlogy.Tensor
torch.pow(input=x, exponent=2): pow.Tensor_Scalar
torch.scatter(input=x, dim=0, index=i, src=x): scatter.src
torch.index_fill(input=x, dim=0, index=i[0], value=1.0): index_fill.int_Scalar
x.clamp_min(min=x): clamp_min.Tensor
x.eq(other=x): eq.Tensor
x.random_(): random_.default
x.random_(3): random_.to
x.random_(1, 3): random_.from
"""


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("line", SEEN.strip().splitlines())
def test_a_mode_sees_the_overload(line):
    call, name = line.rsplit(": ", 1)
    names = Names()
    with names:
        eval(call, {"torch": torch, "x": torch.rand(2, 2), "i": torch.tensor([[0, 1], [1, 0]])})
    assert names.seen[-1] == f"aten.{name}"
