"""JIT: parallel function calls, and TorchScript's decorators."""

import json
import threading
import traceback
from typing import List, Tuple  # noqa: UP035  (programs for TorchScript write it so)

import pytest

import rushlight as torch
from rushlight import nn

HANGS = 60


def test_jit_1_script():
    """A decorated function or module computes the same as before, and has the same state."""

    @torch.jit.script
    def choose(x, limit: float):
        if x.sum() > limit:
            return x * 2
        return x - 1

    assert choose(torch.ones(3), 2.0).tolist() == [2.0] * 3
    assert choose(torch.ones(3), 5.0).tolist() == [0.0] * 3
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    scripted = torch.jit.script(net)
    x = torch.randn(4, 2)
    assert torch.equal(scripted(x), net(x))
    assert list(scripted.state_dict()) == list(net.state_dict())


def test_jit_2_annotations():
    """TorchScript's annotations are valid Python."""

    def collect(futures: List[torch.jit.Future[torch.Tensor]]) -> Tuple[int, torch.Tensor]:  # noqa: UP006
        found: List[torch.Tensor] = []  # noqa: UP006
        for future in futures:
            found.append(torch.jit.wait(future))
        return len(found), torch.stack(found)

    count, stacked = torch.jit.script(collect)([torch.jit.fork(torch.neg, torch.ones(1)) for _ in range(2)])
    assert count == 2 and stacked.tolist() == [[-1.0], [-1.0]]


def test_jit_3_forks_overlap():
    """A fork returns immediately, for any function: four tasks that wait for each other all finish."""
    meeting = threading.Barrier(4, timeout=HANGS)
    assert sorted(torch.jit.wait(future) for future in [torch.jit.fork(meeting.wait) for _ in range(4)]) == [0, 1, 2, 3]
    net, x = nn.Linear(2, 3), torch.ones(1, 2)
    assert torch.equal(torch.jit.fork(net, x).wait(), net(x))
    assert torch.jit.wait(torch.jit.fork(x.sum, dim=1)).tolist() == [2.0]
    assert isinstance(torch.jit.fork(torch.neg, x), torch.jit.Future)


def test_jit_4_wait():
    """`wait` returns the value, any number of times, or raises the exception of the task with its traceback."""

    def fails(x):
        raise KeyError("of the task")

    good = torch.jit.fork(torch.neg, torch.ones(1))
    assert torch.jit.wait(good) is torch.jit.wait(good)
    with pytest.raises(KeyError, match="of the task") as caught:
        torch.jit.wait(torch.jit.fork(fails, torch.ones(1)))
    assert "fails" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_jit_5_the_first_example():
    """One call runs here, the other is forked."""

    def foo(x):
        return torch.neg(x)

    @torch.jit.script
    def example(x):
        future = torch.jit.fork(foo, x)
        return foo(x), torch.jit.wait(future)

    assert [y.tolist() for y in example(torch.ones(1))] == [[-1.0], [-1.0]]


def test_jit_6_a_hundred_forks():
    """A list of a hundred futures, waited for in order."""
    futures = [torch.jit.fork(torch.neg, torch.ones([])) for _ in range(100)]
    assert torch.sum(torch.stack([torch.jit.wait(future) for future in futures])).item() == -100


def test_jit_7_forks_from_forks():
    """Nested tasks that wait for each other never run out of threads."""

    def leaves(depth):
        if depth == 0:
            return torch.ones([])
        futures = [torch.jit.fork(leaves, depth - 1) for _ in range(3)]
        return sum(torch.jit.wait(future) for future in futures)

    assert leaves(5).item() == 3**5


def test_jit_8_gradients():
    """The gradients of forked calls are those of the serial program."""

    def gradients(fork):
        torch.manual_seed(0)
        net, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.randn(8, 3)
        parts = [torch.jit.fork(net, part) if fork else net(part) for part in x.split(2)]
        torch.cat([torch.jit.wait(part) if fork else part for part in parts]).square().sum().backward()
        return [p.grad for p in net.parameters()]

    assert all(torch.equal(a, b) for a, b in zip(gradients(True), gradients(False)))


