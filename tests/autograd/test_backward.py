"""Reverse-mode differentiation: leaves, graphs and gradients."""

import functools
import gc
import threading
import weakref

import pytest

import rushlight as torch


def test_flag_spreads_from_any_operand():
    x, y, z = torch.ones(2), torch.ones(2), torch.ones(2, requires_grad=True)
    assert not (x + y).requires_grad
    assert (x + y + z).requires_grad


def test_requires_grad_in_place():
    a = torch.tensor([[2.0, 3.0], [4.0, 5.0]])
    a = (a * 3) / (a - 1)
    assert not a.requires_grad
    a.requires_grad_(True)
    b = (a * a).sum()
    assert b.grad_fn.name() == "SumBackward0"
    assert type(b.grad_fn).__name__ == "SumBackward0"


def test_four_and_a_half():
    x = torch.ones(2, 2, requires_grad=True)
    y = x + 2
    z = y * y * 3
    out = z.mean()
    assert [t.grad_fn.name() for t in (y, z, out)] == ["AddBackward0", "MulBackward0", "MeanBackward0"]
    assert out.item() == 27
    out.backward()
    assert x.grad.tolist() == [[4.5, 4.5], [4.5, 4.5]]


def test_vector_jacobian_product_of_a_loop():
    x = torch.tensor([-1021.4020, 314.6695, -613.4944]) / 1024
    x.requires_grad_()
    y = x * 2
    while y.norm() < 1000:
        y = y * 2
    y.backward(torch.tensor([0.1, 1.0, 0.0001]))
    expected = torch.tensor([102.4, 1024.0, 0.1024])
    assert torch.allclose(x.grad, expected)


def test_grad_returns_a_tuple_and_leaves_grad_alone():
    x = torch.tensor(1.0, requires_grad=True)
    (found,) = torch.autograd.grad(-(x**2), x)
    assert found.item() == -2
    assert x.grad is None


def test_gradients_accumulate_and_keep_their_identity():
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    first = x.grad
    assert x.grad is first
    (x * 3).sum().backward()
    assert x.grad is first
    assert x.grad.tolist() == [5, 5, 5]
    x.grad = None
    assert x.grad is None


def test_only_scalars_need_no_weight():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match=r"Mismatch in shape"):
        torch.autograd.backward(x * 2, torch.ones(2))
    with pytest.raises(RuntimeError, match=r"element 0 of tensors does not require grad and does not have a grad_fn"):
        torch.ones(1).backward()


def test_second_walk_needs_retain_graph():
    x = torch.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match=r"Trying to backward through the graph a second time"):
        y.backward()
    assert x.grad.tolist() == [4, 4, 4]


def test_modes_are_local_and_nest():
    x = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
        assert not torch.is_grad_enabled()
    assert (x * 2).requires_grad

    @torch.no_grad()
    def quiet(v):
        return v * 2

    assert not quiet(x).requires_grad
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_detach_shares_storage_and_version():
    x = torch.ones(3, requires_grad=True)
    y = x.detach()
    assert not y.requires_grad and y.data_ptr() == x.data_ptr()
    before = x._version
    y.add_(1)
    assert x._version == before + 1
    z = x.data
    z.add_(1)
    assert x._version == before + 1


def test_leaves_and_numbers():
    x = torch.ones(3, requires_grad=True)
    assert x.is_leaf and x.output_nr == 0
    parts = (x * 2).unbind()
    assert [part.output_nr for part in parts] == [0, 1, 2]
    assert not parts[0].is_leaf
    assert parts[0].grad_fn == parts[1].grad_fn


def test_hooks_see_and_replace_gradients():
    x = torch.ones(3, requires_grad=True)
    seen = []
    handle = x.register_hook(lambda grad: seen.append(grad.tolist()))
    doubled = x.register_hook(lambda grad: grad * 2)
    (x * 3).sum().backward()
    assert seen == [[3, 3, 3]] and x.grad.tolist() == [6, 6, 6]
    handle.remove()
    doubled.remove()
    (x * 3).sum().backward()
    assert len(seen) == 1 and x.grad.tolist() == [9, 9, 9]


