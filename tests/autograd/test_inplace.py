"""In-place changes: versions, what may be changed, and the history of views."""

import pytest

import rushlight as torch


def test_a_view_carries_the_change_to_its_base():
    x = torch.ones(4, requires_grad=True)
    base = x * 1
    view = base[:2]
    view.mul_(3)
    base.sum().backward()
    assert x.grad.tolist() == [3, 3, 1, 1]


def test_siblings_follow():
    x = torch.ones(4, requires_grad=True)
    base = x * 1
    a, b = base[:3], base[1:]
    a.mul_(2)
    (b * b).sum().backward()
    assert b.tolist() == [2, 2, 1]
    assert x.grad.tolist() == [0, 8, 8, 2]


def test_assignment_is_recorded():
    x = torch.ones(3, requires_grad=True)
    y = torch.zeros(4)
    y[1:] = x * 2
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_the_result_must_fit():
    x = torch.ones(1, 3)
    with pytest.raises(RuntimeError, match=r"output with shape \[1, 3\] doesn't match the broadcast shape \[2, 3\]"):
        x.add_(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"result type Float can't be cast to the desired output type Long"):
        torch.ones(3, dtype=torch.int64).add_(1.5)
    with pytest.raises(
        RuntimeError, match=r"more than one element of the written-to tensor refers to a single memory location"
    ):
        torch.ones(1).expand(3).add_(1)


