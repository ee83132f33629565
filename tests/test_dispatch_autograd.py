"""Handlers of operators run below autograd: what they return is what is recorded, and they see what backward runs."""

import pytest

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
seen = []


def noted(func):
    seen.append(str(func).removeprefix("aten."))


class Twin(torch.Tensor):
    """Holds a tensor and handles every operator with those inside. Results are twins too."""

    @staticmethod
    def __new__(cls, inside, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inside.size(),
            strides=inside.stride(),
            dtype=inside.dtype,
            device=inside.device,
            requires_grad=requires_grad or inside.requires_grad,
        )
        made.inside = inside.detach()
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        noted(func)
        args, kwargs = pytree.tree_map_only(Twin, lambda one: one.inside, (args, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, Twin, func(*args, **kwargs))


class Copying(TorchDispatchMode):
    """Returns new tensors, which have no history of their own."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        noted(func)
        result = func(*args, **(kwargs or {}))
        if func.__name__.partition(".")[0].endswith("_"):
            return result
        return pytree.tree_map_only(torch.Tensor, lambda one: one.detach().clone(), result)


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def draw(*sizes, seed=0):
    return torch.rand(*sizes, generator=torch.Generator().manual_seed(seed)) + 0.5


def heads(x):
    return F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None])


WEIGHT = draw(4, 3, seed=1)
PROGRAMS = {
    "arithmetic": lambda x: x * x + 1 / x,
    "products": lambda x: (x @ WEIGHT).relu() @ WEIGHT.t(),
    "linear": lambda x: F.linear(x, WEIGHT.t(), draw(3)),
    "linear in three dimensions": lambda x: F.linear(x[None], WEIGHT.t()),
    "linear and bias in three dimensions": lambda x: F.linear(x[None], WEIGHT.t(), draw(3)),
    "convolution": lambda x: F.conv1d(x[None], draw(2, 3, 2), padding=1),
    "convolution with padding by name": lambda x: F.conv1d(x[None], draw(2, 3, 2), padding="same"),
    "attention": heads,
    "layer norm": lambda x: F.layer_norm(x, (4,), draw(4), draw(4)),
    "group norm": lambda x: F.group_norm(x[None], 3),
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "gelu": lambda x: F.gelu(x) + F.gelu(x, approximate="tanh"),
    "silu": lambda x: F.silu(x) + F.elu(x - 1),
    "softmax": lambda x: x.softmax(1) * F.log_softmax(x, 0),
    "losses": lambda x: F.cross_entropy(x, torch.tensor([0, 1, 3])) + F.mse_loss(x, draw(3, 4)),
    "views": lambda x: x.view(4, 3).t()[1:].unsqueeze(0).expand(2, 2, 4).reshape(-1),
    "parts": lambda x: torch.cat([*x.split(1), x.unbind()[1][None], x.chunk(2, 1)[0].flatten()[None, :4]]),
    "indices": lambda x: x[torch.tensor([0, 2])] + x[x > 0][:4] + x.index_select(0, torch.tensor([1])),
    "several results": lambda x: x.sort(1).values * x.max(1, keepdim=True).values,
    "reductions": lambda x: x.mean() + x.sum(1).amax() + x.var() + x.norm(),
    "changes": lambda x: x.clone().mul_(2).add_(x).relu_(),
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, WEIGHT),
    "dtypes": lambda x: (x.double() * 2).float(),
    "pad": lambda x: F.pad(x, (1, 1)).clamp(0.6, 1.2),
}


def gradients(function, x):
    """The result, and the gradients of the first and the second order."""
    result = function(x)
    (first,) = torch.autograd.grad(result.pow(2).sum(), x, create_graph=True)
    if not first.requires_grad:
        return result, first
    (second,) = torch.autograd.grad(first.pow(2).sum(), x, allow_unused=True)
    return result, first, second


def inside(value):
    return pytree.tree_map_only(Twin, lambda one: one.inside, value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mode_that_returns_new_tensors_keeps_gradients(name):
    function = PROGRAMS[name]
    expected = gradients(function, draw(3, 4).requires_grad_())
    with Copying():
        found = gradients(function, draw(3, 4).requires_grad_())
    assert all(torch.allclose(one, other, rtol=1e-4) for one, other in zip(found, expected, strict=True))
    assert found[0].requires_grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_wrapper_has_gradients(name):
    function = PROGRAMS[name]
    expected = gradients(function, draw(3, 4).requires_grad_())
    found = gradients(function, Twin(draw(3, 4), requires_grad=True))
    assert all(type(one) is Twin for one in found)
    assert all(torch.allclose(one, other, rtol=1e-4) for one, other in zip(inside(found), expected, strict=True))


def test_a_wrapper_sees_what_backward_runs():
    """torch's names and order."""
    x = Twin(torch.tensor([3.0, 4.0]), requires_grad=True)
    y = (x * x + 1).sum()
    seen.clear()
    y.backward()
    assert seen == [
        "ones_like.default",
        "expand.default",
        "mul.Tensor",
        "mul.Tensor",
        "add.Tensor",
        "detach.default",
    ]
    assert type(x.grad) is Twin and x.grad.inside.tolist() == [6, 8]
    kept = x.grad
    (x * 2).sum().backward()
    assert x.grad is kept and kept.inside.tolist() == [8, 10]


def test_calls_in_a_handler_are_not_recorded():
    found = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            found.append((args[0].requires_grad, result.requires_grad, result.grad_fn, torch.is_grad_enabled()))
            return result

    x = torch.ones(2, requires_grad=True)
    with Mode():
        y = x.exp()
        with torch.no_grad():
            x.exp()
    assert found == [(True, False, None, True), (True, False, None, False)]
    assert y.requires_grad and y.grad_fn.name() == "ExpBackward0"


def test_a_mode_that_returns_an_operand_leaves_it_a_leaf():
    class Identity(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return args[0] if func is aten.neg.default else func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    with Identity():
        y = -x
    assert y is not x and x.is_leaf and y.grad_fn.name() == "NegBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [-1, -1]


def test_a_mode_that_casts():
    class Half(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is aten.mm.default:
                return func(*(one.bfloat16() for one in args)).float()
            return func(*args, **(kwargs or {}))

    x = torch.full((2, 2), 1.001, requires_grad=True)
    with Half():
        y = x @ x
        y.sum().backward()
    assert y.dtype == torch.float32 and y.tolist() == [[2, 2], [2, 2]]
    assert x.grad.tolist() == [[4, 4], [4, 4]], "backward is rounded too"


def test_mixed_precision_comes_before_handlers():
    dtypes = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is aten.mm.default:
                dtypes.append(args[0].dtype)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16), Mode():
        y = x @ x
    y.sum().backward()
    assert dtypes == [torch.bfloat16] and x.grad.dtype == torch.float32


class Quantised(torch.Tensor):
    """A weight in 8 bits, which products read as numbers."""

    @staticmethod
    def __new__(cls, integers, scale):
        return torch.Tensor._make_wrapper_subclass(cls, integers.shape, dtype=scale.dtype, device=integers.device)

    def __init__(self, integers, scale):
        self.integers, self.scale = integers, scale

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __tensor_flatten__(self):
        return ["integers", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, parts, context, size, stride):
        return cls(parts["integers"], parts["scale"])

    @classmethod
    def of(cls, weight):
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale)

    def numbers(self):
        return self.integers * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        noted(func)
        if func is aten.detach.default:
            return cls(args[0].integers.detach(), args[0].scale.detach())
        if func is aten.t.default:
            return cls(args[0].integers.t(), args[0].scale.t())
        if func in (aten.mm.default, aten.addmm.default):
            return func(*(one.numbers() if isinstance(one, Quantised) else one for one in args), **(kwargs or {}))
        raise NotImplementedError(str(func))


@pytest.mark.parametrize("bias", [True, False])
def test_a_frozen_quantised_weight(bias):
    layer = torch.nn.Linear(4, 3, bias=bias)
    weight = Quantised.of(layer.weight.detach())
    plain = weight.numbers()
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    assert type(layer.weight) is Quantised and isinstance(layer.weight, torch.nn.Parameter)
    x = draw(2, 4).requires_grad_()
    seen.clear()
    y = layer(x)
    y.square().sum().backward()
    assert set(seen) == {"t.default", "addmm.default" if bias else "mm.default"} | {"mm.default"}
    expected = F.linear(x, plain, layer.bias)
    assert torch.allclose(y, expected)
    (gradient,) = torch.autograd.grad(expected.square().sum(), x)
    assert torch.allclose(x.grad, gradient)
    with torch.no_grad():
        seen.clear()
        assert torch.allclose(layer(x), expected)
        assert seen == ["t.default", "addmm.default" if bias else "mm.default"]


@pytest.mark.parametrize(
    "kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax", "Adadelta", "ASGD", "Rprop"]
)
def test_optimizers_step_wrappers(kind):
    results = []
    for wrap in (lambda one: one, Twin):
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 2)
        layer.weight = torch.nn.Parameter(wrap(layer.weight.detach().clone()))
        options = {"momentum": 0.9, "weight_decay": 0.1} if kind == "SGD" else {}
        optimizer = getattr(torch.optim, kind)(layer.parameters(), lr=0.1, **options)
        for _ in range(3):
            optimizer.zero_grad()
            layer(torch.ones(4, 3)).square().sum().backward()
            optimizer.step()
        results.append(inside(layer.weight).detach())
    assert torch.allclose(*results, atol=1e-6)