def test_a_hook_is_named_where_it_changes_the_kind():
    x = torch.ones(3, requires_grad=True)
    x.register_hook(functools.partial(lambda grad: torch.ones(7)))
    with pytest.raises(RuntimeError, match=r"hook '<unknown>' has changed the size of value"):
        (x * 3).sum().backward()


def test_other_data_between_forward_and_backward():
    """The graph continues to accumulate for the leaf, with its old sizes."""
    for into in (torch.zeros(5), torch.zeros(2, 3)):
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        x.data = into
        assert torch.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist() == [2, 2, 2]
        y.sum().backward()
        assert x.grad.tolist() == [2, 2, 2] and x.shape == into.shape
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    x.data = torch.zeros(3, dtype=torch.float64)
    (x * 3).sum().backward()
    assert x.grad.dtype == torch.float64 and x.grad.tolist() == [3, 3, 3]


def test_an_exception_in_a_hook_arrives_unchanged():
    class Mine(Exception):
        pass

    def fail(grad):
        raise Mine("from the hook")

    x = torch.ones(3, requires_grad=True)
    x.register_hook(fail)
    with pytest.raises(Mine, match=r"from the hook"):
        (x * 3).sum().backward()


def test_retain_grad():
    x = torch.ones(3, requires_grad=True)
    h = x * 3
    with pytest.warns(
        UserWarning, match=r"The .grad attribute of a Tensor that is not a leaf Tensor is being accessed"
    ):
        assert h.grad is None
    h.retain_grad()
    (h * h).sum().backward()
    assert h.grad.tolist() == [6, 6, 6]


def test_a_weights_gradient_is_nobody_elses():
    x, w = torch.rand(3, 4), torch.rand(5, 4, requires_grad=True)
    y = torch.nn.functional.linear(x, w)
    transposed, kept = y.grad_fn.next_functions[1][0], []
    assert transposed.name() == "TBackward0"
    handle = transposed.register_prehook(lambda grads: kept.extend(grads))
    y.sum().backward(retain_graph=True)
    assert kept[0].T.equal(w.grad) and w.grad.is_contiguous()
    kept[0].zero_()
    expected = x.sum(0).expand(5, 4)
    assert torch.allclose(w.grad, expected)
    handle.remove()
    w.grad = None
    y.sum().backward()
    assert torch.allclose(w.grad, expected) and w.grad._base is None and w.grad.is_contiguous()


def test_unused_inputs():
    x = torch.ones(2, requires_grad=True)
    y = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"appears to not have been used in the graph"):
        torch.autograd.grad((x * 2).sum(), (x, y))
    gx, gy = torch.autograd.grad((x * 2).sum(), (x, y), allow_unused=True)
    assert gx.tolist() == [2, 2] and gy is None
    _, gy = torch.autograd.grad((x * 2).sum(), (x, y), materialize_grads=True)
    assert gy.tolist() == [0, 0]


def test_gradients_of_gradients():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [6, 12]


def test_a_deep_chain_neither_overflows_nor_leaks():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1
    del y
    z = x
    for _ in range(100_000):
        z = z * 1
    del z


