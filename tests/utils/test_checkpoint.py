"""Checkpoints: the same gradients, fewer saved tensors, the same random numbers."""

from functools import partial

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    GraphExecGroup,
    SelectiveCheckpointContext,
    check_backward_validity,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    detach_variable,
    set_checkpoint_early_stop,
)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))


def gradients(run, model):
    x = torch.ones(4, 3, requires_grad=True)
    torch.manual_seed(1)
    run(model, x).pow(2).sum().backward()
    return [x.grad, *[parameter.grad for parameter in model.parameters()]], torch.rand(1)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_the_same_gradients(use_reentrant):
    expected, after = gradients(lambda model, x: model(x), network())
    for run in (
        lambda model, x: checkpoint(model, x, use_reentrant=use_reentrant),
        lambda model, x: checkpoint_sequential(model, 3, x, use_reentrant=use_reentrant),
    ):
        found, rest = gradients(run, network())
        assert all(torch.equal(a, b) for a, b in zip(found, expected)) and torch.equal(rest, after)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_the_function_runs_again(use_reentrant):
    calls = []

    def function(x, y):
        calls.append(torch.is_grad_enabled())
        return x.sin() * y, x + 1

    x = torch.ones(2, requires_grad=True)
    first, second = checkpoint(function, x, 3.0, use_reentrant=use_reentrant)
    assert len(calls) == 1
    (first.sum() + second.sum()).backward()
    assert len(calls) == 2 and torch.allclose(x.grad, 3 * x.cos() + 1)
    with torch.no_grad():
        assert not checkpoint(function, x, 3.0, use_reentrant=use_reentrant)[0].requires_grad


def test_two_backwards_and_keywords():
    x = torch.ones(2, requires_grad=True)
    out = checkpoint(lambda x, *, power: (x**power).sum(), x, power=3, use_reentrant=False)
    out.backward(retain_graph=True)
    out.backward()
    assert x.grad.tolist() == [6, 6]


def test_inside_of_each_other():
    x = torch.tensor([0.5, 1.5], requires_grad=True)

    def outer(x):
        return checkpoint(torch.sin, x.exp(), use_reentrant=False).cos()

    checkpoint(outer, x, use_reentrant=False).sum().backward()
    (expected,) = torch.autograd.grad(x.exp().sin().cos().sum(), x)
    assert torch.allclose(x.grad, expected)


@pytest.mark.parametrize(
    ("second", "message"),
    [(lambda x: x * 2, "A different number of tensors was saved"), (lambda x: x[:1].sin(), "different metadata")],
)
def test_another_function_in_backward(second, message):
    calls = []

    def function(x):
        calls.append(None)
        return x.sin() if len(calls) == 1 else second(x)

    out = checkpoint(function, torch.ones(2, requires_grad=True), use_reentrant=False)
    with pytest.raises(CheckpointError, match=message):
        out.sum().backward()


