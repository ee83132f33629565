"""Operators of programs (`torch.library.custom_op`) and `torch.ops`."""

import pytest

import rushlight as torch
from rushlight import Tensor
from rushlight.library import custom_op

calls = []


@custom_op("tests::scale", mutates_args=())
def scale(x: Tensor, factor: float = 2.0) -> Tensor:
    calls.append(torch.is_grad_enabled())
    return x * factor


def test_an_operator_is_called_like_its_function():
    calls.clear()
    x = torch.ones(2)
    assert scale(x).tolist() == [2, 2] and scale(x, factor=3.0).tolist() == [3, 3]
    assert torch.ops.tests.scale(x, 4.0).tolist() == torch.ops.tests.scale.default(x, factor=4.0).tolist() == [4, 4]
    assert calls == [False] * 4, "the function is not recorded"
    assert repr(scale) == "<CustomOpDef(tests::scale)>" and str(scale._opoverload) == "tests.scale.default"


def test_derivatives_are_registered():
    op = custom_op("tests::power", lambda x, n=2: x**n, mutates_args=(), schema="(Tensor x, int n=2) -> Tensor")
    x = torch.tensor([3.0], requires_grad=True)
    y = op(x)
    assert y.requires_grad and type(y.grad_fn).__name__.startswith("GeneratedBackwardFor_tests_power_default")
    with pytest.raises(
        RuntimeError, match="Trying to backward through tests.power.default but no autograd formula was"
    ):
        y.backward()

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.n = inputs[1]

    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * ctx.n * x ** (ctx.n - 1), None

    torch.library.register_autograd("tests::power", backward, setup_context=setup_context)
    op(x, n=3).backward()
    assert x.grad.tolist() == [27]
    with torch.no_grad():
        assert not op(x).requires_grad


def test_derivatives_of_lists():
    def sums(x: Tensor, rest: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        return x * 1, [x + one for one in rest]

    op = custom_op("tests::sums", sums, mutates_args=())
    op.register_autograd(lambda ctx, one, more: (one + more[0] + more[1], [more[0], None]))
    x, y = (torch.ones(1, requires_grad=True) for _ in range(2))
    first, (second, third) = op(x, [y, y])
    (first + 2 * second + 3 * third).backward()
    assert (x.grad.item(), y.grad.item()) == (6, 2)


def test_tensors_without_data_need_a_function_of_their_own():
    op = custom_op("tests::hidden", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    x = torch.ones(2, device="meta")
    with pytest.raises(RuntimeError, match=r"There was no fake impl registered for <CustomOpDef\(tests::hidden\)>"):
        op(x)
    torch.library.register_fake("tests::hidden", torch.empty_like)
    assert op(x).shape == (2,) and op(torch.ones(1)).item() == 2
    torch.library.register_kernel(op, "cpu", lambda x: x + 10)
    assert op(torch.ones(1)).item() == 11


def test_operators_that_change_arguments():
    def add_(x: Tensor, y: Tensor) -> None:
        x.add_(y)

    op = custom_op("tests::add_", add_, mutates_args={"x"})
    x = torch.zeros(1)
    assert op(x, torch.ones(1)) is None and x.item() == 1
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        op.register_autograd(lambda ctx, gradient: gradient)


@pytest.mark.parametrize("function", [lambda x: x, lambda x: x.view(-1), lambda x: (y := x + 1, y)])
def test_results_share_no_memory(function):
    op = custom_op("tests::alias", function, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="must not also be an input to this custom operator"):
        op(torch.ones(2))


def test_what_is_wrong_with_a_definition():
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        custom_op("tests::bare", lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="'namespace::name', got bare"):
        custom_op("bare", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="operator tests::none does not exist"):
        torch.library.register_fake("tests::none", torch.empty_like)


def test_operators_by_the_names_of_the_registry():
    aten, x = torch.ops.aten, torch.arange(6.0).reshape(2, 3)
    assert torch.equal(aten.add.Tensor(x, x), x * 2) and torch.equal(aten.relu(-x), torch.zeros(2, 3))
    assert torch.equal(aten.slice.Tensor(x, 1, 1, 3), x[:, 1:3]) and torch.equal(aten.alias(x), x)
    assert torch.equal(aten.index.Tensor(x, [None, torch.tensor([0])]), x[:, [0]])
    copy = aten._to_copy(x, dtype=torch.float64)
    assert copy.dtype == torch.float64 and aten._to_copy(x).data_ptr() != x.data_ptr()
    assert aten.add.Tensor is aten.add.Tensor and aten.add.Tensor.overloadpacket is aten.add
    assert (str(aten.add), str(aten.add.Tensor), aten.add.Tensor.name()) == (
        "aten.add",
        "aten.add.Tensor",
        "aten::add.Tensor",
    )
    for namespace, name in ((aten, "no_such_operator"), (torch.ops.other, "nms")):
        with pytest.raises(
            AttributeError, match=f"'_OpNamespace' '{namespace._name}' object has no attribute '{name}'"
        ):
            getattr(namespace, name)
    with pytest.raises(NotImplementedError, match="sparse CSR"):
        aten._sparse_mm_reduce_impl(x, x, "sum")
    with pytest.raises(OSError, match="Could not load this library: ops.so"):
        torch.ops.load_library("ops.so")