@pytest.mark.parametrize(
    ("change", "second"),
    [
        (lambda y, x: y.sin_(), lambda x: -x.sin()),
        (lambda y, x: y.log_(), lambda x: -1 / x**2),
        (lambda y, x: y.pow_(3), lambda x: 6 * x),
        (lambda y, x: y.mul_(x), lambda x: 2 + 0 * x),
    ],
)
def test_second_derivatives_of_changes(change, second):
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(change(x.clone(), x).sum(), x, create_graph=True)
    (found,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(found, second(x.detach()))


@pytest.mark.parametrize(
    "change",
    [
        lambda z: z.mul_(z),
        lambda z: z.div_(z),
        lambda z: z.pow_(z),
        lambda z: z.mul_(z.detach()),
        lambda z: z.mul_(z.view(2, 2).view(4)),
        lambda z: z.addcmul_(z, z),
        lambda z: z[:2].mul_(z[2:]),
    ],
)
def test_an_operand_that_is_overwritten_is_missed(change):
    """The derivative needs the old value, so that backward raises an error instead of using the new one."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    z = x * 1
    change(z)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0 instead"):
        z.sum().backward()


def test_an_operand_that_is_overwritten_and_not_asked_for():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    z = x * 1
    z.add_(z)
    z.sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("source", [lambda: (torch.zeros(4),), lambda: (torch.zeros(4).untyped_storage(),), tuple])
def test_other_memory_for_a_tensor_with_a_gradient(source):
    leaf = torch.ones(3, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"^a leaf Variable that requires grad is being used in an in-place operation\.$"
    ):
        leaf.set_(*source())
    with pytest.raises(
        RuntimeError, match=r"^a view of a leaf Variable that requires grad is being used in an in-place"
    ):
        leaf.view(3).set_(*source())
    assert leaf.shape == (3,)
    later = leaf * 1
    later.set_(*source())
    assert later.grad_fn.name() == "torch::autograd::NotImplemented"
    with pytest.raises(RuntimeError, match="derivative for aten::set_ is not implemented"):
        later.sum().backward()
    with torch.no_grad():
        leaf.set_(*source())
    assert leaf.is_leaf and leaf.requires_grad


def test_a_graph_from_before_other_memory_does_not_lead_to_the_leaf():
    leaf = torch.ones(3, requires_grad=True)
    before = (leaf * 2).sum()
    with torch.no_grad():
        leaf.set_(torch.zeros(2))
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        torch.autograd.grad(before, leaf)
    (leaf * 3).sum().backward()
    assert leaf.grad.tolist() == [3, 3]


@pytest.mark.parametrize("name", ["logical_not_", "logical_and_", "logical_or_", "logical_xor_"])
def test_truth_in_place_leaves_no_trace(name):
    leaf = torch.tensor([2.0, 0.0], requires_grad=True)
    getattr(leaf, name)(*[] if name == "logical_not_" else [torch.tensor([1.0, 0.0])])
    assert leaf.is_leaf and leaf.requires_grad and leaf.grad_fn is None and set(leaf.tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("name", ["apply_", "map_"])
def test_functions_of_elements_know_no_gradient(name):
    leaf = torch.ones(2, requires_grad=True)
    sentence = rf"^Can't call {name}\(\) on Variable that requires grad. Use var.detach\(\).{name}\(\) instead.$"
    for tensor in (leaf, leaf * 2):
        with pytest.raises(RuntimeError, match=sentence):
            getattr(tensor, name)(*[torch.ones(2)] * (name == "map_"), lambda *values: values[0] + 1)
    assert leaf.detach().map_(torch.ones(2), lambda a, b: a + b).tolist() == [2, 2] and leaf.tolist() == [2, 2]


@pytest.mark.parametrize(
    "change",
    [
        lambda x, y: x.renorm_(2, 0, 1),
        lambda x, y: x.addr_(y[0], y[:, 1]),
        lambda x, y: x.addbmm_(y[None], y[None]),
        lambda x, y: x[:1].renorm_(2, 0, 1),
    ],
)
def test_composed_changes(change):
    def function(x, y):
        x = x * 1
        change(x, y)
        return x

    inputs = [torch.randn(2, 2, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(function, inputs) and torch.autograd.gradgradcheck(function, inputs)


def quarters(view):
    return torch.arange(1.0, 1 + view.numel()).reshape(view.shape) / 4


PAIRS = lambda x: x.unfold(0, 2, 1)
#: Strides of one in both dimensions: the shorter dimension varies faster.
LINES = lambda x: x.as_strided((2, 3), (1, 1))


@pytest.mark.parametrize(
    ("view", "change", "values", "through_base", "through_view"),
    [
        (PAIRS, lambda v: v.mul_(2), [2, 8, 12, 8], [0.5, 1, 1.5, 2], [0.5, 2.5, 4.5, 3]),
        (
            PAIRS,
            lambda v: v.mul_(quarters(v)),
            [0.25, 0.75, 3.75, 6],
            [0.0625, 0.375, 0.9375, 1.5],
            [0.0625, 0.9375, 2.8125, 2.25],
        ),
        (PAIRS, lambda v: v.copy_(quarters(v)), [0.25, 0.75, 1.25, 1.5], [0] * 4, [0] * 4),
        (LINES, lambda v: v.copy_(quarters(v)), [0.25, 0.5, 0.75, 1.5], [0] * 4, [0] * 4),
        (LINES, lambda v: v.add_(quarters(v)), [1.25, 3.5, 5, 5.5], [0.25, 0.5, 0.75, 1], [0.25, 1.5, 2, 1.5]),
        (lambda x: x.unfold(0, 3, 1), lambda v: v.fill_(3), [3] * 4, [0] * 4, [0] * 4),
        (lambda x: x.unfold(0, 3, 1), lambda v: v.clamp_(1.5, 2.5), [1.5, 2, 2.5, 2.5], [0, 0.5, 0, 0], [0, 1.5, 0, 0]),
    ],
)
def test_views_whose_elements_share_memory(view, change, values, through_base, through_view):
    """torch's values and gradients: a shared element is changed once per index that refers to it, and differentiated once."""
    for through, gradient in ((lambda base, _: base, through_base), (lambda _, part: part, through_view)):
        x = torch.arange(1.0, 5.0, requires_grad=True)
        base = x * 1
        part = view(base)
        change(part)
        assert base.tolist() == values and part.tolist() == view(base).tolist()
        result = through(base, part)
        (result * quarters(result)).sum().backward()
        assert x.grad.tolist() == gradient


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[:1].expand(3).mul_(2),
        lambda x: x.unfold(0, 2, 1).copy_(torch.ones(3)),
        lambda x: x.unfold(0, 2, 1).index_fill_(0, torch.tensor([0]), 1.0),
    ],
)
def test_what_does_not_change_one_element_after_the_other(change):
    x = torch.arange(4.0)
    with pytest.raises(RuntimeError, match="single memory location|must match|broadcast"):
        change(x)
    assert x.tolist() == [0, 1, 2, 3]


