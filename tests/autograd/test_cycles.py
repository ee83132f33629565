"""Reference cycles are collected, also if they pass through the graph."""

import gc
import weakref

import pytest

import rushlight as torch


class Mark:
    """An object whose end is observed with a weak reference."""


def leaf():
    return torch.ones(3, requires_grad=True)


def leaf_hook(mark):
    x = leaf()
    x.register_hook(lambda grad: (x, mark) and None)


def hook_that_ran(mark):
    x = leaf()
    x.register_hook(lambda grad: (x, mark) and None)
    (x * 2).sum().backward()


def hook_after_accumulation(mark):
    x = leaf()
    x.register_post_accumulate_grad_hook(lambda leaf: (x, mark) and None)


def hook_of_a_parameter(mark):
    x = torch.nn.Parameter(torch.ones(3))
    x.register_hook(lambda grad: (x, mark) and None)


def hook_of_a_result(mark):
    y = leaf() * 2
    y.register_hook(lambda grad: (y, mark) and None)


def hook_of_a_node(mark):
    y = leaf() * 2
    y.grad_fn.register_hook(lambda inputs, outputs: (y, mark) and None)
    y.grad_fn.register_prehook(lambda outputs: (y, mark) and None)


def attribute_of_a_node(mark):
    node = (leaf() * 2).grad_fn
    node.metadata["own"], node.metadata["mark"] = node, mark


def attribute(mark):
    x = leaf()
    x.own, x.mark = x, mark


def step_within_backward(mark):
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], 0.1)
    optimizer.mark = mark
    parameter.register_post_accumulate_grad_hook(lambda _: optimizer.step())


class Keeps(torch.autograd.Function):
    """A function that stores its context and result in the way given by `how`."""

    @staticmethod
    def forward(ctx, x, how, mark):
        result = x * 2
        ctx.mark = mark
        how(ctx, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None, None


def note(ctx, result):
    ctx.result = result


def note_itself(ctx, result):
    ctx.own = ctx


def context_that_notes_its_result(mark):
    Keeps.apply(leaf(), note, mark)


def context_that_notes_itself(mark):
    Keeps.apply(leaf(), note_itself, mark)


def saved_result(mark):
    Keeps.apply(leaf(), torch.autograd.function.FunctionCtx.save_for_backward, mark)


def module_hooks(mark):
    layer = torch.nn.Linear(2, 2)
    layer.register_forward_hook(lambda *_: (layer, mark) and None)
    layer.register_full_backward_hook(lambda *_: (layer, mark) and None)
    layer(torch.ones(1, 2, requires_grad=True)).sum().backward()


CYCLES = [
    leaf_hook,
    hook_that_ran,
    hook_after_accumulation,
    hook_of_a_parameter,
    hook_of_a_result,
    hook_of_a_node,
    attribute_of_a_node,
    attribute,
    step_within_backward,
    context_that_notes_its_result,
    context_that_notes_itself,
    saved_result,
    module_hooks,
]


@pytest.mark.parametrize("cycle", CYCLES, ids=lambda cycle: cycle.__name__)
def test_a_cycle_is_collected(cycle):
    mark = Mark()
    seen = weakref.ref(mark)
    cycle(mark)
    del mark
    gc.collect()
    assert seen() is None


def test_what_is_in_use_is_not_collected():
    """A graph, another reference or a view keeps a tensor's hooks, even if the collector finds its object unreachable."""
    calls = []
    x = leaf()
    x.register_hook(lambda grad: calls.append(x))
    y = (x * 2).sum()
    view = y[None]
    y.register_hook(lambda grad: calls.append(view))
    gc.collect()
    view.sum().backward()
    assert [call is x for call in calls] == [False, True]
    y = view = None
    gc.collect()
    (x * 3).sum().backward()
    assert len(calls) == 3


def test_a_result_that_was_saved_dies_at_once():
    """Without the collector: a context does not refer to the saved values of its node."""
    gc.disable()
    try:
        result = Keeps.apply(leaf(), torch.autograd.function.FunctionCtx.save_for_backward, None)
        seen = weakref.ref(result)
        del result
        assert seen() is None
    finally:
        gc.enable()


def test_saved_tensors_outlive_backward_of_a_context():
    contexts = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            contexts.append(ctx)
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    result = Square.apply(leaf())
    assert contexts[0].saved_tensors[0].tolist() == [1, 1, 1]
    del result
    with pytest.raises(RuntimeError, match="no longer exists"):
        contexts[0].saved_tensors