def test_backward_from_many_threads():
    x = torch.ones(100, requires_grad=True)

    def work():
        for _ in range(50):
            (x * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.grad[0].item() == 4 * 50 * 2


def test_the_graph_dies_with_its_results():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None


def test_nodes_lead_to_leaves():
    x = torch.ones(3, requires_grad=True)
    node = (x * 2).grad_fn
    leaf, number = node.next_functions[0]
    assert type(leaf).__name__ == "AccumulateGrad" and number == 0
    assert leaf.variable is x


def test_only_leaves_take_the_flag_as_an_attribute():
    x = torch.ones(2, requires_grad=True) * 2
    for value in (True, False):
        with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
            x.requires_grad = value
    assert x.requires_grad_() is x


def test_recording_into_grad_is_warned_of():
    x = torch.tensor(2.0, requires_grad=True)
    with pytest.warns(UserWarning, match="create_graph=True will create a reference cycle"):
        (x**3).backward(create_graph=True)
    x.grad = None


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (torch.ones(3), "Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] has a shape of torch.Size([2])."),
        (torch.ones(2, dtype=torch.complex64), "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: grad_output[0] has a dtype of torch.complex64 and output[0] has a dtype of torch.float32."),
    ],
)  # fmt: skip
def test_weights_must_fit(weight, sentence):
    x = torch.ones(2, requires_grad=True)
    for call in (lambda: (x * 2).backward(weight), lambda: torch.autograd.grad(x * 2, x, weight)):
        with pytest.raises(RuntimeError) as info:
            call()
        assert str(info.value).splitlines()[0] == sentence


@pytest.mark.parametrize(
    "call",
    [lambda x: x * 2, lambda x: 2 * x, lambda x: x / 2, lambda x: (x + 1).mul_(2), lambda x: torch.mul(x, True)],
)
def test_second_walk_through_a_number(call):
    """An operand that is a number counts as a released tensor, so that a missing `retain_graph` is detected."""
    y = call(torch.ones(2, requires_grad=True)).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 2,
        lambda x: 2 - x,
        lambda x: torch.add(x, x, alpha=2),
        lambda x: torch.lerp(x, x, 0.5),
        lambda x: torch.nn.functional.pixel_shuffle(x.view(1, 4, 1, 1), 2),
        lambda x: torch.nn.functional.channel_shuffle(x.view(1, 4, 1, 1), 2),
        lambda x: x.view(2, 2).rot90(),
        lambda x: x.view(2, 2).trace(),
        lambda x: torch.nn.functional.interpolate(x.view(1, 1, 4), 3),
        lambda x: torch.nn.functional.interpolate(x.view(1, 1, 4), 3, mode="linear"),
        lambda x: torch.nn.functional.interpolate(x.view(1, 1, 2, 2), 3, mode="bicubic", antialias=True),
        lambda x: torch.nn.functional.affine_grid(x[:3].expand(1, 2, 3), (1, 1, 2, 2), align_corners=False),
    ],
)
def test_second_walk_where_nothing_was_kept(call):
    x = torch.rand(4, requires_grad=True)
    y = call(x).sum()
    y.backward()
    once = x.grad.clone()
    y.backward()
    assert torch.equal(x.grad, 2 * once)


MISSING = {
    "x // 2": (RuntimeError, "derivative for aten::floor_divide is not implemented", "torch::autograd::NotImplemented"),
    "torch.heaviside(x, x)": (
        RuntimeError,
        "derivative for aten::heaviside is not implemented",
        "torch::autograd::NotImplemented",
    ),
    "torch.histogram(x, 4).hist": (
        RuntimeError,
        "derivative for aten::histogram is not implemented",
        "torch::autograd::NotImplemented",
    ),
    "x.scatter(0, torch.tensor([0]), 2, reduce='multiply')": (
        RuntimeError,
        "derivative for aten::scatter is not implemented",
        "torch::autograd::NotImplemented",
    ),
    "torch.bincount(torch.tensor([1, 0]), x)": (
        RuntimeError,
        "derivative for aten::bincount is not implemented",
        "torch::autograd::NotImplemented",
    ),
    "torch.linalg.ldl_factor(x.diag())[0]": (
        RuntimeError,
        "derivative for aten::linalg_ldl_factor_ex is not implemented",
        "torch::autograd::NotImplemented",
    ),
    "torch.geqrf(x.diag())[0]": (
        NotImplementedError,
        "the derivative for 'geqrf' is not implemented.",
        "GeqrfBackward0",
    ),
    "torch.special.zeta(x + 1, x)": (
        NotImplementedError,
        "the derivative for 'zeta' is not implemented.",
        "SpecialZetaBackward0",
    ),
    "torch.unique(x)": (NotImplementedError, "the derivative for '_unique2' is not implemented.", "Unique2Backward0"),
    "torch.unique_consecutive(x)": (
        NotImplementedError,
        "the derivative for 'unique_consecutive' is not implemented.",
        "UniqueConsecutiveBackward0",
    ),
    "torch.unique(x, dim=0)": (
        NotImplementedError,
        "the derivative for 'unique_dim' is not implemented.",
        "UniqueDimBackward0",
    ),
}


