"""EXT: functions, modules and libraries that users write."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.autograd import Function, gradcheck, gradgradcheck
from rushlight.autograd.function import once_differentiable


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


def test_ext_1_apply_save_and_twice():
    """A function with static methods saves tensors for backward, which is itself differentiable."""
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    y = Cube.apply(x)
    assert y.grad_fn.name() == "CubeBackward"
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [3.0, 12.0] and second.tolist() == [6.0, 12.0]
    assert gradcheck(Cube.apply, (x,)) and gradgradcheck(Cube.apply, (x,))


def test_ext_1_needs_input_grad():
    """The context has a flag for each argument that says whether its gradient is needed."""
    needed = []

    class Two(Function):
        @staticmethod
        def forward(ctx, a, b, c):
            return a * b

        @staticmethod
        def backward(ctx, grad):
            needed.append(ctx.needs_input_grad)
            return grad, None, None

    Two.apply(torch.ones(1, requires_grad=True), torch.ones(1), "text").backward()
    assert needed == [(True, False, False)]


def test_ext_1_mark_dirty():
    """A function may change its argument in place if it declares this. Version and history are updated."""

    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    x = torch.ones(2, requires_grad=True)
    h = x * 1
    assert Double.apply(h) is h
    assert h.tolist() == [2.0, 2.0] and h._version == 2
    h.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_ext_1_mark_non_differentiable():
    """A result may have no gradient. With `set_materialize_grads(False)` missing gradients are None."""
    arrived = []

    class Sort(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            values, places = x.sort()
            largest = x.max()
            ctx.mark_non_differentiable(places)
            ctx.save_for_backward(places)
            return values, places, largest

        @staticmethod
        def backward(ctx, grad, no_grad, largest):
            arrived.append(largest)
            (places,) = ctx.saved_tensors
            return torch.zeros(3).scatter(0, places, grad), None

    for materialize, missing in ((True, torch.tensor(0.0)), (False, None)):
        x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
        values, places, _ = Sort.apply(x, materialize)
        assert values.requires_grad and not places.requires_grad
        (values * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
        assert x.grad.tolist() == [100.0, 1.0, 10.0]
        assert arrived.pop() == missing


def test_ext_1_once_differentiable():
    """Differentiating a non-differentiable backward raises an error."""

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    x = torch.tensor(3.0, requires_grad=True)
    (first,) = torch.autograd.grad(Square.apply(x) ** 2, x, create_graph=True)
    assert first.item() == 108 and Square.apply(x).grad_fn.name() == "SquareBackward"
    grad = torch.ones((), requires_grad=True)
    (guarded,) = torch.autograd.grad(Square.apply(x), x, grad, create_graph=True)
    assert guarded.grad_fn.name() == "torch::autograd::Error"
    with pytest.raises(
        RuntimeError, match="trying to differentiate twice a function that was marked with @once_differentiable"
    ):
        first.backward()


class OldLinear(Function):
    """A function in the style of 2017: an optional bias, and a backward that returns too many values."""

    def forward(self, input, weight, bias=None):
        self.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    def backward(self, grad_output):
        input, weight, bias = self.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if self.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if self.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and self.needs_input_grad[2]:
            grad_bias = grad_output.sum(0).squeeze(0)
        return grad_input, grad_weight, grad_bias


def old_linear(input, weight, bias=None):
    return OldLinear()(input, weight, bias) if bias is not None else OldLinear()(input, weight)


@pytest.mark.parametrize("with_bias", [True, False])
def test_ext_2_instances(with_bias):
    """Functions with instance methods work with a warning. Additional gradients that are None are ignored."""
    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    weight = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], requires_grad=True)
    parameters = [weight, torch.ones(4, requires_grad=True)][: 1 + with_bias]
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        y = old_linear(x, *parameters)
    assert torch.equal(y, nn.functional.linear(x, *parameters))
    y.sum().backward()
    assert x.grad.tolist() == [[16.0, 20.0]] * 3
    assert weight.grad.tolist() == [[6.0, 9.0]] * 4
    assert not with_bias or parameters[1].grad.tolist() == [3.0] * 4


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_ext_2_what_an_instance_holds():
    """Attributes of the instance are available in both methods, and two instances do not share saved values."""

    class Scale(Function):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x, y):
            self.save_for_backward(x, y)
            return self.factor * x * y, x + y

        def backward(self, product, total):
            x, y = self.saved_tensors
            return self.scaled(product * y) + total, self.scaled(product * x) + total

        def scaled(self, grad):
            return self.factor * grad

    a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    first, second = Scale(10)(a, b), Scale(100)(b, b)
    (first[0] + 3 * first[1] + second[0]).backward()
    assert a.grad.item() == 10 * 5 + 3
    assert b.grad.item() == 10 * 2 + 3 + 2 * 100 * 5

    with pytest.raises(RuntimeError, match="use new-style autograd function"):
        Cube()(a)


class LinearFunction(Function):
    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        output = input @ weight.t()
        return output if bias is None else output + bias

    @staticmethod
    def backward(ctx, grad):
        input, weight, bias = ctx.saved_tensors
        return grad @ weight, grad.t() @ input, None if bias is None else grad.sum(0)


def linear(input, weight, bias=None):
    return LinearFunction.apply(input, weight, bias)


def test_ext_3_linear():
    """The gradients are g . W, g^T . x and the sum of g; for a sum they are column sums of the other operand."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, requires_grad=True)
    weight, bias = torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    LinearFunction.apply(x, weight, bias).sum().backward()
    torch.testing.assert_close(x.grad, weight.detach().sum(0).expand(2, 3))
    torch.testing.assert_close(weight.grad, x.detach().sum(0).expand(4, 3))
    assert bias.grad.tolist() == [2.0] * 4
    own = [t.grad for t in (x, weight)]
    x.grad = weight.grad = None
    LinearFunction.apply(x, weight).sum().backward()
    assert torch.equal(x.grad, own[0]) and torch.equal(weight.grad, own[1])


