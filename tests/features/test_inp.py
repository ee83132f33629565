"""INP: in-place operations on tensors in a graph."""

import inspect

import pytest

import rushlight as torch
from rushlight import nn, optim


def test_inp_1_writing_gives_the_results_of_not_writing():
    """A program that writes into tensors and views has the results and gradients of an out-of-place program."""
    start = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    a = start.clone().requires_grad_()
    x = a * 2
    x.t()[0].mul_(3)  # the first column
    x[1].add_(x[0].detach())
    x[:, 1].exp_()

    b = start.clone().requires_grad_()
    y = b * 2
    y = torch.stack([y[:, 0] * 3, y[:, 1]], 1)
    y = torch.stack([y[0], y[1] + y[0].detach()])
    y = torch.stack([y[:, 0], y[:, 1].exp()], 1)

    assert torch.equal(x, y)
    x.square().sum().backward()
    y.square().sum().backward()
    assert torch.equal(a.grad, b.grad)


def test_inp_2_versions():
    """Each write increments the version of the tensor and of all that share its storage."""
    x = torch.zeros(4)
    assert x._version == 0
    x.add_(1)
    assert x._version == 1
    view = x[1:3]
    view.mul_(2)
    assert x._version == view._version == 2
    x[0] = 5
    assert x._version == view._version == 3
    x + 1
    assert x._version == 3


def test_inp_3_a_saved_tensor_was_overwritten():
    """Backward raises an error that contains the lines where the value was saved and where it was overwritten."""
    x = torch.ones(3, requires_grad=True)
    first = inspect.currentframe().f_lineno
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="has been modified") as caught:
        y.sum().backward()
    message = str(caught.value)
    assert message.startswith(
        "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTensor "
        "[3]], which is output 0 of "
    )
    assert "is at version 1; expected version 0 instead" in message
    assert "y = x.exp()" in message and "y.add_(1)" in message
    assert f"changed in place at {__file__}:{first + 2}, in" in message
    assert f"the derivative of the call at {__file__}:{first + 1}, in" in message


@pytest.mark.parametrize(
    ("name", "saves"),
    [
        ("sin", "input"), ("log", "input"), ("square", "input"), ("abs", "input"), ("erf", "input"),
        ("exp", "output"), ("tanh", "output"), ("sigmoid", "output"), ("sqrt", "output"), ("reciprocal", "output"),
        ("neg", "neither"), ("clone", "neither"), ("floor", "neither"), ("sum", "neither"),
    ],
)  # fmt: skip
def test_inp_4_what_an_operator_saves(name, saves):
    """Overwriting a value that a derivative needs is detected. Overwriting other values has no effect."""

    def run(overwritten):
        x = torch.full((3,), 0.5, requires_grad=True)
        h = x * 1
        y = getattr(h, name)()
        z = y * 1
        {"input": h, "output": y}[overwritten].detach().zero_()
        z.sum().backward()

    for overwritten in ("input", "output"):
        if overwritten == saves:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                run(overwritten)
        else:
            run(overwritten)


def test_inp_5_views_and_their_base():
    """Writing into a view changes the history of its base and of its other views."""
    x = torch.ones(4, requires_grad=True)
    base = x * 1
    sibling, written = base[1:3], base[:2]
    written.mul_(torch.tensor([10.0, 20.0]))
    assert base.tolist() == [10.0, 20.0, 1.0, 1.0] and sibling.tolist() == [20.0, 1.0]
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    (found,) = torch.autograd.grad(base.sum(), x, retain_graph=True)
    assert found.tolist() == [10.0, 20.0, 1.0, 1.0]
    (found,) = torch.autograd.grad(sibling.sum(), x)
    assert found.tolist() == [0.0, 20.0, 1.0, 0.0]


@pytest.mark.parametrize("parts", [lambda t: t.unbind(), lambda t: t.split(2)], ids=["unbind", "split"])
def test_inp_5_one_of_several_views(parts):
    """A view from a function with several views cannot be written to."""
    part = parts(torch.ones(4, 2, requires_grad=True) * 1)[0]
    with pytest.raises(
        RuntimeError, match=r"^Output 0 of \w+ is a view and is being modified inplace\..*multiple views"
    ):
        part.add_(1)


def test_inp_6_leaves():
    """A leaf that requires a gradient can be written to only in `no_grad`, and so can its views."""
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(
        RuntimeError, match="^a leaf Variable that requires grad is being used in an in-place operation"
    ):
        w.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        w[0] = 3
    assert w.tolist() == [1.0, 1.0]
    with torch.no_grad():
        w.add_(1)
        w[0] = 7
    assert w.tolist() == [7.0, 2.0] and w.requires_grad and w.is_leaf


@pytest.mark.parametrize(
    "make",
    [optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad, optim.RMSprop, optim.Rprop, optim.ASGD, optim.Adamax],
    ids=lambda make: make.__name__,
)
def test_inp_7_optimizers_keep_the_storage(make):
    """A step changes the values in place, so that processes that share them see the change."""
    net = nn.Linear(3, 2)
    addresses = [p.data_ptr() for p in net.parameters()]
    values = [p.detach().clone() for p in net.parameters()]
    optimizer = make(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    assert [p.data_ptr() for p in net.parameters()] == addresses
    assert not any(torch.equal(p, value) for p, value in zip(net.parameters(), values))


def test_d_7_lines_are_the_users():
    """The error points to the line that called the layer, not to the layer's file, and has a hint."""
    layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sigmoid())
    first = inspect.currentframe().f_lineno
    y = layer(torch.ones(1, 2))
    y.add_(1)
    with pytest.raises(RuntimeError) as raised:
        y.sum().backward()
    message = str(raised.value)
    assert f"changed in place at {__file__}:{first + 2}, in" in message
    assert f"the derivative of the call at {__file__}:{first + 1}, in" in message
    assert "make a new tensor there" in message