@pytest.mark.parametrize("text", MISSING)
def test_what_has_no_derivative_is_not_left_out(text):
    """A term of a loss that cannot be differentiated raises an error instead of being ignored."""
    kind, sentence, node = MISSING[text]
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    result = eval(text, {"torch": torch, "x": x})
    assert result.requires_grad and result.grad_fn.name() == node
    with pytest.raises(kind) as refused:
        (x.sum() + result.sum()).backward()
    assert str(refused.value).splitlines()[0] == sentence


def test_zeta_in_its_second_argument():
    q = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda q: torch.special.zeta(3.0, q), q)


def test_batches_of_gradients():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    rows = torch.eye(2)
    assert torch.autograd.grad(x * 3, x, rows, is_grads_batched=True)[0].tolist() == [[3, 0], [0, 3]]
    there = torch.autograd.grad(x * 3, [x, y], rows, is_grads_batched=True, materialize_grads=True)
    assert there[1].tolist() == [0, 0]
    for outputs, grads, error, sentence in [
        (x.sum(), None, ValueError, r"^vmap\(vjp, in_dims=0, ...\)\(<inputs>\): Got in_dim=0 for some input"),
        (x * 2, None, RuntimeError, "^grad can be implicitly created only for scalar outputs"),
        (
            x * 2,
            torch.ones(2, 3),
            RuntimeError,
            r"^If `is_grads_batched=True`.* grad_output\[0\] has a shape of torch.Size\(\[3\]\) and output\[0\]",
        ),
        (x * 2, 5, TypeError, "^'int' object is not iterable"),
        (x * 2, [5], TypeError, "^gradients can be either Tensors or None, but got int"),
        (
            [x * 2, x * 3],
            [rows, torch.ones(3, 2)],
            ValueError,
            r"same size in the mapped dimension, got sizes \[2, 3\]",
        ),
    ]:
        with pytest.raises(error, match=sentence):
            torch.autograd.grad(outputs, x, grads, is_grads_batched=True)


def test_a_leaf_that_was_frozen_since_takes_no_gradient():
    frozen, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    total = (frozen * other).sum()
    frozen.requires_grad_(False)
    total.backward()
    assert frozen.grad is None and other.grad.tolist() == [1, 1]


_ITERABLES = {
    "generator": lambda tensors: (tensor for tensor in tensors),
    "iterator": lambda tensors: iter(tensors),
    "values": lambda tensors: dict(enumerate(tensors)).values(),
    "set": lambda tensors: set(tensors),
}


@pytest.mark.parametrize("form", _ITERABLES)
def test_any_iterable_is_a_sequence_of_tensors(form):
    several = _ITERABLES[form]
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    total = (x * y * 3).sum()
    (g,) = torch.autograd.grad(several([total]), several([x]), several([torch.tensor(2.0)]), retain_graph=True)
    assert torch.equal(g, torch.full((2,), 6.0))
    torch.autograd.backward(several([total]), several([torch.tensor(2.0)]), retain_graph=True, inputs=several([x]))
    total.backward(inputs=several([y]))
    assert torch.equal(x.grad, torch.full((2,), 6.0)) and torch.equal(y.grad, torch.full((2,), 3.0))


def test_an_iterable_of_nothing_and_what_is_none():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
        torch.autograd.grad(x.sum(), iter([]))
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
        x.sum().backward(inputs=iter([]))
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        torch.autograd.grad(x.sum(), 3)