def test_warnings_and_errors():
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="the use_reentrant parameter should be passed explicitly"):
        checkpoint(torch.sin, x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(torch.sin, torch.ones(2), use_reentrant=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        checkpoint(torch.sin, x, use_reentrant=True, foo=1)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(torch.sin, x, use_reentrant=False, determinism_check="foo")


def test_a_block_says_whether_to_stop_early():
    calls = []

    def run(x):
        y = x.exp()
        calls.append(len(calls))
        return y

    def counted(early_stop):
        calls.clear()
        checkpoint(run, torch.ones(1, requires_grad=True), use_reentrant=False, early_stop=early_stop).backward()
        return len(calls)

    assert counted(True) == 1 and counted(False) == 2
    for enable in (True, False):
        with set_checkpoint_early_stop(enable):
            assert counted(not enable) == 2 - enable
    assert counted(True) == 1


def test_helpers_of_the_older_way():
    y = torch.ones(1, requires_grad=True).exp()
    found, other, number = detach_variable((y, torch.ones(1), 3))
    assert found.is_leaf and found.requires_grad and not other.requires_grad and number == 3
    with pytest.raises(RuntimeError, match="Only tuple of tensors is supported. Got Unsupported input type: Tensor"):
        detach_variable(y)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        check_backward_validity([torch.ones(1), 3])


def test_tensors_that_a_function_changes():
    def gradient(run):
        x = torch.tensor([0.5, 1.0], requires_grad=True)
        checkpoint(run, x, use_reentrant=False).sum().backward()
        return x.grad

    # Only what the derivative needs is computed again.
    assert torch.allclose(gradient(lambda x: x.exp().mul_(2)), 2 * torch.tensor([0.5, 1.0]).exp())
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        gradient(lambda x: x.exp().mul_(2).sin())


def spared(policy, run, change=True, **options):
    """The gradients of `run` under a selective checkpoint. A parameter is changed undetected after the forward pass."""
    torch.manual_seed(0)
    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    contexts = partial(create_selective_checkpoint_contexts, policy, **options)
    out = checkpoint(run, x, w, use_reentrant=False, context_fn=contexts)
    if change:
        w.data.mul_(0.5)
    out.backward()
    return torch.stack([x.grad, w.grad])


def test_what_a_policy_keeps_is_not_computed_again():
    def run(x, w):
        return (x @ w).sin().sum()

    def expected(scale):
        torch.manual_seed(0)
        x, w = torch.randn(4, 4), torch.randn(4, 4)
        slope = (x @ (w * scale)).cos()  # the derivative of the sine, at the old or the new product
        return torch.stack([slope @ (w * 0.5).T, x.T @ slope])

    kept, again = expected(1.0), expected(0.5)
    assert torch.allclose(spared([torch.mm], run), kept)
    assert torch.allclose(spared([torch.sin], run), again) and torch.allclose(spared([], run), again)
    for policy, value in [
        (lambda ctx, op, *args: op is torch.mm, kept),
        (lambda ctx, op, *args: CheckpointPolicy.PREFER_SAVE, kept),
        (lambda ctx, op, *args: CheckpointPolicy.MUST_RECOMPUTE, again),
    ]:
        assert torch.allclose(spared(policy, run), value)
    assert torch.equal(spared([torch.mm], run, change=False), spared([], run, change=False))


def test_a_policy_is_told_of_each_call_that_computes():
    calls = []

    def policy(ctx, op, *args):
        calls.append((torch.overrides.resolve_name(op), ctx.op_output.shape, len(args), ctx.is_recompute))
        return False

    spared(policy, lambda x, w: (nn.functional.linear(x.t(), w, w[0]) + 1).relu().sum(0).prod())
    assert [name for name, *_ in calls] == ["torch.addmm", "torch.add", "torch.relu", "torch.sum", "torch.prod"]
    assert calls[0][1:] == ((4, 4), 5, False) and calls[1][1] == (4, 4) and calls[3][1] == (4,)


def test_a_selective_checkpoint_is_used_once_and_as_it_was():
    x = torch.ones(2, 2, requires_grad=True)
    contexts = partial(create_selective_checkpoint_contexts, [torch.mm])
    y = checkpoint(lambda x: (x @ x).sin().sum(), x, use_reentrant=False, context_fn=contexts)
    y.backward(retain_graph=True)
    with pytest.raises(
        RuntimeError, match="You are only allowed to backward once on any region computed under selective"
    ):
        y.backward()
    calls = []

    def inconstant(x):
        calls.append(0)
        return (x @ x if len(calls) == 1 else (x @ x) @ x).sin().sum()

    y = checkpoint(inconstant, x, use_reentrant=False, context_fn=contexts)
    with pytest.raises(RuntimeError, match="torch.mm was called 2 times in backward and 1 times in forward"):
        y.backward()

    def changed(x):
        y = x @ x
        z = y.sin()
        y.mul_(2)
        return (z * y).sum()

    y = checkpoint(changed, x, use_reentrant=False, context_fn=contexts)
    with pytest.raises(RuntimeError, match="Tensor cached during selective activation checkpoint has been mutated"):
        y.backward()
    # The call caches are removed at the end of the block.
    assert torch.equal(x @ x, torch.full((2, 2), 2.0))


def test_what_a_selective_checkpoint_refuses():
    with pytest.raises(TypeError, match="policy_fn_or_list must be either a function or a list of ops."):
        create_selective_checkpoint_contexts(3)
    with pytest.raises(
        ValueError, match="Expected op in `op_list` to be an OpOverload but got: 3 of type <class 'int'>."
    ):
        create_selective_checkpoint_contexts([3])
    assert SelectiveCheckpointContext(is_recompute=True, op_output=1).op_output == 1


def test_a_sequence_is_not_cut_into_more_parts_than_it_has():
    layers = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(4)])
    x = torch.ones(1, 2)
    with pytest.raises(ValueError, match="must not be zero"):
        checkpoint_sequential(layers, 5, x, use_reentrant=False)
    assert torch.equal(checkpoint_sequential(layers, -1, x, use_reentrant=False), layers(x))


