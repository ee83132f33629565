"""Reference cycles are collected, also if they pass through the graph."""

import gc
import time
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


def hooks_of_a_node_with_the_node(mark):
    node = (leaf() * 2).grad_fn
    node.register_hook(lambda inputs, outputs: (node, mark) and None)
    node.register_prehook(lambda outputs: (node, mark) and None)


def hook_of_a_tensor_with_its_node(mark):
    y = leaf() * 2
    node = y.grad_fn
    y.register_hook(lambda grad: (node, mark) and None)


def hook_of_an_accumulator(mark):
    x = leaf()
    node = x.view_as(x).grad_fn.next_functions[0][0]
    node.register_hook(lambda inputs, outputs: (node, mark) and None)


def metadata_with_the_result(mark):
    y = leaf() * 2
    y.grad_fn.metadata["own"], y.grad_fn.metadata["mark"] = y, mark


def what_a_hook_packed(mark):
    saved = leaf().exp().grad_fn._raw_saved_result
    saved.register_hooks(lambda tensor: (tensor, saved, mark), lambda packed: packed[0])


def what_a_context_packed(mark):
    contexts = []

    class Packs(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            contexts.append(ctx)
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: (tensor, contexts, mark), lambda packed: packed[0]):
        Packs.apply(leaf())


def attribute_of_a_storage(mark):
    storage = torch.ones(2).untyped_storage()
    storage.own, storage.mark = storage, mark


def attribute_of_a_tensor_that_came_back(mark):
    x = leaf()
    x.own, x.mark = x, mark
    y = x * x
    del x
    gc.collect()
    assert y.grad_fn._saved_self.mark is mark


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


def attribute_of_a_leaf_with_a_result(mark):
    x = leaf()
    x.result, x.mark = (x.exp() * x).sum(), mark


def attribute_of_a_saved_tensor(mark):
    factor = torch.ones(3)
    factor.result, factor.mark = leaf() * factor, mark


def attribute_of_a_gradient(mark):
    x = leaf() * 2
    x.retain_grad()
    x.sum().backward()
    x.grad.own, x.grad.mark = x, mark


def hook_of_a_leaf_with_a_result(mark):
    x = leaf()
    y = x.exp()
    x.register_hook(lambda grad: (y, mark) and None)


def hook_of_a_node_with_a_later_result(mark):
    y = leaf() * 2
    z = y.exp().sin()
    y.grad_fn.register_hook(lambda inputs, outputs: (z, mark) and None)


def hook_after_accumulation_with_a_result(mark):
    x = leaf()
    y = x.exp()
    x.register_post_accumulate_grad_hook(lambda leaf: (y, mark) and None)


def gradient_of_a_gradient(mark):
    x = leaf()
    x.mark = mark
    (x.slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)


def value_of_a_future(mark):
    box = [mark]
    future = torch.jit.fork(lambda: box)
    box.append(future)
    future.wait()


def exception_of_a_future(mark):
    def fails():
        raise ValueError(mark)

    future = torch.jit.fork(fails)
    with pytest.raises(ValueError, match="Mark"):
        future.wait()


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
    attribute_of_a_leaf_with_a_result,
    attribute_of_a_saved_tensor,
    attribute_of_a_gradient,
    hook_of_a_leaf_with_a_result,
    hook_of_a_node_with_a_later_result,
    hook_after_accumulation_with_a_result,
    gradient_of_a_gradient,
    value_of_a_future,
    exception_of_a_future,
    leaf_hook,
    hook_that_ran,
    hook_after_accumulation,
    hook_of_a_parameter,
    hook_of_a_result,
    hook_of_a_node,
    hooks_of_a_node_with_the_node,
    hook_of_a_tensor_with_its_node,
    hook_of_an_accumulator,
    metadata_with_the_result,
    what_a_hook_packed,
    what_a_context_packed,
    attribute_of_a_storage,
    attribute_of_a_tensor_that_came_back,
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
    # The thread of a forked call may let go of its exception after the waiter has it.
    deadline = time.monotonic() + 10
    while seen() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.001)
    assert seen() is None


@pytest.mark.parametrize("shared", ["leaf", "saved", "node"])
def test_what_another_graph_uses_is_not_collected(shared):
    """The collector must count every handle of a tensor or node before it frees what they keep."""
    x, factor = leaf(), torch.ones(3)
    x.mark, factor.mark = Mark(), Mark()
    y = x * factor
    x.result, factor.result = y, y
    other = {"leaf": x.exp(), "saved": leaf() * factor, "node": y.exp()}[shared]
    seen = weakref.ref(x.mark if shared == "leaf" else factor.mark)
    del x, factor, y
    for _ in range(3):
        gc.collect()
    assert seen() is not None
    other.sum().backward()
    del other
    for _ in range(3):
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


class TestATensorThatOnlyTheEngineHolds:
    """Its object is the same when it is needed again, with attributes and weak references."""

    def test_attributes_in_cycles(self):
        holder, x, y = leaf(), torch.ones(3), torch.ones(3)
        x.tag, x.me, x.other, y.other = 1, x, y, x
        holder.grad = x
        del x, y
        gc.collect()
        assert holder.grad.tag == 1 and holder.grad.me is holder.grad and holder.grad.other.other is holder.grad

    def test_attributes_within_a_graph(self):
        x, mark = leaf(), Mark()
        seen = weakref.ref(mark)
        x.tag, x.me = mark, x
        y = x * x
        del x, mark
        gc.collect()
        assert seen() is not None and y.grad_fn._saved_self.tag is seen()
        del y
        gc.collect()
        assert seen() is None

    @pytest.mark.parametrize("make", [leaf, lambda: torch.nn.Parameter(torch.ones(3))])
    def test_weak_references(self, make):
        ends = []
        x = make()
        first, second = weakref.ref(x, ends.append), weakref.WeakKeyDictionary({x: 5})
        y = x * x
        del x
        for _ in range(3):
            gc.collect()
            assert not ends and len(second) == 1 and first() is y.grad_fn._saved_self
            assert type(first()) is type(make()) and first().requires_grad
        again = first()
        del y
        gc.collect()
        assert again.tolist() == [1.0, 1.0, 1.0] and (again * 2).sum() == 6 and first() is again
        del again
        assert first() is None and len(ends) == 1 and not second

    def test_a_gradient(self):
        holder, x = leaf(), torch.ones(3)
        seen = weakref.ref(x)
        holder.grad = x
        del x
        assert seen() is holder.grad
        holder.grad = None
        gc.collect()
        assert seen() is None

    def test_without_anything_of_its_own_it_leaves_no_object(self):
        x = torch.ones(3)
        seen = weakref.ref(x)
        del x
        assert seen() is None

    def test_threads_drop_it(self):
        import threading

        for _ in range(50):
            x = leaf()
            x.tag = 1
            seen = weakref.ref(x)
            graphs = [x * x for _ in range(4)]
            del x
            threads = [threading.Thread(target=graph.sum().backward) for graph in graphs]
            del graphs
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            del threads
            gc.collect()
            assert seen() is None


def test_metadata_stays_with_its_node():
    y = leaf() * 2
    y.grad_fn.metadata["note"] = [1]
    gc.collect()
    assert y.grad_fn.metadata == {"note": [1]} and (y + 1).grad_fn.next_functions[0][0].metadata["note"] == [1]
    assert (y + 1).grad_fn.metadata == {}


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