def test_zeros_for_unused_inputs_are_part_of_the_graph():
    x, unused = (torch.ones(2, requires_grad=True) for _ in range(2))
    for create_graph in (True, False):
        _, zeros = torch.autograd.grad(
            (x * x).sum(), [x, unused], create_graph=create_graph, allow_unused=True, materialize_grads=True
        )
        assert torch.equal(zeros, torch.zeros(2)) and zeros.requires_grad is create_graph
    edge = torch.autograd.graph.get_gradient_edge(unused * 2)
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        torch.autograd.grad((x * x).sum(), [x, edge], materialize_grads=True)
    (found,) = torch.autograd.grad((x * x).sum(), [torch.autograd.graph.get_gradient_edge(x)], materialize_grads=True)
    assert torch.equal(found, torch.full((2,), 2.0))


def test_the_gradient_has_a_private_name():
    """Programs with shared models set it: ``shared._grad = own.grad``."""
    own, shared = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    own.sum().backward()
    shared._grad = own.grad
    assert shared.grad is own.grad and shared._grad is own.grad
    with pytest.raises(RuntimeError, match="assign a gradient of size '\\[3\\]' to a tensor of size '\\[2\\]'"):
        shared._grad = torch.ones(3)
    del shared._grad
    assert shared.grad is None


def test_a_leaf_hook_returns_nothing():
    for value, kind, sentence in (
        (torch.ones(2), RuntimeError, "Tensor post accumulate grad hooks should return None."),
        (3, TypeError, "expected Variable, but hook returned 'int'"),
    ):
        leaf = torch.ones(2, requires_grad=True)
        leaf.register_post_accumulate_grad_hook(lambda _, value=value: value)
        with pytest.raises(kind, match=sentence):
            (leaf * 2).sum().backward()


@pytest.mark.parametrize(
    ("reduced", "name"),
    [
        (lambda x, s: torch.scatter_reduce(x, 0, torch.tensor([0, 0, 1]), s, "prod"), "scatter_reduce"),
        (lambda x, s: torch.index_reduce(x, 0, torch.tensor([0, 0, 1]), s, "prod"), "index_reduce"),
    ],
)
def test_products_in_which_zeros_meet_have_one_gradient(reduced, name):
    source = torch.tensor([0.0, 0.0, 3.0], requires_grad=True)
    (grad,) = torch.autograd.grad(reduced(torch.ones(2), source).sum(), source, create_graph=True)
    assert grad.tolist() == [0, 0, 1]
    with pytest.raises(RuntimeError, match=rf"{name}\(\): Double backward is unsupported"):
        grad.sum().backward()


def test_a_dense_tensor_is_dense():
    x = torch.ones(2, requires_grad=True)
    (x.to_dense() * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_part_of_a_node_that_saves_something_runs_once():
    x = torch.rand(4, requires_grad=True)
    result = torch.nn.functional.softplus(x).sum() + torch.logsumexp(x, 0)
    result.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        result.backward()


def test_hooks_of_a_tensor_as_an_attribute():
    x = torch.ones(2, requires_grad=True)
    assert x._backward_hooks is None and torch.ones(2)._backward_hooks is None

    def double(grad):
        return grad * 2

    handle = x.register_hook(double)
    assert list(x._backward_hooks.items()) == [(0, double)]
    y = x.exp()
    y.register_hook(print)
    assert list(y._backward_hooks.values()) == [print] and list(x._backward_hooks.values()) == [double]
    with pytest.raises(RuntimeError, match="^Deletion of _backwards_hooks not allowed!$"):
        del x._backward_hooks
    handle.remove()
    assert x._backward_hooks is None
    x._backward_hooks = {5: double, 7: double}
    x.sum().backward()
    assert x.grad.tolist() == [4, 4] and len(x._backward_hooks) == 2
    x._backward_hooks = None
    x.sum().backward()
    assert x.grad.tolist() == [5, 5]
