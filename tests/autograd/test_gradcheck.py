"""`gradcheck` and `gradgradcheck`: the errors that they find, and the effect of each option."""

import itertools

import pytest

import rushlight as torch
from rushlight.autograd import Function, gradcheck, gradgradcheck

GradcheckError = torch.autograd.gradcheck.GradcheckError


def point(*shape, dtype=torch.float64):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def function(forward, backward, **more):
    """A function with given derivatives."""
    body = {"forward": forward, "backward": backward, **more}
    return type("Stated", (torch.autograd.Function,), {k: staticmethod(f) for k, f in body.items()}).apply


def with_unused(backward):
    """Two results. For an unused result, backward gets None as gradient."""

    def forward(ctx, a, b):
        ctx.set_materialize_grads(False)
        return a * 2, b * 3

    return function(forward, backward)


TRIPLED = function(lambda ctx, x: x * 2, lambda ctx, g: g * 3)
TRIPLED_FORWARD = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2, jvp=lambda ctx, t: t * 3)
MODES = pytest.mark.parametrize("fast", [False, True])


@MODES
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x.detach().t().requires_grad_(),
        lambda x: x.detach()[:, ::2].requires_grad_(),
        lambda x: x.detach().flip(0)[::-1].requires_grad_(),
        lambda x: x.detach()[:0].requires_grad_(),
        lambda x: x * 2,
    ],
)
def test_right_gradients_of_any_layout(make, dtype, fast):
    x = make(point(2, 4, dtype=dtype))
    both = lambda x, y: (x * y.sin(), y.abs().sum(), x.real)
    assert gradcheck(both, (x, point(1, dtype=dtype)), fast_mode=fast, check_forward_ad=True)
    assert gradgradcheck(torch.sin, (x,), fast_mode=fast, check_fwd_over_rev=True, gen_non_contig_grad_outputs=True)


@MODES
def test_wrong_gradients(fast):
    with pytest.raises(GradcheckError, match=r"^Jacobian mismatch for output 0 with respect to input 0,"):
        gradcheck(TRIPLED, point(3), fast_mode=fast)
    assert not gradcheck(TRIPLED, point(3), fast_mode=fast, raise_exception=False)
    turned = function(lambda ctx, x: x * 1j, lambda ctx, g: g * 1j)
    with pytest.raises(GradcheckError, match="^While considering the imaginary part of complex outputs only, Jacobian"):
        gradcheck(turned, point(3, dtype=torch.complex128), fast_mode=fast)
    once = function(
        lambda ctx, x: ctx.save_for_backward(x) or x**3, lambda ctx, g: g * 3 * (ctx.saved_tensors[0] ** 2).detach()
    )
    assert gradcheck(once, point(3), fast_mode=fast)
    assert not gradgradcheck(once, point(3), fast_mode=fast, raise_exception=False)


def test_one_wrong_entry_is_not_lost_in_fast_mode():
    mask = torch.ones(4, 5, dtype=torch.float64)
    mask[2, 3] = 1.01
    nearly = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2 * mask)
    assert not gradcheck(nearly, point(4, 5), fast_mode=True, raise_exception=False)


@MODES
def test_forward_mode(fast):
    assert gradcheck(TRIPLED_FORWARD, point(3), fast_mode=fast)
    with pytest.raises(GradcheckError, match="^Jacobian computed with forward mode mismatch for output 0"):
        gradcheck(TRIPLED_FORWARD, point(3), fast_mode=fast, check_forward_ad=True, check_backward_ad=False)
    right = function(lambda ctx, x: x * 2, lambda ctx, g: g * 3, jvp=lambda ctx, t: t * 2)
    assert gradcheck(right, point(3), fast_mode=fast, check_forward_ad=True, check_backward_ad=False)


