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
x.swapaxes_(0, 1): transpose_.default
x.swapdims_(0, 1): transpose_.default
i.__ior__(1): bitwise_or_.Scalar
i.__iand__(i): bitwise_and_.Tensor
i.__ixor__(3): bitwise_xor_.Scalar
x.__ipow__(2): pow_.Scalar
x.type(torch.float64): _to_copy.default
x.type("torch.DoubleTensor"): _to_copy.default
torch.where(x > 0): unbind.int
torch.where(x > 0, 1, x): where.self
torch.empty(2): empty.memory_format
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


def test_numbers_of_where_are_made_tensors():
    x, names = torch.rand(2), Names()
    with names:
        torch.where(x > 0, 1, 2)
        torch.where(x > 0, 2.0, x.long())
    number, own = "aten.scalar_tensor.default", "aten.where.self"
    assert names.seen[1:4] == [number, number, own] and names.seen[6:] == [number, "aten._to_copy.default", own]


def test_the_kind_of_a_tensor_is_no_operator():
    x, names = torch.rand(2), Names()
    with names:
        assert x.type() == "torch.FloatTensor" and x.type("torch.FloatTensor") is x
    assert names.seen == []


def test_overloads_are_those_of_torch():
    aten = torch.ops.aten
    assert "default" not in aten.empty.overloads()
    with pytest.raises(AttributeError, match="The underlying op of 'aten.empty' has no overload name 'default'"):
        aten.empty.default
    assert (
        aten.add.overloads()
        == """Tensor Scalar out Scalar_out t str int complex float int_complex complex_int float_complex
        complex_float int_float float_int default""".split()
    )
    assert aten._foreach_add_.overloads() == ["Scalar", "List", "ScalarList", "Tensor"]


def test_packets_take_numbers_and_texts():
    aten = torch.ops.aten
    assert (aten.add("a", "b"), aten.sqrt(4), aten.ge(1, 2), aten.neg(4), aten.pow(2, 3)) == ("ab", 2.0, False, -4, 8.0)


def test_calls_that_fit_no_schema_are_refused_in_torchs_words():
    aten, x = torch.ops.aten, torch.ones(2)
    several = "Overloaded torch operator invoked from Python failed to match any schema:\n"
    mismatch = "aten::add() Expected a value of type 'Tensor' for argument 'other' but instead found type 'str'."
    for call, sentence in (
        (lambda: aten.add(x, "b"), several + mismatch),
        (lambda: aten.add.Tensor(x, "b"), mismatch),
        (
            lambda: aten.add(x),
            several + "aten::add() is missing value for argument 'other'. Declaration: aten::add.Tensor(",
        ),
        (
            lambda: aten.detach("a"),
            "aten::detach() Expected a value of type 'Tensor' for argument 'self' but instead found",
        ),
        (
            lambda: aten.add.Tensor(x, x, x),
            "aten::add() takes 2 positional argument(s) but 3 was/were given.  Declaration: aten::add.Tensor(Tensor self, ",
        ),
        (
            lambda: aten.add.Tensor(x, x, foo=1),
            "Unknown keyword argument 'foo' for operator 'aten::add'. Schema: aten::add.Tensor(Tensor self, Tensor other, *",
        ),
        (
            lambda: aten.mm(x),
            several + "aten::mm() is missing value for argument 'mat2'. Declaration: aten::mm(Tensor self",
        ),
    ):
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("add.int", (1, 2), 3),
        ("add.str", ("a", "b"), "ab"),
        ("div.int", (1, 0), float("inf")),
        ("sqrt.float", (4.0,), 2.0),
        ("log.int", (0,), float("-inf")),
        ("pow.int", (2, -1), 0.5),
        ("remainder.int", (-7, 3), 2),
        ("fmod.int", (-7, 3), -1.0),
        ("ceil.float", (2.5,), 3),
        ("round.float", (2.5,), 2.0),
        ("sum.int", ([1, 2],), 3),
        ("eq.int_list", ([1, 2], [1, 2]), True),
        ("slice.str", ("abc", 1), "bc"),
        ("split.str", ("a b",), ["a", "b"]),
        ("add.complex", (1j, 2), 2 + 1j),
    ],
)
def test_overloads_of_numbers(name, arguments, wanted):
    packet, overload = name.split(".")
    found = getattr(getattr(torch.ops.aten, packet), overload)(*arguments)
    assert found == wanted and type(found) is type(wanted)


def test_overloads_of_numbers_check_their_arguments():
    wrong = "Expected a value of type 'int' for argument 'a' but instead found type 'float'"
    with pytest.raises(RuntimeError, match=wrong):
        torch.ops.aten.add.int(1.5, 2)