class BidirectionalRecurrentLSTM(nn.Module):
    """One LSTM for each direction, optionally one of them in a task."""

    def __init__(self, width, fork):
        super().__init__()
        self.fork = fork
        self.forwards, self.backwards = nn.LSTM(width, width), nn.LSTM(width, width)

    def forward(self, x):
        if self.fork:
            task = torch.jit.fork(self.backwards, x.flip(0))
            ahead, back = self.forwards(x)[0], torch.jit.wait(task)[0]
        else:
            ahead, back = self.forwards(x)[0], self.backwards(x.flip(0))[0]
        return torch.cat([ahead, back.flip(0)], 2)


class LSTMEnsemble(nn.Module):
    """The mean of several models, optionally each in a task."""

    def __init__(self, count, width, fork_layers, fork_models):
        super().__init__()
        self.fork = fork_models
        self.models = nn.ModuleList([BidirectionalRecurrentLSTM(width, fork_layers) for _ in range(count)])

    def forward(self, x):
        if self.fork:
            futures = [torch.jit.fork(model, x) for model in self.models]
            results = [torch.jit.wait(future) for future in futures]
        else:
            results = [model(x) for model in self.models]
        return torch.stack(results).mean(0)


def ensemble(fork_layers, fork_models):
    torch.manual_seed(0)
    net = LSTMEnsemble(4, 16, fork_layers, fork_models)
    with torch.no_grad():
        return net(torch.randn(5, 3, 16))


def test_jit_9_the_ensemble():
    """Four bidirectional models: the mean of their results is twice as wide as the input."""
    assert ensemble(False, False).shape == (5, 3, 32)


def test_jit_10_forked_directions():
    """With one direction of each model in a task, the result is the same bits."""
    assert torch.equal(ensemble(True, False), ensemble(False, False))


def test_jit_11_forked_models():
    """With each model in a task and its directions in nested tasks, the result is the same bits."""
    assert torch.equal(ensemble(False, True), ensemble(False, False))
    assert torch.equal(ensemble(True, True), ensemble(False, False))


def test_jit_13_a_trace(tmp_path):
    """The profile of forked calls is a trace for a viewer, with concurrent calls on different threads."""
    with torch.autograd.profiler.profile() as profile:
        ensemble(True, True)
    profile.export_chrome_trace(str(tmp_path / "parallel.json"))
    trace = json.loads((tmp_path / "parallel.json").read_text())
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert all({"name", "ts", "dur", "pid", "tid"} <= event.keys() for event in slices)
    assert sum(event["name"] == "aten::lstm" for event in slices) == 8


def test_jit_13_slices_beside_each_other():
    """Two tasks that wait for each other run at the same time. The profile shows them on two threads."""
    meet = threading.Barrier(2, timeout=60)

    def work():
        with torch.profiler.record_function("work"):
            meet.wait()
            torch.ones(2) + 1

    with torch.autograd.profiler.profile() as profile:
        future = torch.jit.fork(work)
        other = threading.Thread(target=work)
        other.start()
        future.wait()
        other.join()
    one, two = [event for event in profile.function_events if event.name == "work"]
    assert one.thread != two.thread
    assert max(one.time_range.start, two.time_range.start) < min(one.time_range.end, two.time_range.end)


def test_jit_14_tables():
    """A profile counts the calls of each operator, and shows them in a table."""
    from rushlight.profiler import profile, record_function

    with profile() as found, record_function("mine"):
        torch.ones(2) + 1
    averages = found.key_averages()
    assert {"aten::add", "mine"} <= {entry.key for entry in averages}
    assert {"Name", "CPU", "Calls"} <= set(averages.table(sort_by="cpu_time_total").splitlines()[1].split())


def test_jit_15_gathering_rows():
    """The loop, decorated or not, gives the result of a single indexing operation."""

    def batch_gather(tensor, indices):
        output = []
        for i in range(tensor.size(0)):
            output += [tensor[i][indices[i]]]
        return torch.stack(output)

    tensor, indices = torch.arange(60.0).reshape(20, 3), torch.arange(20).remainder(3)
    expected = tensor[torch.arange(20), indices]
    assert torch.equal(batch_gather(tensor, indices), expected)
    assert torch.equal(torch.jit.script(batch_gather)(tensor, indices), expected)
