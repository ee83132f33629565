"""AUT: requirements of reverse-mode differentiation, each with its own example."""

import threading
import weakref

import pytest

import rushlight as torch
from rushlight import nn, optim
from rushlight.autograd import gradcheck


def test_aut_1_a_graph_of_its_own_for_every_run():
    """Python code decides the depth of the graph in each run, and layers may be added and removed between two steps."""
    for start, doublings in (([3.0, 4.0], 8), ([300.0, 400.0], 1)):
        x = torch.tensor(start, requires_grad=True)
        y = x * 1
        while y.norm() < 1000:
            y = y * 2
        y.sum().backward()
        assert x.grad.tolist() == [2.0**doublings] * 2

    torch.manual_seed(0)
    x, target = torch.randn(16, 4), torch.randn(16, 1)
    layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 1)])

    def train(steps):
        optimizer = optim.SGD(layers.parameters(), lr=0.02)
        losses = []
        for _ in range(steps):
            y = x
            for layer in layers[:-1]:
                y = torch.tanh(layer(y))
            loss = (layers[-1](y) - target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    for change in (lambda: None, lambda: layers.insert(1, nn.Linear(4, 4)), lambda: layers.__delitem__(0)):
        change()
        losses = train(20)
        assert losses[-1] < losses[0]


def test_aut_2_the_flag_spreads():
    """A result requires a gradient exactly if an operand does."""
    x, y, z = torch.randn(5, 5), torch.randn(5, 5), torch.randn(5, 5, requires_grad=True)
    assert (x + y).requires_grad is False
    assert (x + y + z).requires_grad is True


def test_aut_3_requires_grad_in_place():
    """`requires_grad_` sets the flag of a leaf. Its name ends with an underscore, like those of all in-place methods."""
    a = torch.tensor([[2.0, 3.0], [4.0, 5.0]])
    a = (a * 3) / (a - 1)
    assert a.requires_grad is False
    assert a.requires_grad_(True) is a
    assert a.requires_grad is True
    assert type((a * a).sum().grad_fn).__name__ == "SumBackward0"


@pytest.fixture
def four_and_a_half():
    x = torch.ones(2, 2, requires_grad=True)
    y = x + 2
    z = y * y * 3
    return x, y, z, z.mean()


def test_aut_4_the_first_example(four_and_a_half):
    """The mean of 3 (x + 2)^2 at one is 27, its gradient 4.5 everywhere."""
    x, _, _, out = four_and_a_half
    assert out.item() == 27
    out.backward()
    assert x.grad.tolist() == [[4.5, 4.5], [4.5, 4.5]]


def test_aut_5_nodes_have_names(four_and_a_half):
    """A result has the node that created it as `grad_fn`; a leaf has none."""
    x, y, z, out = four_and_a_half
    assert x.grad_fn is None
    assert [t.grad_fn.name() for t in (y, z, out)] == ["AddBackward0", "MulBackward0", "MeanBackward0"]
    assert repr(y) == "tensor([[3., 3.],\n        [3., 3.]], grad_fn=<AddBackward0>)"


def test_aut_6_the_gradient_of_a_scalar_is_implied(four_and_a_half):
    """Without an argument the initial gradient is one, which is allowed only for a scalar."""
    x, y, _, out = four_and_a_half
    out.backward(retain_graph=True)
    implied, x.grad = x.grad, None
    out.backward(torch.tensor(1.0))
    assert torch.equal(implied, x.grad)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        y.backward()


def test_aut_7_vector_jacobian_product():
    """For an output that is not a scalar the caller passes the vector of the vector-Jacobian product."""
    x = (torch.tensor([-1021.4020, 314.6695, -613.4944]) / 1024).requires_grad_()
    y = x * 2
    while y.norm() < 1000:
        y = y * 2
    assert y.tolist() == pytest.approx([-1021.4020, 314.6695, -613.4944])
    y.backward(torch.tensor([0.1, 1.0, 0.0001]))
    assert x.grad.tolist() == pytest.approx([102.4, 1024.0, 0.1024])


def test_aut_8_grad_gives_a_tuple():
    """`autograd.grad` returns the derivatives instead of adding them to the leaves."""
    x = torch.tensor(1.0, requires_grad=True)
    unused = torch.tensor(1.0, requires_grad=True)
    u = x * x
    found = torch.autograd.grad(-u, x, retain_graph=True)
    assert isinstance(found, tuple)
    assert repr(found[0]) == "tensor(-2.)"
    assert x.grad is None

    with pytest.raises(RuntimeError, match="allow_unused"):
        torch.autograd.grad(-u, (x, unused), retain_graph=True)
    assert torch.autograd.grad(-u, (x, unused), allow_unused=True, retain_graph=True)[1] is None
    (scaled,) = torch.autograd.grad(-u, x, grad_outputs=torch.tensor(10.0), create_graph=True)
    assert scaled.item() == -20
    assert torch.autograd.grad(scaled, x)[0].item() == -20

    v = torch.tensor([1.0, 2.0], requires_grad=True)
    (jacobian,) = torch.autograd.grad(v * v, v, torch.eye(2), is_grads_batched=True)
    assert jacobian.tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_aut_9_backward_of_several_tensors():
    """`backward` and `grad` accept several outputs with a gradient for each."""
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    torch.autograd.backward([a * b, 3 * a], [torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])])
    assert a.grad.tolist() == [31.0, 62.0]
    assert b.grad.tolist() == [1.0, 2.0]