@pytest.mark.parametrize(
    ("check", "options", "sentence"),
    [
        (gradcheck, {"check_backward_ad": False}, "at least one of check_forward_ad or check_backward_ad"),
        (gradcheck, {"check_batched_forward_grad": True}, "requires check_forward_ad to be True"),
        (
            gradcheck,
            {"check_forward_ad": True, "check_backward_ad": False, "check_batched_grad": True},
            "requires check_backward_ad to be True",
        ),
        (gradgradcheck, {"check_rev_over_rev": False}, "at least one of check_fwd_over_rev or check_rev_over_rev"),
        (gradgradcheck, {"check_fwd_over_rev": True, "check_rev_over_rev": False}, "requires check_rev_over_rev"),
    ],
)
def test_options_that_contradict_each_other(check, options, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check(torch.sin, point(3), **options)


def test_gradients_that_change_from_call_to_call():
    count = itertools.count()
    drifting = function(lambda ctx, x: x * 2, lambda ctx, g: g * (2 + 1e-7 * next(count)))
    with pytest.raises(GradcheckError, match=r"^Backward is not reentrant.*The tolerance for nondeterminism was 0.0"):
        gradcheck(drifting, point(3))
    assert gradcheck(drifting, point(3), nondet_tol=1e-4)


def test_gradients_of_zeros_must_be_zero():
    shifted = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2 + 1e-9)
    with pytest.raises(GradcheckError, match="^backward not multiplied by grad_output$"):
        gradcheck(shifted, point(3))
    assert gradcheck(shifted, point(3), masked=True, check_undefined_grad=False)


def test_gradients_of_another_dtype():
    narrow = function(lambda ctx, x: x * 2, lambda ctx, g: (g * 2).float())
    assert gradcheck(narrow, point(3), check_grad_dtypes=True)  # the engine casts the result of backward
    assert gradcheck(lambda x: x.real, point(3, dtype=torch.complex128), check_grad_dtypes=True, check_forward_ad=True)


def test_results_that_nobody_used():
    blind = with_unused(lambda ctx, g, h: (g * 2, h * 3))
    with pytest.raises(TypeError):
        gradcheck(blind, (point(3), point(3)))
    seeing = with_unused(lambda ctx, g, h: (None if g is None else g * 2, None if h is None else h * 3))
    assert gradcheck(seeing, (point(3), point(3)))


def refused(ctx, g):
    if g is None:
        raise RuntimeError("undefined")
    return g * 2


def test_a_lone_result_that_nobody_used():
    def stated(backward):
        return function(lambda ctx, x: ctx.set_materialize_grads(False) or x * 2, backward)

    blind = stated(lambda ctx, g: g * 2)
    with pytest.raises(TypeError):
        gradcheck(blind, point(3))
    assert gradcheck(blind, point(3), check_undefined_grad=False)
    inventing = stated(lambda ctx, g: torch.ones(3, dtype=torch.float64) if g is None else g * 2)
    for wrong in (inventing, stated(refused)):
        with (
            pytest.warns(
                UserWarning, match="^Backwards compatibility: New undefined gradient support checking feature"
            ),
            pytest.raises(GradcheckError, match="^Expected (all input grads|backward function to handle undefined)"),
        ):
            gradcheck(wrong, point(3))


def test_several_gradients_at_once():
    options = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert gradcheck(torch.mul, (point(3), point(2, 1)), **options)
    count = itertools.count()
    counting = function(lambda ctx, x: x * 2, lambda ctx, g: g * (2 + 1e-3 * next(count)))
    with pytest.raises(GradcheckError, match="^For output 0 and input 0:"):
        gradcheck(counting, point(3), atol=1, nondet_tol=1, check_batched_grad=True)


def test_results_without_gradient():
    with pytest.raises(GradcheckError, match="^Numerical gradient for function expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, point(3))
    assert gradcheck(lambda x: (x * 2, x.detach() * 2, x.argmax()), point(3))
    assert gradcheck(lambda x: x.argmax(), point(3))


def test_functions_may_differentiate():
    def penalty(x):
        (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return grad.square().sum()

    assert gradcheck(penalty, point(3))


def test_inputs_that_cannot_be_checked():
    with pytest.raises(ValueError, match="expects at least one input tensor to require gradient"):
        gradcheck(torch.sin, torch.ones(3, dtype=torch.float64), raise_exception=False)
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        gradcheck(torch.sin, point(1).detach().expand(3).requires_grad_(), raise_exception=False)
    with pytest.raises(AssertionError, match="same shape"):
        gradcheck(lambda x: x[x > 0], torch.zeros(3, dtype=torch.float64, requires_grad=True) + 1e-7)


def test_the_checker_finds_a_wrong_gradient():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return x * grad

    x = point(2)
    with pytest.raises(RuntimeError, match=r"Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, (x,))
    assert not gradcheck(Wrong.apply, (x,), raise_exception=False)
    assert gradcheck.gradcheck(torch.exp, (x,))


class WrongTwice(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 3

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 4


@pytest.mark.parametrize("fast", [True, False])
def test_backward_is_compared_before_forward_mode(fast):
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(GradcheckError, match=r"^Jacobian mismatch"):
        gradcheck(WrongTwice.apply, x, check_forward_ad=True, fast_mode=fast)