def test_changes_after_saving_are_found():
    x = Twin(torch.ones(2), requires_grad=True)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = x.clone()
    z = y.square()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_changes_of_views_of_wrappers_are_refused():
    x = Twin(torch.ones(2, 2), requires_grad=True)
    view = (x * 1)[0]
    with pytest.raises(NotImplementedError, match="a view that a __torch_dispatch__ made"):
        view.mul_(3)
    with torch.no_grad():
        assert view.mul_(3) is view


def test_a_wrapper_that_requires_grad_is_a_leaf():
    x = Twin(torch.ones(2), requires_grad=True)
    assert (x.requires_grad, x.is_leaf, x.grad_fn, x.grad) == (True, True, None, None)
    assert x.requires_grad_(False) is x and not x.requires_grad
    assert not (x + 1).requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        torch.Tensor._make_wrapper_subclass(Twin, (2,), dtype=torch.int64, requires_grad=True)


def test_saved_results_are_of_the_class():
    x = Twin(torch.ones(2), requires_grad=True)
    y = x.exp()
    assert type(y.grad_fn._saved_result) is Twin and y.grad_fn._saved_result.grad_fn is not None
    assert type((y * y).grad_fn._saved_self) is Twin


def test_handlers_that_raise_leave_nothing_behind():
    class Refusing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError(str(func))

    x = torch.ones(2, 2, requires_grad=True)
    with Refusing(), pytest.raises(KeyError):
        x.exp()
    y = x.exp()
    assert y.requires_grad
    y.sum().backward()
    assert x.grad is not None
    x = torch.ones(2, requires_grad=True)
    y = x.clone()
    with Refusing(), pytest.raises(KeyError):
        y.mul_(2)
    y.mul_(3).sum().backward()
    assert x.grad.tolist() == [3, 3]