def test_aut_10_gradients_accumulate():
    """Two backward passes accumulate until the gradients are zeroed, which by default sets them to None."""
    net = nn.Linear(2, 1)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    x = torch.tensor([[1.0, 2.0]])
    for zero, left in (
        (net.zero_grad, None),
        (optimizer.zero_grad, None),
        (lambda: optimizer.zero_grad(set_to_none=False), [[0.0, 0.0]]),
    ):
        net(x).sum().backward()
        assert net.weight.grad.tolist() == [[1.0, 2.0]]
        net(x).sum().backward()
        assert net.weight.grad.tolist() == [[2.0, 4.0]]
        zero()
        assert (net.weight.grad if left is None else net.weight.grad.tolist()) == left
        net.zero_grad()


def test_aut_11_no_grad():
    """Nothing is recorded inside: as a block, as a decorator, nested, and only in this thread."""
    x = torch.randn(3, requires_grad=True)
    assert x.requires_grad and x.pow(2).requires_grad
    elsewhere = []
    with torch.no_grad():
        assert x.requires_grad is True
        assert x.pow(2).requires_grad is False
        with torch.enable_grad():
            assert x.pow(2).requires_grad is True
        with torch.no_grad():
            pass
        assert x.pow(2).requires_grad is False
        thread = threading.Thread(target=lambda: elsewhere.append(x.pow(2).requires_grad))
        thread.start()
        thread.join()

    @torch.no_grad()
    def square(t):
        return t.pow(2)

    assert elsewhere == [True]
    assert square(x).requires_grad is False
    assert x.pow(2).requires_grad is True


def test_aut_12_detach():
    """A detached tensor has the values, the storage and the version of its source, but no history."""
    x = torch.ones(3, requires_grad=True)
    h = x * 2
    y = h.detach()
    assert y.requires_grad is False and y.grad_fn is None
    assert torch.equal(y, h)
    assert y.data_ptr() == h.data_ptr()
    before = h._version
    y.add_(1)
    assert h._version == y._version == before + 1
    assert h.detach_() is h
    assert h.is_leaf and h.requires_grad is False and h.tolist() == [3.0] * 3


def test_aut_13_data():
    """`data` is the tensor without history and version counter, and can be assigned."""
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.data.zero_()
    assert y.tolist() == [0.0, 0.0] and y._version == 0
    y.sum().backward()  # undetected: the saved result is zero now
    assert x.grad.tolist() == [0.0, 0.0]
    x.data = torch.tensor([5.0, 6.0, 7.0])
    assert x.tolist() == [5.0, 6.0, 7.0] and x.requires_grad
    assert not hasattr(x, "set_data")


def test_aut_14_attributes_of_leaves_and_results():
    """Leaves, nodes, gradients and the index of an output among those of its node."""
    x = torch.ones(3, requires_grad=True)
    plain = torch.ones(3)
    y = x * 2
    assert (x.is_leaf, plain.is_leaf, y.is_leaf) == (True, True, False)
    assert x.grad is None and x.grad_fn is None and y.grad_fn is not None
    assert y.output_nr == 0
    assert [part.output_nr for part in x.unbind()] == [0, 1, 2]


def test_aut_15_hooks_on_tensors():
    """A hook gets the gradient, may replace it, and can be removed."""
    x = torch.ones(2, requires_grad=True)
    seen = []
    watching = x.register_hook(lambda grad: seen.append(grad.tolist()))
    doubling = x.register_hook(lambda grad: grad * 2)
    (3 * x).sum().backward()
    assert seen == [[3.0, 3.0]] and x.grad.tolist() == [6.0, 6.0]
    watching.remove()
    doubling.remove()
    (3 * x).sum().backward()
    assert seen == [[3.0, 3.0]] and x.grad.tolist() == [9.0, 9.0]