def test_a_checkpoint_that_differentiates_itself_needs_no_early_stop():
    def penalty(x):
        y = x.sin().exp()
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y * slope

    found = []
    for early_stop in (None, True, False):
        x = torch.tensor([0.5, 1.0], requires_grad=True)
        if early_stop is None:
            penalty(x).sum().backward()
        else:
            with set_checkpoint_early_stop(early_stop):
                checkpoint(penalty, x, use_reentrant=False).sum().backward()
        found.append(x.grad)
    assert torch.allclose(found[0], found[1]) and torch.allclose(found[0], found[2])


def test_a_reentrant_checkpoint_is_not_for_chosen_inputs():
    x = torch.ones(2, requires_grad=True)
    sentence = r"When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad\(\) or passing an `inputs`"
    with pytest.raises(RuntimeError, match=sentence):
        torch.autograd.grad(checkpoint(torch.sin, x, use_reentrant=True).sum(), x)
    with pytest.raises(RuntimeError, match=sentence):
        checkpoint(torch.sin, x, use_reentrant=True).sum().backward(inputs=[x])
    checkpoint(torch.sin, x, use_reentrant=True).sum().backward()
    assert torch.allclose(x.grad, x.cos())


class Saves(torch.autograd.Function):
    """A function that saves two tensors, and notes what it reads in backward."""

    times = 1
    found: list = []

    @staticmethod
    def forward(ctx, x, constant):
        ctx.save_for_backward(x, constant)
        return x * constant

    @staticmethod
    def backward(ctx, grad):
        Saves.found[:] = [ctx.saved_tensors for _ in range(Saves.times)]
        return grad * Saves.found[0][1], None


def test_a_function_reads_its_saved_tensors_once(monkeypatch):
    x, constant = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
    y = checkpoint(Saves.apply, x, constant, use_reentrant=False)
    y.sum().backward(retain_graph=True)
    # A tensor without gradient is the object that was saved.
    assert x.grad.tolist() == [2, 2, 2] and Saves.found[0][1] is constant
    y.sum().backward(retain_graph=True)
    monkeypatch.setattr(Saves, "times", 2)
    with pytest.raises(CheckpointError, match="Unpack is being triggered for a tensor that was already unpacked once"):
        y.sum().backward()


def test_a_group_of_passes_computes_a_function_again_once():
    runs = []

    def function(x):
        runs.append(1)
        return x.sin(), x.exp().exp()

    x = torch.zeros(2, requires_grad=True)
    first, second = checkpoint(function, x, use_reentrant=False)
    with GraphExecGroup():
        first.sum().backward(retain_graph=True)
        second.sum().backward()
        assert len(runs) == 2
        with pytest.raises(CheckpointError, match="Performing two backward calls that overlap"):
            first.sum().backward()
        with pytest.raises(RuntimeError, match="GraphExecGroup contexts cannot be nested"), GraphExecGroup():
            pass
    with GraphExecGroup():
        pass