WEIGHTS = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "turned",
    [
        lambda x: torch.complex(x, x).real.t_(),
        lambda x: torch.complex(x, x).imag.transpose_(0, 1),
        lambda x: torch.view_as_real(torch.complex(x, x))[..., 0].t_(),
        lambda x: torch.complex(x, x)[None].real.squeeze_(0).t_(),
        lambda x: torch.complex(x, x).real.mul_(1).t_(),
        lambda x: torch.complex(x, x).real.t_().mul_(1),
        lambda x: torch.vmap(lambda row: row * 1)(x).t_(),
        lambda x: torch.vmap(lambda row: row * 1)(x).unsqueeze_(0).squeeze_().t_(),
    ],
)
def test_a_turned_view_of_another_kind_turns_its_gradient_back(turned):
    x = torch.rand(2, 2, requires_grad=True)
    grad = torch.autograd.grad((turned(x) * WEIGHTS).sum(), x)[0]
    assert torch.equal(grad, WEIGHTS.t())


def test_what_overwrites_a_result_of_vmap_cuts_its_gradient():
    x = torch.rand(2, 2, requires_grad=True)
    y = torch.vmap(lambda column: column * 2, in_dims=1)(x)
    y[:, 0] = 1.0
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [[0, 0], [2, 2]]
    y = torch.vmap(lambda column: column * 2, in_dims=1, out_dims=1)(x)
    y.t().mul_(3)
    assert torch.equal(torch.autograd.grad((y * WEIGHTS).sum(), x)[0], 6 * WEIGHTS)
    y = torch.vmap(lambda row: row)(x)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        y.mul_(2)


def test_what_is_overwritten_gets_a_gradient_of_zeros():
    for change in (
        lambda y: y.copy_(torch.zeros(2)),
        lambda y: y.__setitem__(slice(None), torch.zeros(2)),
        lambda y: y[:].copy_(torch.zeros(2)),
        lambda y: y.zero_(),
    ):
        x = torch.ones(2, requires_grad=True)
        y = x * 1
        change(y)
        assert torch.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist() == [0, 0]
        y.sum().backward()
        assert x.grad.tolist() == [0, 0]


def test_inference_tensors_are_not_written():
    with torch.inference_mode():
        made = torch.ones(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        torch.mul(torch.ones(2), 2, out=made)
    with torch.inference_mode():
        assert torch.mul(torch.ones(2), 2, out=made).tolist() == [2, 2]


@pytest.mark.parametrize("use", [lambda y: y.sin(), lambda y: y * y, lambda y: y @ y])
def test_what_was_saved_may_not_be_detached_in_place(use):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    result = use(y)
    y.detach_()
    with pytest.raises(RuntimeError, match="^Trying to use a saved tensor that has been detached in-place"):
        result.sum().backward()


@pytest.mark.parametrize("use", [lambda y: y.exp(), lambda y: y * 2, lambda y: y + y])
def test_what_was_not_saved_may_be_detached_in_place(use):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    result = use(y)
    y.detach_()
    result.sum().backward()
    assert x.grad is not None and not y.requires_grad


@pytest.mark.parametrize("sizes", [((3,), (2, 3, 4)), ((2, 4, 3), (3,)), ((2, 4, 3), (3, 2)), ((2, 4, 3), (2, 3, 4))])
def test_products_are_no_views(sizes):
    left, right = (torch.ones(own, requires_grad=True) for own in sizes)
    assert not torch.matmul(left, right).detach_().requires_grad


def test_views_of_inference_tensors_are_leaves():
    with torch.inference_mode():
        x = torch.ones(3, requires_grad=True)
    for view in (x.view(3), x[1:], x.expand(2, 3), x.t(), *x.unbind()):
        assert view.is_inference() and not view.requires_grad and view.is_leaf and view.grad_fn is None
        assert not (view * 2).requires_grad
    assert (x * 2).requires_grad and x.clone().requires_grad


COMPARISONS = ("eq_", "ne_", "lt_", "le_", "gt_", "ge_")


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_in_place_gives_gradients_of_zero(name):
    weight, other = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
    changed = weight * 1
    getattr(changed, name)(other)
    changed.sum().backward()
    assert weight.grad.tolist() == [0, 0] and other.grad.tolist() == [0]


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_in_place_with_a_tensor_that_requires_grad_is_recorded(name):
    x = torch.ones(2)
    getattr(x, name)(torch.ones(2, requires_grad=True))
    assert x.requires_grad and not x.is_leaf
    y = torch.ones(2)
    getattr(y, name)(1)
    assert not y.requires_grad
    assert not getattr(torch.ones(2, requires_grad=True), name.rstrip("_"))(1).requires_grad