def test_aut_16_gradients_of_results():
    """The gradient of a non-leaf is kept only on request, and reading it otherwise gives a warning."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h1 = x * 3
    h1.retain_grad()
    (h1 * h1).sum().backward()
    assert torch.equal(h1.grad, 2 * h1)
    h2 = x * 3
    (h2 * h2).sum().backward()
    with pytest.warns(UserWarning, match="not a leaf"):
        assert h2.grad is None


def test_aut_17_freezing():
    """With frozen parameters the base records and saves nothing. Only the new last layer is trained."""
    torch.manual_seed(0)
    model = nn.Sequential()
    model.base = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh())
    model.fc = nn.Linear(512, 10)
    for parameter in model.parameters():
        parameter.requires_grad = False
    model.fc = nn.Linear(512, 100)
    optimizer = optim.SGD(model.fc.parameters(), lr=1e-2, momentum=0.9)
    before = {name: value.clone() for name, value in model.state_dict().items()}

    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.shape) or t, lambda t: t):
        features = model.base(torch.randn(8, 64))
        assert features.requires_grad is False and saved == []
        model(torch.randn(8, 64)).sum().backward()
    assert saved == [(8, 512)], "the input of the last layer, and no more"
    optimizer.step()
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"fc.weight", "fc.bias"}
    assert {name for name, p in model.named_parameters() if p.grad is not None} == changed


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_aut_18_inference(mode):
    """The replacement of `volatile`: results that do not require gradients and have no node."""
    model = nn.Linear(2, 2)
    with mode():
        y = model(torch.ones(1, 2))
    assert y.requires_grad is False and y.grad_fn is None
    assert y.is_inference() is (mode is torch.inference_mode)
    assert model(torch.ones(1, 2)).requires_grad


def test_aut_18_volatile():
    """The `volatile` argument: operations with such a tensor are not recorded, if the program enables the old meaning."""
    model, volatile = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), torch.utils.backcompat.volatile
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        assert model(torch.autograd.Variable(torch.ones(4, 2), volatile=True)).requires_grad
    volatile.enabled = True
    try:
        with pytest.warns(DeprecationWarning, match="Use `with torch.no_grad"):
            x = torch.autograd.Variable(torch.ones(4, 2), volatile=True)
        y = model(x)
        loss = nn.functional.mse_loss(y * model[2].weight.sum(), torch.zeros(4, 1))
        with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="can't be volatile and require_grad"):
            torch.autograd.Variable(torch.ones(1), requires_grad=True, volatile=True)
    finally:
        volatile.enabled = False
    for result in (x, y, loss):
        assert result.volatile is True and result.requires_grad is False and result.grad_fn is None
        assert isinstance(result, torch.autograd.Variable)
    assert torch.equal(y.as_subclass(torch.Tensor), model(torch.ones(4, 2)))
    assert model(torch.ones(4, 2)).requires_grad


def test_aut_19_backward_twice():
    """The graph is freed after the first backward pass, unless `retain_graph` is set."""
    x = torch.ones(2, requires_grad=True)
    shared = x.exp()
    left, right = (shared * shared).sum(), shared.sin().sum()
    left.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        right.backward()
    y = x.exp().sum()
    x.grad = None
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    assert torch.equal(x.grad, 2 * once)


def test_aut_20_gradients_are_exact():
    """Gradients are exact up to rounding. Finite differences agree within 1e-7 in float64."""
    torch.manual_seed(0)
    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    w = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x, w: torch.tanh(x @ w).exp().logsumexp(1), (x, w), eps=1e-6, atol=1e-7)
    (found,) = torch.autograd.grad(x.sin().sum(), x)
    assert torch.equal(found, x.cos())


def test_aut_21_backward_in_threads():
    """Several threads run backward through graphs with common leaves at the same time, and no gradient is lost."""
    threads, repetitions = 4, 25
    w = torch.ones(64, requires_grad=True)
    start = threading.Barrier(threads, timeout=60)
    failures = []

    def work(number):
        try:
            start.wait()
            for _ in range(repetitions):
                (w * number).sum().backward()
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(1, threads + 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    assert w.grad.tolist() == [10.0 * repetitions] * 64


def test_aut_22_differentiable_or_an_error():
    """No operator silently loses history: its result has a node, or backward raises an error."""
    x = torch.tensor([1.5, -2.5], requires_grad=True)
    for result in (x.floor(), x.round(), x.sign()):
        (found,) = torch.autograd.grad(result.sum(), x)
        assert found.tolist() == [0.0, 0.0]
    for result in (x > 0, x.argmax(), x.long()):
        assert result.requires_grad is False
        with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
            result.sum().backward()
    u = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="derivative for"):
        torch.igamma(u, torch.ones(2)).sum().backward()


def test_aut_23_memory_is_freed_on_the_way():
    """Saved values of a node are released as soon as the node has run, not at the end of the backward pass."""

    class Packed:
        def __init__(self, tensor):
            self.tensor = tensor

    alive = []

    def pack(tensor):
        packed = Packed(tensor)
        alive.append(weakref.ref(packed))
        return packed

    counts = []
    x = torch.ones(4, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor):
        y = x
        for _ in range(3):
            y = y.sin()
            y.register_hook(lambda grad: counts.append(sum(ref() is not None for ref in alive)))
    y.sum().backward()
    assert counts == [3, 2, 1]
    assert all(ref() is None for ref in alive)