def test_ext_4_a_function_around_it():
    """A plain function wraps the call with its optional argument."""
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((2, 3), (4, 3), (4,)))
    assert gradcheck(linear, (x, weight, bias)) and gradcheck(linear, (x, weight))
    torch.testing.assert_close(linear(x, weight, bias), nn.functional.linear(x, weight, bias))


def test_ext_5_multiplication_with_a_constant():
    """An argument that is not a tensor is stored in the context, and its gradient is None."""

    class MulConstant(Function):
        @staticmethod
        def forward(ctx, tensor, constant):
            ctx.constant = constant
            return tensor * constant

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.constant, None

    x = torch.randn(2, requires_grad=True)
    MulConstant.apply(x, 5.5).sum().backward()
    assert x.grad.tolist() == [5.5, 5.5]


class Wrong(Cube):
    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


def test_ext_6_gradcheck():
    """The check passes or shows both Jacobians. It is also available under its own name."""
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(Cube.apply, (x,), eps=1e-6, atol=1e-4) is True
    assert gradcheck.gradcheck(Cube.apply, (x,), eps=1e-6, atol=1e-4) is True
    with pytest.raises(RuntimeError, match=r"(?s)Jacobian mismatch.*numerical:.*analytical:"):
        gradcheck(Wrong.apply, (x,), eps=1e-6, atol=1e-4)
    assert gradcheck(Wrong.apply, (x,), raise_exception=False) is False


def test_ext_7_gradgradcheck():
    """A wrong second derivative is detected although the first is correct."""

    class SecondWrong(Cube):
        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * x.detach() * grad

    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(Cube.apply, (x,)) is True
    assert gradcheck(SecondWrong.apply, (x,)) is True
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradgradcheck(SecondWrong.apply, (x,))


class Linear(nn.Module):
    def __init__(self, input_features, output_features, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(output_features, input_features))
        if bias:
            self.bias = nn.Parameter(torch.empty(output_features))
        else:
            self.register_parameter("bias", None)
        self.register_buffer("calls", torch.zeros(()))
        self.plain = torch.ones(1)
        self.weight.data.uniform_(-0.1, 0.1)
        if bias:
            self.bias.data.uniform_(-0.1, 0.1)

    def forward(self, input):
        return linear(input, self.weight, self.bias)


def test_ext_8_a_module():
    """Parameters are registered by assignment, or as None. A missing super().__init__() raises an error."""
    model = Linear(4, 3)
    assert [name for name, _ in model.named_parameters()] == ["weight", "bias"]
    assert list(model.state_dict()) == ["weight", "bias", "calls"]
    assert 0 < model.weight.abs().max() <= 0.1 and model.weight.requires_grad
    assert model(torch.ones(2, 4)).shape == (2, 3)
    without = Linear(4, 3, bias=False)
    assert without.bias is None and [name for name, _ in without.named_parameters()] == ["weight"]

    class Forgetful(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(torch.ones(4, 3))

    with pytest.raises(AttributeError, match=r"cannot assign parameters before Module.__init__\(\) call"):
        Forgetful()


def test_ext_8_a_weight_the_wrong_way_round():
    """A weight of shape (in, out) instead of (out, in): the error shows both shapes."""
    with pytest.raises(RuntimeError, match=r"2x4 and 3x4"):
        linear(torch.ones(2, 4), torch.ones(4, 3))


def test_ext_9_conversion():
    """Parameters and buffers are converted, plain attributes are not. A parameter requires a gradient by default."""
    model = Linear(2, 2)
    weight = model.weight
    assert model.double() is model and model.weight is weight
    assert {t.dtype for t in model.state_dict().values()} == {torch.float64}
    assert model.plain.dtype == torch.float32
    model.to("cpu", torch.float16)
    assert (model.weight.dtype, model.calls.dtype, model.plain.dtype) == (torch.float16, torch.float16, torch.float32)
    with torch.no_grad():
        assert nn.Parameter(torch.ones(1)).requires_grad is True
    with pytest.raises(TypeError, match="volatile"):
        nn.Parameter(torch.ones(1), volatile=True)


def test_ext_10_functions_in_another_language():
    """Another language computes in shared memory, and a `Function` defines the derivative."""
    numpy = pytest.importorskip("numpy")

    class Sine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            result = torch.empty_like(x)
            numpy.sin(numpy.from_dlpack(x.detach()), out=result.numpy())
            return result

        @staticmethod
        def backward(ctx, grad):
            return ctx.saved_tensors[0].cos() * grad

    x = torch.linspace(0, 1, 5, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(Sine.apply(x), x.sin())
    assert gradcheck(Sine.apply, (x,))
