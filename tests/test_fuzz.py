"""Fuzzing finds errors in functions, derivatives and modules, shows a simple case, and accepts correct ones."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.testing import FuzzError, fuzz, operand
from rushlight.testing._drawing import Choices, minimise

ONE = (operand(),)
TWO = (operand(), operand())
MATRIX = (operand("n", "m"),)
ROWS = (operand("n", 3),)


def function(forward, backward):
    """A Function with the given forward and backward, each with `ctx` first."""
    return type(
        "Made", (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    )


def saving(forward, backward):
    """A Function that saves its arguments. `backward` gets them after the gradient."""

    def run(ctx, *args):
        ctx.save_for_backward(*args)
        return forward(*args)

    return function(run, lambda ctx, grad: backward(grad, *ctx.saved_tensors))


def with_result(forward, backward):
    """A Function that saves its result. `backward` gets it after the gradient."""

    def run(ctx, x):
        result = forward(x)
        ctx.save_for_backward(result)
        return result

    return function(run, lambda ctx, grad: backward(grad, *ctx.saved_tensors))


def noting(name, forward, backward):
    """A Function that stores its argument or result as an attribute, without the check of versions."""

    def run(ctx, x):
        ctx.kept = x
        result = forward(x)
        if name == "result":
            ctx.kept = result
        return result

    return function(run, lambda ctx, grad: backward(grad, ctx.kept))


def summed(grad, x):
    """Sums the gradient of a broadcast result to the shape of an operand."""
    return grad.sum_to_size(x.shape)


def changed(x, act):
    act(x)
    return x


def divided(grad, a, b):
    return summed(grad / b, a), summed(-grad * a / b**2, b)


def counting(forward, backward):
    """A Function whose backward gets the number of its calls."""
    calls = []

    def run(ctx, grad):
        calls.append(0)
        return backward(grad, len(calls), *ctx.saved_tensors)

    def save(ctx, x):
        ctx.save_for_backward(x)
        return forward(x)

    return function(save, run)


def pair(backward, materialize=True):
    """Two results, sine and cosine."""

    def run(ctx, x):
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(materialize)
        return x.sin(), x.cos()

    return function(run, lambda ctx, a, b: backward(a, b, *ctx.saved_tensors))


def choosy(backward):
    """A product whose backward gets `needs_input_grad`."""

    def run(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    return function(run, lambda ctx, grad: backward(grad, ctx.needs_input_grad, *ctx.saved_tensors))


def in_place(forward, backward, marks):
    def run(ctx, x):
        if marks:
            ctx.mark_dirty(x)
        return forward(x)

    return function(run, lambda ctx, grad: backward(grad))


RIGHT = {
    "cube": (saving(lambda x: x**3, lambda g, x: g * 3 * x**2), ONE),
    "exp of its result": (with_result(torch.exp, lambda g, y: g * y), ONE),
    "product": (saving(torch.mul, lambda g, a, b: (summed(g * b, a), summed(g * a, b))), TWO),
    "quotient": (saving(torch.div, divided), (operand(), operand(low=1))),
    "matrix product": (saving(torch.matmul, lambda g, a, b: (g @ b.T, a.T @ g)), (operand("n", "k"), operand("k", "m"))),
    "row sums": (saving(lambda x: x.sum(1), lambda g, x: g[:, None].expand_as(x)), MATRIX),
    "pair": (pair(lambda a, b, x: a * x.cos() - b * x.sin()), ONE),
    "choosy": (choosy(lambda g, needs, a, b: (summed(g * b, a) if needs[0] else None, summed(g * a, b) if needs[1] else None)), TWO),
    "complex square": (saving(lambda x: x * x, lambda g, x: g * 2 * x.conj()), (operand(dtype=torch.complex128),)),
}  # fmt: skip

BROKEN = {
    "wrong factor": (saving(lambda x: x**3, lambda g, x: g * 2 * x**2), ONE),
    "wrong sign": (saving(torch.cos, lambda g, x: g * x.sin()), ONE),
    "wrong power": (saving(lambda x: x**3, lambda g, x: g * 3 * x), ONE),
    "missing factor of the chain": (saving(lambda x: (2 * x).sin(), lambda g, x: g * (2 * x).cos()), ONE),
    "gradient forgotten": (saving(torch.sin, lambda g, x: x.cos()), ONE),
    "derivative forgotten": (saving(torch.sin, lambda g, x: g), ONE),
    "slightly off": (saving(torch.sin, lambda g, x: g * x.cos() * 1.001), ONE),
    "constant added": (saving(torch.sin, lambda g, x: g * x.cos() + 1e-3), ONE),
    "argument for result": (with_result(lambda x: x.exp() + 1, lambda g, y: g * y), ONE),
    "wrong for negative numbers": (saving(torch.abs, lambda g, x: g), ONE),
    "wrong for large numbers": (saving(torch.sin, lambda g, x: g * torch.where(x > 2, x.sin(), x.cos())), ONE),
    "wrong side of a kink": (saving(torch.relu, lambda g, x: g * (x < 0)), ONE),
    "wrong within bounds": (saving(lambda x: x.clamp(-1, 1), lambda g, x: g * (x < 1)), ONE),
    "none": (saving(torch.sin, lambda g, x: None), ONE),
    "zeros": (saving(torch.sin, lambda g, x: torch.zeros_like(x)), ONE),
    "one of two forgotten": (saving(torch.mul, lambda g, a, b: (summed(g * b, a), None)), TWO),
    "swapped": (saving(torch.mul, lambda g, a, b: (summed(g, a) * a, summed(g, b) * b)), TWO),
    "broadcast not summed": (saving(torch.mul, lambda g, a, b: ((g * b).expand_as(a), summed(g * a, b))), TWO),
    "broadcast averaged": (saving(torch.add, lambda g, a, b: (summed(g, a) * a.numel() / max(g.numel(), 1), summed(g, b))), TWO),
    "sign of the second": (saving(torch.sub, lambda g, a, b: (summed(g, a), summed(g, b))), TWO),
    "denominator not squared": (saving(torch.div, lambda g, a, b: (summed(g / b, a), summed(-g * a / b, b))), (operand(), operand(low=1))),
    "matrix not transposed": (saving(torch.matmul, lambda g, a, b: (g @ b.T, a @ g)), (operand(3, 3), operand(3, 3))),
    "transposed by memory": (saving(lambda x: x.T.sum(0), lambda g, x: g.repeat(x.shape[1]).reshape(x.shape)), MATRIX),
    "sum over the wrong dimension": (saving(lambda x: x.sum(1), lambda g, x: g[None, :].expand_as(x)), (operand(3, 3),)),
    "mean without its count": (saving(torch.mean, lambda g, x: g.expand_as(x)), ROWS),
    "softmax without its row": (with_result(lambda x: x.softmax(-1), lambda g, y: g * y), ROWS),
    "softmax over all rows": (with_result(lambda x: x.softmax(-1), lambda g, y: y * (g - (g * y).sum())), ROWS),
    "largest everywhere": (saving(lambda x: x.amax(1), lambda g, x: g[:, None].expand_as(x)), ROWS),
    "order of a sort": (saving(lambda x: x.sort()[0], lambda g, x: g.gather(-1, x.argsort())), (operand(3),)),
    "cumulated from the wrong end": (saving(lambda x: x.cumsum(0), lambda g, x: g.cumsum(0)), (operand(3),)),
    "shifted": (saving(lambda x: x.roll(1), lambda g, x: g.roll(1)), (operand(3),)),
    "first result only": (pair(lambda a, b, x: a * x.cos()), ONE),
    "results swapped": (pair(lambda a, b, x: b * x.cos() - a * x.sin()), ONE),
    "missing gradients": (pair(lambda a, b, x: a * x.cos() - b * x.sin(), materialize=False), ONE),
    "needs_input_grad mixed up": (choosy(lambda g, needs, a, b: (summed(g * b, a) if needs[1] else None, summed(g * a, b) if needs[0] else None)), TWO),
    "first needed, second given": (choosy(lambda g, needs, a, b: (summed(g * b, a), summed(g * a, b) if needs[0] else None)), TWO),
    "argument kept past versions": (noting("argument", torch.sin, lambda g, x: g * x.cos()), ONE),
    "result kept past versions": (noting("result", torch.exp, lambda g, y: g * y), ONE),
    "argument changed": (saving(lambda x: changed(x, lambda t: t.mul_(2)).sin(), lambda g, x: g * x.cos() * 2), ONE),
    "gradient changed": (saving(torch.neg, lambda g, x: g.neg_()), ONE),
    "saved changed by backward": (saving(torch.sin, lambda g, x: g * changed(x, lambda t: t.cos_())), ONE),
    "not dirty": (in_place(lambda x: x.mul_(2), lambda g: g * 2, False), ONE, {"writes": 1}),
    "wrong in place": (in_place(lambda x: x.mul_(2), lambda g: g, True), ONE, {"writes": 1}),
    "gradient of contiguous memory": (saving(lambda x: x * 2, lambda g, x: torch.as_strided(g, g.shape, torch.empty(g.shape).stride()) * 2), (operand(2, 3),)),
    "view of the gradient": (saving(lambda x: x.sin(), lambda g, x: (g.view(-1) * x.reshape(-1).cos()).view(x.shape)), (operand("n", 3),)),
    "argument read as contiguous": (saving(lambda x: x.as_strided(x.shape, torch.empty(x.shape).stride()).sin(), lambda g, x: g * x.cos()), (operand(2, 3),)),
    "argument viewed": (saving(lambda x: x.view(-1).sum(), lambda g, x: g.expand_as(x)), (operand(2, 3),)),
    "fails without elements": (saving(lambda x: x.sum(), lambda g, x: g.expand_as(x) + 0 * x.reshape(-1)[0]), ONE),
    "fails without dimensions": (saving(lambda x: x.sin(), lambda g, x: g * x.cos() + 0 * x[..., :1]), ONE),
    "second of two calls": (counting(torch.sin, lambda g, n, x: g * x.cos() * n), ONE),
    "double precision only": (saving(torch.sin, lambda g, x: g * x.cos() if x.dtype is torch.float64 else g), ONE),
    "conjugate forgotten": (saving(lambda x: x * x, lambda g, x: g * 2 * x), (operand(dtype=torch.complex128),)),
    "not recorded": (lambda x: x.detach() * x, ONE),
    "by way of lists": (lambda x: torch.tensor(x.tolist(), dtype=x.dtype).sin(), ONE),
    "second derivative": (saving(lambda x: x**3, lambda g, x: g * 3 * x.detach() ** 2), ONE, {"second_order": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right_derivatives_pass(name):
    made, arguments = RIGHT[name]
    found = fuzz(made, *arguments, tries=40, second_order=True)
    assert found.passed + found.refused == 40 and found.passed >= 20


def test_functions_that_write_pass():
    fuzz(in_place(lambda x: x.mul_(2), lambda g: g * 2, True), operand(), writes=1)


def test_broken_derivatives_are_found():
    missed = []
    for name, (made, arguments, *options) in BROKEN.items():
        try:
            fuzz(made, *arguments, **(options[0] if options else {}))
        except FuzzError:
            continue
        missed.append(name)
    assert len(BROKEN) >= 50 and not missed


@pytest.mark.parametrize("name", BROKEN)
def test_programs_show_what_is_wrong(name):
    made, arguments, *options = BROKEN[name]
    with pytest.raises(FuzzError) as caught:
        fuzz(made, *arguments, **(options[0] if options else {}))
    with pytest.raises((AssertionError, RuntimeError, TypeError, IndexError)):
        exec(caught.value.code, {"Made": made, "function": made})


def failure(*arguments, **options):
    with pytest.raises(FuzzError) as caught:
        fuzz(*arguments, **options)
    return caught.value


def test_failures_are_simplified():
    made, arguments = BROKEN["wrong for negative numbers"]
    found = failure(made, *arguments, seed=12)
    assert found.kind == "the gradient is not the derivative"
    # One negative number in contiguous memory is sufficient.
    (line,) = [line for line in found.code.splitlines() if line.startswith("x0 = ")]
    assert line.startswith("x0 = torch.tensor(-") and line.endswith(", dtype=torch.float64, requires_grad=True)")
    assert "    return Made.apply(x0)" in found.code.splitlines()
    assert found.code in str(found)


def test_failures_can_be_replayed():
    made, arguments = BROKEN["wrong for large numbers"]
    found = failure(made, *arguments, seed=None)
    again = failure(made, *arguments, seed=found.seed, tries=1)
    assert f"again with fuzz(Made.apply, ..., seed={found.seed}, tries=1)" in str(found)
    assert (str(again), again.code) == (str(found), found.code)


def test_minimising_lowers_and_leaves_out():
    def fails(given):
        choose = Choices(given)
        drawn = [choose(100) for _ in range(choose(10))]
        return choose.made if any(number >= 42 for number in drawn) else None

    found, steps = minimise([7, 3, 99, 14, 70, 2, 1, 0], fails, 400)
    assert found == [1, 42] and steps < 400
    assert minimise([7, 3, 99, 14, 70, 2, 1, 0], fails, 0) == ([7, 3, 99, 14, 70, 2, 1, 0], 0)


def test_choices_come_again():
    drawn = Choices(5)
    first = [drawn(n) for n in (10, 1, 1000)]
    again = Choices(drawn.made)
    assert [again(n) for n in (10, 1, 1000, 10)] == [*first, 0]


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (nn.Linear(4, 3), (operand(..., 4),)),
        (nn.Sequential(nn.Linear(4, 20), nn.Dropout(), nn.ReLU(inplace=True), nn.Linear(20, 30)), (operand("n", 4),)),
        (nn.BatchNorm1d(3), (operand("n", 3),)),
        (nn.GRUCell(2, 3), (operand("n", 2), operand("n", 3))),
        (nn.Bilinear(2, 3, 2), (operand("n", 2), operand("n", 3))),
        (nn.Embedding(5, 3), (operand(..., dtype=torch.int64, low=0, high=5),)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_modules(module, arguments):
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert fuzz(module, *arguments, tries=10).passed >= 5
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(4, 3),
        nn.LayerNorm((2, 3)),
        nn.BatchNorm1d(3),
        nn.Bilinear(3, 4, 2),
        nn.Embedding(5, 3),
        nn.MultiheadAttention(4, 2),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh()),
        nn.CrossEntropyLoss(),
    ],
    ids=lambda module: type(module).__name__,
)
def test_modules_are_asked_what_fits(module):
    found = fuzz(module, tries=12)
    assert found.passed > found.refused


def test_functions_are_asked_what_fits():
    for function in (torch.mm, torch.mv, torch.dot, torch.bmm, torch.linalg.det):
        assert fuzz(function, tries=12).passed >= 5


def test_what_fits_is_found_again_by_its_seed():
    found = failure(Gate())
    again = failure(Gate(), seed=found.seed, tries=1)
    assert found.kind == again.kind == "the gradient is not the derivative" and found.code == again.code


def test_what_a_function_raises_is_not_taken_for_a_shape_that_does_not_fit():
    def picky(x):
        return x / (1 if x.dim() == 0 else 0 // x.dim() or 1 // 0)

    assert failure(picky).kind == "the call raises ZeroDivisionError"


def test_the_apply_of_a_function():
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    assert failure(Half.apply).code == failure(Half).code


class Gate(nn.Module):
    """A custom module whose function omits the gradient of its parameter."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return BROKEN["one of two forgotten"][0].apply(x, self.scale)


