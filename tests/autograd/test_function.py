"""Functions written in Python (`torch.autograd.Function`)."""

import re
import subprocess
import sys
import warnings

import pytest

import rushlight as torch
from rushlight.autograd import Function, gradcheck, gradgradcheck


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


class MulConstant(Function):
    @staticmethod
    def forward(ctx, tensor, constant):
        ctx.constant = constant
        return tensor * constant

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.constant, None


class Linear(Function):
    @staticmethod
    def forward(x, weight, bias=None):
        output = x.mm(weight.t())
        return output if bias is None else output + bias.unsqueeze(0).expand_as(output)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias = inputs
        ctx.save_for_backward(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight, bias = ctx.saved_tensors
        need = ctx.needs_input_grad
        return (
            grad.mm(weight) if need[0] else None,
            grad.t().mm(x) if need[1] else None,
            grad.sum(0) if bias is not None and need[2] else None,
        )


def double(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_values_gradients_and_gradients_of_gradients():
    x = double(3)
    assert gradcheck(Cube.apply, (x,))
    assert gradgradcheck(Cube.apply, (x,))
    assert Cube.apply(x).grad_fn.name() == "CubeBackward"


def test_arguments_that_are_no_tensors():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = MulConstant.apply(x, 5.5)
    y.sum().backward()
    assert x.grad.tolist() == [5.5, 5.5]
    assert y.grad_fn.constant == 5.5


def test_linear():
    x, weight, bias = double(4, 3), double(2, 3), double(2)
    assert gradcheck(Linear.apply, (x, weight, bias))
    assert gradcheck(Linear.apply, (x, weight))
    Linear.apply(x, weight).sum().backward()
    assert torch.allclose(x.grad, weight.detach().sum(0).expand(4, 3))
    assert torch.allclose(weight.grad, x.detach().sum(0).expand(2, 3))


def test_wrong_numbers_of_gradients():
    class Short(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"function ShortBackward returned an incorrect number of gradients \(expected 2, got 1\)"
    ):
        Short.apply(x, x).sum().backward()


def test_results_without_gradient_and_changed_inputs():
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            positive = x > 0
            ctx.mark_non_differentiable(positive)
            ctx.set_materialize_grads(False)
            return x * 2, positive

        @staticmethod
        def backward(ctx, grad, of_mask):
            assert of_mask is None
            return grad * 2

    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.tensor([1.0, -1.0], requires_grad=True)
    y, mask = Split.apply(x)
    assert not mask.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
    z = x * 1
    assert Double.apply(z) is z
    x.grad = None
    z.sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(
        RuntimeError, match=r"a leaf Variable that requires grad has been used in an in-place operation"
    ):
        Double.apply(x)


def test_saved_tensors_are_watched():
    x = torch.ones(2, requires_grad=True)
    kept = x * 1
    y = Cube.apply(kept)
    kept.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation"):
        y.sum().backward()


def test_an_exception_in_backward_arrives_unchanged():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("mine")

    with pytest.raises(KeyError, match=r"mine"):
        Broken.apply(torch.ones(1, requires_grad=True)).backward()


@pytest.mark.parametrize("inputs", [torch.float32, torch.complex64])
def test_a_gradient_is_of_its_inputs_kind(inputs):
    class Foreign(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad.to(torch.complex64) if inputs == torch.float32 else grad.real.to(torch.int32)

    x = torch.ones(3, dtype=inputs, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^Expected isFloatingType\(grad.scalar_type\(\)\) \|\| "):
        Foreign.apply(x).abs().sum().backward()


def test_old_functions_are_refused_with_a_way_out():
    with pytest.warns(DeprecationWarning, match=r"Methods on autograd functions are all static"):
        made = Cube()
    with pytest.raises(RuntimeError, match=r"Please use new-style autograd function with static forward method"):
        made(torch.ones(1))


def test_a_view_that_a_function_returns_may_not_be_changed():
    class Row(Function):
        @staticmethod
        def forward(ctx, x, count):
            rows = tuple(x[k] for k in range(count))
            return rows[0] if count == 1 else rows

        @staticmethod
        def backward(ctx, *grads):
            return torch.ones(3, 2), None

    x = torch.ones(3, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="(?s)is a view and is being modified inplace.*inside a custom Function"):
        Row.apply(x, 1).mul_(2)
    with pytest.raises(RuntimeError, match="output of a function that returns multiple views"):
        Row.apply(x, 2)[1].mul_(2)
    kept = Row.apply(x, 1)
    with torch.no_grad():
        kept.mul_(2)
    assert x[0].tolist() == [2, 2]


@pytest.mark.parametrize(
    ("error", "sentence", "function"),
    [
        (RuntimeError, "expected Variable or None (got str)", lambda ctx, x: x * 2),
        (TypeError, "save_for_backward can only save variables, but argument 1 is of type str",
         lambda ctx, x: ctx.save_for_backward(x, "x")),
        (RuntimeError, "a leaf Variable that requires grad has been used in an in-place operation.",
         lambda ctx, x: (ctx.mark_dirty(x), x)[1]),
    ],
)  # fmt: skip
def test_slips_are_told_as_torch_does(error, sentence, function):
    class Slip(Function):
        forward = staticmethod(function)
        backward = staticmethod(lambda ctx, grad: "a gradient")

    with pytest.raises(error, match=f"^{re.escape(sentence)}"):
        Slip.apply(torch.ones(2, requires_grad=True)).sum().backward()


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, by=1.0, and_by=2.0):
        ctx.factor = by * and_by
        return x * ctx.factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None, None


class ScaledApart(Function):
    @staticmethod
    def forward(x, by=1.0, and_by=2.0):
        return x * by * and_by

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1] * inputs[2]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None, None


def test_keywords_go_where_their_names_stand():
    x = torch.ones(1, requires_grad=True)
    assert Scaled.apply(x, 5.0, and_by=3.0).item() == 15
    assert Scaled.apply(x, and_by=3.0, by=7.0).item() == 21
    assert ScaledApart.apply(x, by=3.0).item() == 6
    ScaledApart.apply(x, by=3.0).backward()
    assert x.grad.item() == 6
    with pytest.raises(TypeError, match=r"missing required argument: 'by' \(position 1\)"):
        Scaled.apply(x, and_by=3.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'times'"):
        Scaled.apply(x, times=3.0)
    with pytest.raises(TypeError, match="multiple values for argument 'by'"):
        Scaled.apply(x, 1.0, by=3.0)


def test_what_was_changed_has_to_come_back():
    class Kept(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(10).sum()

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(RuntimeError, match="Some elements marked as dirty during the forward method were not returned"):
        Kept.apply(torch.ones(2, requires_grad=True).clone())


def test_a_call_does_not_import():
    """A function with `jvp` checks for tangents without importing the module that computes them."""
    program = """
import sys
import rushlight as torch
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 2
    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 2
Twice.apply(torch.ones(1, requires_grad=True)).backward()
assert "rushlight.autograd.forward_ad" not in sys.modules
with torch.autograd.forward_ad.dual_level():
    dual = torch.autograd.forward_ad.make_dual(torch.ones(1), torch.ones(1))
    assert torch.autograd.forward_ad.unpack_dual(Twice.apply(dual)).tangent.item() == 2
"""
    subprocess.run([sys.executable, "-c", program], check=True)


class Power(torch.autograd.Function):
    """The third power of its second input, in place."""

    @staticmethod
    def forward(ctx, exponent, x):
        ctx.mark_dirty(x)
        ctx.exponent = exponent
        ctx.save_for_backward(x.clone())
        return x.pow_(exponent)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return None, grad * ctx.exponent * x ** (ctx.exponent - 1)


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.exp_()
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class TestChangedViews:
    """A Function that changes a view also changes its base, whose history then goes through the Function."""

    def both(self, change):
        """First and second derivatives of a weighted sum of the base's elements. All but the first were changed."""
        x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
        base = x * 1
        view = base[1:]
        assert change(view) is view and view._version == 2
        assert type(base.grad_fn).__name__ == "CopySlices"
        weighted = (base * torch.tensor([1.0, 10.0, 100.0])).sum()
        (first,) = torch.autograd.grad(weighted, x, create_graph=True)
        second = torch.autograd.grad(first.sum(), x)[0] if first.requires_grad else None
        return first.tolist(), second

    def test_the_gradient_passes_through(self):
        assert self.both(lambda view: Power.apply(3, view))[0] == [1, 120, 2700]

    def test_a_saved_result_is_the_view_again(self):
        first, second = self.both(Exponential.apply)
        e = torch.tensor([0.0, 2.0, 3.0], dtype=torch.float64).exp() * torch.tensor([0.0, 10.0, 100.0])
        torch.testing.assert_close(torch.tensor(first, dtype=torch.float64), e + torch.tensor([1.0, 0.0, 0.0]))
        torch.testing.assert_close(second, e)

    def test_a_base_that_required_nothing(self):
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, view, by):
                ctx.mark_dirty(view)
                return view.mul_(by)

            @staticmethod
            def backward(ctx, grad):
                return grad, grad

        base, by = torch.ones(3), torch.ones(2, requires_grad=True)
        Scale.apply(base[1:], by)
        base.sum().backward()
        assert by.grad.tolist() == [1, 1]

    def test_refusals(self):
        leaf = torch.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used"):
            Exponential.apply(leaf[1:])
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            Exponential.apply((leaf * 1).unbind()[0])

        class Two(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2), x + 1

            @staticmethod
            def backward(ctx, first, second):
                return first * 2 + second * 2

        with pytest.raises(RuntimeError, match="your Function cannot return more than one Tensor"):
            Two.apply((leaf * 1)[1:])


def test_backward_runs_without_gradients():
    seen = []

    class Seen(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append(grad.tolist())
            return grad + 1

    class Lost(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return None

    x = torch.ones(2, requires_grad=True)
    twice, thrice = Seen.apply(x), x * 3
    hooked = []
    twice.grad_fn.register_hook(lambda inputs, outputs: hooked.append((inputs[0].tolist(), outputs)))
    thrice.grad_fn.register_hook(lambda inputs, outputs: hooked.append((inputs[0], outputs)))
    (Lost.apply(twice) + Lost.apply(thrice)).sum().backward()
    assert seen == [[0, 0]] and x.grad.tolist() == [1, 1]
    assert hooked == [(None, (None,)), ([1, 1], (None,))]


def test_what_is_left_of_older_names():
    """As in torch: no tensor is volatile or has a name, and the error of `reinforce` shows the replacement."""

    class Meta(torch.autograd.function.FunctionMeta):
        pass

    class Double(torch.autograd.Function, metaclass=Meta):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2] and x.name is None
    with pytest.warns(UserWarning, match="volatile was removed"):
        assert x.volatile is False
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        x.volatile = True
    with pytest.warns(DeprecationWarning, match="creator is now called grad_fn"):
        assert (x * 2).creator.name() == "MulBackward0"

    def moved(**options):
        try:
            return x.cuda(**options).device.type
        except RuntimeError as error:
            return str(error)

    with pytest.warns(DeprecationWarning, match="'async' is deprecated; use 'non_blocking'") as caught:
        assert moved(**{"async": True}) == moved(non_blocking=True)
    assert caught[0].filename == __file__
    with pytest.raises(TypeError, match="unexpected keyword argument 'asynch'"):
        x.cuda(asynch=True)
    with pytest.raises(AttributeError):
        x.name = "weight"
    with pytest.raises(RuntimeError, match=r"reinforce\(\) was removed"):
        x.reinforce(1.0)


def test_an_unpack_hook_may_use_the_context():
    """The program below deadlocks if the context is locked while the hook runs."""
    program = """
import rushlight as torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        Square.context = ctx
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x

depth = 0

def unpack(packed):
    global depth
    depth += 1
    return Square.context.saved_tensors[0] if depth == 1 else packed

with torch.autograd.graph.saved_tensors_hooks(lambda x: x.detach(), unpack):
    x = torch.tensor(3.0, requires_grad=True)
    y = Square.apply(x)
y.backward()
assert depth == 2 and x.grad == 6
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_old_name_of_saved_tensors():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_variables
            return 2 * x * grad

    x = torch.tensor(3.0, requires_grad=True)
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated; use 'saved_tensors'"):
        Square.apply(x).backward()
    assert x.grad.item() == 6


def test_backward_and_vjp_exclude_each_other():
    class Only(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, grad):
            return grad * 2

    class Inherits(Only):
        @staticmethod
        def vjp(ctx, grad):
            return grad * 3

    class Both(Only):
        @staticmethod
        def backward(ctx, grad):
            return grad * 4

    for function, expected in ((Only, 2), (Inherits, 3)):
        x = torch.ones(1, requires_grad=True)
        function.apply(x).backward()
        assert x.grad.item() == expected
    result = Both.apply(x)
    with pytest.raises(
        RuntimeError, match="Implementing both 'backward' and 'vjp' for a custom Function is not allowed"
    ):
        result.backward()


def test_what_is_marked_dirty_must_be_an_input():
    class Marks(Function):
        @staticmethod
        def forward(ctx, x, right):
            result = x.add_(1) if right else x + 1
            ctx.mark_dirty(result)
            return result

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    x = torch.ones(1, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Marks.apply(x * 1, True)
    with pytest.warns(UserWarning, match=r"ctx.mark_dirty\(\) received a tensor that was not an input"):
        Marks.apply(x * 1, False)


def test_results_that_are_no_tensors_have_no_gradient():
    found = []

    class Mixed(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, 5, None, "a", x * 3

        @staticmethod
        def backward(ctx, *grads):
            found.extend(grads)
            return grads[0]

    first, *others = Mixed.apply(torch.ones(2, requires_grad=True))
    first.sum().backward()
    assert others[:3] == [5, None, "a"] and found[1:4] == [None] * 3 and found[4].tolist() == [0, 0]


@pytest.mark.parametrize("requires_grad", [True, False])
def test_an_argument_that_is_returned_keeps_its_class(requires_grad):
    class Own(torch.Tensor):
        pass

    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = torch.ones(2).as_subclass(Own).requires_grad_(requires_grad)
    assert type(Same.apply(x)) is Own and Same.apply(x) is not x
    assert type(Same.apply(torch.nn.Parameter(torch.ones(2), requires_grad))) is torch.Tensor


@pytest.mark.parametrize(
    ("method", "error", "sentence"),
    [
        ("mark_dirty", RuntimeError, "mark_dirty can only accept variables, but argument "),
        ("mark_non_differentiable", RuntimeError, "mark_non_differentiable only accepts variable arguments, but got "),
        ("save_for_backward", TypeError, "save_for_backward can only save variables, but argument 1 is of type int"),
        ("save_for_forward", AssertionError, "save_for_forward expects all arguments to be tensors; you should save"),
    ],
)
def test_notes_about_what_is_no_tensor(method, error, sentence):
    class Noting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            getattr(ctx, method)(x, 5)
            return x * 2

    with pytest.raises(error) as raised:
        Noting.apply(torch.ones(2, requires_grad=True))
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize("value", [(), 5, None, (True,)])
def test_assigned_needs_are_given_back(value):
    seen = []

    class Assigning(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(ctx.needs_input_grad)
            ctx.needs_input_grad = value
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.needs_input_grad)
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    Assigning.apply(x).sum().backward()
    assert seen == [(True,), value] and x.grad.tolist() == [2, 2]


def test_an_argument_that_is_returned_is_viewed_by_its_class():
    """As in torch, the class sees a call of `view_as`, and what it returns is the result."""
    seen = []

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append((function.__name__, torch.is_grad_enabled()))
            return super().__torch_function__(function, types, args, kwargs or {})

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x, y * 1

        @staticmethod
        def backward(ctx, first, second):
            return first * 2, second * 3

    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    own = x.as_subclass(Own)
    seen.clear()
    first, second = Same.apply(own, y)
    assert seen == [("view_as", False)]
    assert (
        type(first) is Own
        and first.grad_fn.name() == "SameBackward"
        and first._is_view()
        and type(second) is torch.Tensor
    )
    (first.as_subclass(torch.Tensor) + second).sum().backward()
    assert x.grad.tolist() == [2, 2] and y.grad.tolist() == [3, 3]

    class Failing(Own):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function.__name__ == "view_as":
                raise KeyError("no view")
            return super().__torch_function__(function, types, args, kwargs or {})

    with pytest.raises(KeyError, match="no view"):
        Same.apply(x.as_subclass(Failing), y)
