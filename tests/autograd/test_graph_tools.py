"""Tools for the graph: edges, hooks for several tensors, disabled hooks of saved tensors, anomaly detection."""

import subprocess
import sys
import threading
import warnings

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
    other = graph.register_multi_grad_hook([a, torch.ones(2), b], first.append, mode="any")
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
        with (
            pytest.raises(
                RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"
            ) as raised,
            pytest.warns(UserWarning) as caught,
        ):
            (y * 0).sum().backward()
    assert "test_graph_tools.py" in str(raised.value)
    (said,) = [str(warning.message) for warning in caught]
    assert said.startswith("Error detected in SqrtBackward0. Traceback of forward call that caused the error:\n")
    assert "y = (x * 0).sqrt()" in said


def test_where_warnings_are_errors_the_traceback_of_forward_goes_to_stderr(capsys):
    x = torch.zeros(1, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
            (x.sqrt() * 0).sum().backward()
    assert "UserWarning: Error detected in SqrtBackward0. Traceback of forward call" in capsys.readouterr().err


def test_nan_in_a_backward_pass_of_a_backward_pass_names_both_calls():
    with torch.autograd.set_detect_anomaly(True), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.zeros(2, requires_grad=True)
        (grad,) = torch.autograd.grad((x**1.5).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="Function 'PowBackward0' returned nan values"):
            torch.autograd.grad((grad * 0).sum(), x)
    first, second = (str(warning.message) for warning in caught)
    assert first.startswith("Error detected in PowBackward0. Traceback of forward call that caused the error:\n")
    assert second.startswith(
        "\n\nPrevious calculation was induced by PowBackward0. Traceback of forward call that induced the previous "
        "calculation:\n"
    )
    assert "create_graph=True" in first and "x**1.5" in second


def test_the_traceback_of_forward_is_known_only_if_it_was_asked_for():
    x = torch.ones(1, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with (
        torch.autograd.set_detect_anomaly(True, check_nan=False),
        pytest.raises(RuntimeError, match="modified by an inplace operation"),
        pytest.warns(UserWarning, match="Error detected in ExpBackward0. No forward pass information available."),
    ):
        y.backward()


def test_volatile_is_gone():
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        torch.autograd.Variable(torch.ones(1), volatile=True)
    with pytest.raises(ValueError, match="Variable can't be volatile and require_grad at the same time!"):
        torch.autograd.Variable(torch.ones(1), requires_grad=True, volatile=True)


def test_a_variable_is_a_tensor():
    assert torch.autograd.Variable().shape == torch.autograd.Variable(None).shape == (0,)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        torch.autograd.Variable([1.0])


def test_edges_stand_for_tensors():
    leaf = torch.ones(2, requires_grad=True)
    middle = leaf * 2
    last = middle * 3
    at_leaf, at_middle, at_last = (graph.get_gradient_edge(x) for x in (leaf, middle, last))
    (found,) = torch.autograd.grad(last.sum(), at_middle, retain_graph=True)
    assert found.tolist() == [3, 3]
    first, second = torch.autograd.grad(at_last, [at_leaf, middle], torch.ones(2), retain_graph=True)
    assert first.tolist() == [6, 6] and second.tolist() == [3, 3]
    torch.autograd.backward(at_last, torch.ones(2), retain_graph=True)
    torch.autograd.backward([last.sum()], inputs=[at_leaf, at_middle], retain_graph=True)
    assert leaf.grad.tolist() == [12, 12] and middle.is_leaf is False
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        torch.autograd.grad(at_last, leaf)


def test_nodes_show_what_they_saved():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x.exp()
    node = y.grad_fn
    assert torch.equal(node._saved_result, y) and node._saved_result.grad_fn is node
    assert {"_saved_result", "_raw_saved_result"} <= set(dir(node)) and not hasattr(node, "_saved_self")
    product = (x * x.detach()).grad_fn
    assert product._saved_self is None and torch.equal(product._saved_other, x)
    total = x.sum(0, keepdim=True).grad_fn
    assert (total._saved_dim, total._saved_keepdim, total._saved_self_sym_sizes) == ((0,), True, (2, 2))
    assert x.select(0, 1).grad_fn._saved_index == 1 and (x**3).grad_fn._saved_exponent == 3
    normal = torch.nn.functional.layer_norm(x, (2,)).grad_fn
    assert {name for name in dir(normal) if name.startswith("_saved_result")} and "_saved_" not in dir(normal)
    assert x.max(0).values.grad_fn._saved_indices.tolist() == [1, 1]
    y.sum().backward()
    with pytest.raises(RuntimeError, match="directly access saved tensors after they have already been freed"):
        node._saved_result  # reading it fails
    with pytest.raises(RuntimeError, match="^Calling register_hooks on a saved tensor after it has been freed"):
        node._raw_saved_result.register_hooks(lambda t: t, lambda t: t)


def test_a_saved_tensor_takes_hooks_of_its_own():
    x = torch.tensor([2.0], requires_grad=True)
    y = x * x
    saved = y.grad_fn._raw_saved_self
    assert isinstance(saved, torch.autograd.SavedTensor)
    saved.register_hooks(lambda t: t.detach() * 10, lambda t: t + 1)
    with pytest.raises(RuntimeError, match="whose hooks have already been set"):
        saved.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(TypeError, match="a hook must be callable"):
        y.grad_fn._raw_saved_other.register_hooks(3, lambda t: t)
    y.backward()
    assert x.grad.item() == 2 + 21
    kept = x.detach() * x
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        kept.grad_fn._raw_saved_other.register_hooks(lambda t: t, lambda t: t)
    base = x * 1
    with pytest.raises(RuntimeError, match="^A saved tensor pack hook is modifying its input in place"):
        (base * base).grad_fn._raw_saved_self.register_hooks(lambda t: t.detach().add_(1), lambda t: t)
    with pytest.raises(RuntimeError, match="from Python is forbidden"):
        torch.autograd.SavedTensor()


def test_nodes_may_be_called():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    node = (x * x.detach()).grad_fn
    assert node.requires_grad
    result = node(torch.ones(2))
    assert (result[0] if isinstance(result, tuple) else result).tolist() == [1, 2]
    with pytest.raises(TypeError, match="^expected 1 arguments, got 0 instead"):
        node()
    with pytest.raises(TypeError, match="^argument 0 is not a Variable"):
        node(3)


def test_saved_tensors_may_change():
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def run():
        a = x * 2
        b, c = a.sin(), a * a
        a.mul_(3)
        d = a.exp()
        a.add_(1)
        d.zero_()
        return b + c + d

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        run().sum().backward()
    with graph.allow_mutation_on_saved_tensors():
        run().sum().backward()
        with pytest.raises(RuntimeError, match="cannot be nested"), graph.allow_mutation_on_saved_tensors():
            pass
    assert torch.allclose(x.grad, 2 * (2 * x).cos() + 8 * x)
    with graph.allow_mutation_on_saved_tensors():
        late = (x * 2).sin()
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        late.sum().backward()
    y = x * x
    y.square().sum().backward()  # and everything works again


def test_changes_may_be_counted_by_hand():
    x = torch.ones(2)
    graph.increment_version(x[:1])
    graph.increment_version([x, x])
    assert x._version == 3
    with pytest.raises(RuntimeError, match="expect a Iterable"):
        graph.increment_version(3)
    with pytest.raises(RuntimeError, match="expects each element of the iterable to be a tensor"):
        graph.increment_version([3])


def test_threads_of_backward_are_a_setting():
    with torch.autograd.set_multithreading_enabled(False):
        assert not torch.autograd.is_multithreading_enabled()
    assert torch.autograd.is_multithreading_enabled()
    assert torch.autograd.grad_mode.no_grad is torch.no_grad


@pytest.mark.parametrize("found", [3, None])
def test_what_was_packed_becomes_a_tensor_again(found):
    x = torch.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(lambda tensor: found, lambda packed: packed):
        y = x.exp()
    kind = type(found).__name__
    sentence = f"^Output of saved tensor unpack_hook expected to be a Tensor but got result of type {kind}$"
    with pytest.raises(TypeError, match=sentence):
        y.sum().backward()


def test_what_hooks_copied_may_have_changed_since():
    def gradient(pack, unpack):
        x = torch.tensor([0.0, 1.0], requires_grad=True)
        with graph.saved_tensors_hooks(pack, unpack):
            y = x.exp()
        z = y.mul_(2)
        return torch.autograd.grad(z.sum(), x)[0]

    expected = 2 * torch.tensor([0.0, 1.0]).exp()
    assert torch.equal(gradient(lambda x: x.clone(), lambda x: x), expected)
    assert torch.equal(gradient(lambda x: x.detach().numpy().copy(), torch.from_numpy), expected)
    for pack in (lambda x: x, lambda x: x.view(2), lambda x: x.detach()):
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation: .packed tensor."):
            gradient(pack, lambda x: x)


@pytest.mark.parametrize(
    ("mode", "recording"),
    [(torch.no_grad, False), (torch.no_grad(), False), (torch.enable_grad(), True), (torch.inference_mode, False)],
)
def test_a_mode_on_a_class_holds_while_an_instance_is_made(mode, recording):
    class Model:
        def __init__(self, size):
            self.size, self.within = size, torch.is_grad_enabled()

        def __call__(self):
            return torch.is_grad_enabled()

    with pytest.warns(FutureWarning, match="^Decorating classes is deprecated and will be disabled") as caught:
        make = mode(Model)
    made = make(3)
    assert type(made) is Model and (made.size, made.within, made()) == (3, recording, True)
    assert caught[0].filename == __file__


def test_modes_of_programs():
    from rushlight.utils._contextlib import _DecoratorContextManager

    class Counted(_DecoratorContextManager):
        def __init__(self, by):
            self.by = by

        def __enter__(self):
            seen.append(self.by)

        def __exit__(self, *_):
            seen.append(-self.by)

        def clone(self):
            return type(self)(self.by)

    seen = []

    @Counted(2)
    def work():
        seen.append(0)

    work()
    assert seen == [2, 0, -2]
    assert issubclass(torch.no_grad, _DecoratorContextManager) and type(torch.no_grad().clone()) is torch.no_grad
    with pytest.raises(
        TypeError, match=r"^set_grad_enabled\(\): argument 'enabled' \(position 1\) must be bool, not str$"
    ):
        torch.set_grad_enabled("a")


def test_packing_is_not_recorded():
    x = torch.ones(3, requires_grad=True)
    with graph.saved_tensors_hooks(lambda saved: saved.tolist(), torch.tensor):
        with torch.no_grad():
            assert x.numpy().tolist() == [1.0] * 3  # unrecorded data may be exported
        total = (x.exp() * x.exp()).sum()
    total.backward()
    seen = []

    def pack(saved):
        seen.append((saved * 2).requires_grad)
        return saved

    with graph.saved_tensors_hooks(pack, lambda saved: saved):
        (x.exp() * x).sum()
    assert seen and not any(seen)


def test_gradient_hooks_clear_in_place():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: grad.zero_())
    y.sum().backward()
    assert x.grad.tolist() == [0.0] * 3


@pytest.mark.parametrize("mode", ["all", "any"])
def test_a_multi_grad_hook_is_called_after_a_backward_that_failed(mode):
    a, b = (torch.ones(1, requires_grad=True) for _ in range(2))
    called = []
    torch.autograd.graph.register_multi_grad_hook([a, b], called.append, mode=mode)

    def fail(grad):
        raise ValueError("no")

    failing = b.register_hook(fail)
    with pytest.raises(ValueError, match="no"):
        (a * b).sum().backward()
    failing.remove()
    called.clear()
    for count in (1, 2):
        (a * b).sum().backward()
        assert len(called) == count


@pytest.mark.parametrize("mode", ["all", "any"])
def test_a_multi_grad_hook_is_called_once_in_the_backward_of_each_thread(mode):
    a, b = (torch.ones(1, requires_grad=True) for _ in range(2))
    together = threading.Barrier(4)
    called = []
    torch.autograd.graph.register_multi_grad_hook([a, b], called.append, mode=mode)

    def meet(grad):
        together.wait(30)

    b.register_hook(meet)
    total = (a * b).sum()
    threads = [threading.Thread(target=total.backward, kwargs={"retain_graph": True}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(called) == 4


@pytest.mark.parametrize("end", ["", "del hooks", "raise SystemExit(0)"])
def test_a_program_may_end_while_hooks_of_saved_tensors_are_entered(end):
    program = f"""
import rushlight as torch
hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
hooks.__enter__()
x = torch.ones(3, requires_grad=True).exp()
{end}
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