def test_broken_modules_are_found():
    found = failure(Gate(), operand(..., 3))
    assert found.kind == "the gradient is not the derivative" and "with respect to input 1" in str(found)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        exec(found.code, {"module": Gate()})


def test_references():
    assert fuzz(torch.square, reference=lambda x: x * x, tries=10).passed == 10
    found = failure(torch.square, reference=lambda x: x * x * x)
    assert found.kind == "the values are not those of the reference"
    with pytest.raises(AssertionError):
        exec(found.code, {"square": torch.square, "reference": lambda x: x * x * x})


def test_functions_without_gradients():
    assert fuzz(torch.bitwise_and, *[operand(dtype=torch.int32)] * 2, tries=10).passed == 10
    assert fuzz(torch.argmax, operand("n", 2, requires_grad=False), tries=20).passed >= 10
    found = failure(lambda x: x.as_strided(x.shape, torch.empty(x.shape).stride()), operand(2, 3, dtype=torch.int64))
    assert (
        found.kind.startswith("the call in this layout raises")
        or found.kind == "the values depend on the layout in memory"
    )


def test_functions_that_write():
    assert fuzz(torch.Tensor.mul_, tries=20).passed >= 10
    assert fuzz(nn.ReLU(inplace=True), operand(), writes=1, tries=20).passed == 20
    assert failure(nn.ReLU(inplace=True), operand()).kind == "an argument was changed"