@pytest.mark.parametrize("result", [(torch.ones(1),), [torch.ones(1)] * 3])
def test_a_wrong_number_of_results_is_refused(result):
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return result

    x = torch.ones(2, requires_grad=True)
    with Mode(), pytest.raises(RuntimeError):
        torch.neg(x)


def test_flops_are_counted_on_top_of_a_mode():
    from rushlight.utils.flop_counter import FlopCounterMode

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    x = torch.ones(3, 4)
    with FlopCounterMode(display=False) as plain:
        model(x).sum().backward()
    with Copying(), FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    assert counter.get_total_flops() == plain.get_total_flops() > 0


def test_views_in_a_mode_are_views():
    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            assert func in (aten.mul_.Tensor, aten.exp_.default) or not result._is_view()
            return result

    weight = torch.ones(2, requires_grad=True)
    for x in (torch.ones(2, 2), torch.ones(2, 2, requires_grad=True) * 1):
        with Passing():
            view = x[0]
            assert view._is_view() and view._base is x
            view.mul_(weight)
            x.view(-1)[3:].exp_()
        assert x.requires_grad
        (gradient,) = torch.autograd.grad(x.sum(), weight)
        assert gradient.tolist() == [1, 1]


def test_detached_tensors_in_a_mode_have_no_history():
    x = torch.ones(3, requires_grad=True)
    with Copying():
        assert not (x * 2).detach().requires_grad and not x.data.requires_grad
    with Passing():
        x.detach()[1:].add_(1)
        product = x * x
        x.data.add_(1)  # It is no change of `x` for the graph.
        product.sum().backward()
        assert torch.autograd.gradcheck(torch.sin, torch.ones(2, dtype=torch.float64, requires_grad=True))
    assert x.tolist() == [2, 3, 3] and x.grad.tolist() == [4, 6, 6]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_optimizers_step_in_a_mode(kind):
    results = []
    for is_in_mode in (False, True):
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 2)
        optimizer = getattr(torch.optim, kind)(layer.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            layer(torch.ones(4, 3)).square().sum().backward()
            with Passing() if is_in_mode else torch.enable_grad():
                optimizer.step()
        results.append(layer.weight.detach())
    assert torch.allclose(*results, atol=1e-6)


def test_transforms_run_in_a_mode():
    with Passing():
        hessian = torch.func.hessian(lambda x: (x**3).sum())(torch.arange(3.0))
    assert hessian.tolist() == [[0, 0, 0], [0, 6, 0], [0, 0, 12]]


def test_a_tensor_takes_another_storage_in_a_mode():
    x = torch.ones(3)
    with Passing():
        assert x.set_(torch.zeros(4)) is x and x.tolist() == [0, 0, 0, 0]
        assert x.set_(torch.ones(2).untyped_storage(), 0, (2,)).tolist() == [1, 1] and x.set_().numel() == 0
    wrapper = Twin(torch.ones(3))
    assert wrapper.set_(torch.ones(4)) is wrapper
