"""Tools around the graph: edges, hooks of several tensors, where saved tensors may not be packed, looking for NaN."""

import pytest

import rushlight as torch
from rushlight.autograd import graph


def test_edges():
    x = torch.ones(2, requires_grad=True)
    assert graph.get_gradient_edge(x).node.variable is x
    second = graph.get_gradient_edge((x * 2).unbind()[1])
    assert second.output_nr == 1 and second.node.name() == "UnbindBackward0"
    with pytest.raises(RuntimeError, match="that does not require gradients"):
        graph.get_gradient_edge(torch.ones(1))


def test_hooks_of_several_tensors():
    a, b, unused = (torch.ones(2, requires_grad=True) for _ in range(3))
    seen, first = [], []
    handle = graph.register_multi_grad_hook([a, b, unused], seen.append)
    other = graph.register_multi_grad_hook([a, b], first.append, mode="any")
    for _ in range(2):
        (a + b * 2).sum().backward()
    assert [[None if g is None else g.tolist() for g in grads] for grads in seen] == [[[1, 1], [2, 2], None]] * 2
    assert len(first) == 2
    handle.remove()
    other.remove()
    (a + b).sum().backward()
    assert len(seen) == len(first) == 2
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        graph.register_multi_grad_hook([a], print, mode="some")


def test_saved_tensors_may_be_kept_from_hooks():
    with graph.disable_saved_tensors_hooks("not here"):
        with graph.disable_saved_tensors_hooks("nor there"), pytest.raises(RuntimeError, match="^nor there$"):
            graph.save_on_cpu().__enter__()
        with pytest.raises(RuntimeError, match="^not here$"):
            graph.save_on_cpu().__enter__()
    with graph.save_on_cpu():
        pass


def test_looking_for_nan_warns_that_it_is_slow_and_names_the_line():
    x = torch.zeros(1, requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"), torch.autograd.detect_anomaly():
        y = (x * 0).sqrt()
        with pytest.raises(
            RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"
        ) as raised:
            (y * 0).sum().backward()
    assert "test_graph_tools.py" in str(raised.value)


def test_volatile_is_gone():
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        torch.autograd.Variable(torch.ones(1), volatile=True)


def test_threads_of_backward_are_a_setting():
    with torch.autograd.set_multithreading_enabled(False):
        assert not torch.autograd.is_multithreading_enabled()
    assert torch.autograd.is_multithreading_enabled()
    assert torch.autograd.grad_mode.no_grad is torch.no_grad