def test_refused_cases():
    assert fuzz(torch.sqrt, tries=20).refused > 0  # for negative numbers
    assert fuzz(torch.sqrt, operand(low=0), tries=20).refused == 0
    with pytest.raises(ValueError, match=r"cholesky rejected all of 5 cases \(the last one: RuntimeError: "):
        fuzz(torch.linalg.cholesky, operand(2, 3), tries=5)
    found = failure(torch.cat, [1], operand(), refusals=())
    assert found.kind == "the call raises TypeError" and isinstance(found.__cause__, TypeError)


def test_misuse():
    with pytest.raises(
        ValueError,
        match=r"a shape consists of numbers, names and at most one '\.\.\.' at the beginning, but got \(2, Ellipsis\)",
    ):
        operand(2, ...)
    with pytest.raises(ValueError, match="`low` must be less than `high`, but got 1 >= 0"):
        operand(low=1, high=0)
    with pytest.raises(ValueError, match="function has no argument to generate; give operands"):
        fuzz(lambda: None)


def test_the_generator_stays_where_it_was():
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    fuzz(torch.sin, tries=3)
    assert torch.equal(torch.rand(2), wanted)


def test_hypothesis_can_draw_the_same():
    pytest.importorskip("hypothesis")
    from hypothesis import given, settings

    from rushlight.testing import strategies

    seen = set()

    @settings(max_examples=60, database=None, derandomize=True)
    @given(strategies.tensors(operand(..., "n", "k"), operand("k", 2, requires_grad=False), dtype=torch.float32))
    def check(tensors):
        a, b = tensors
        assert (a @ b).shape[-2:] == (a.shape[-2], 2)
        assert a.dtype == b.dtype == torch.float32 and a.requires_grad and not b.requires_grad
        seen.add(a.is_contiguous())

    check()
    assert seen == {True, False}
