"""`jit.fork` and `jit.wait`: calls overlap, can be nested, propagate gradients and exceptions, and end with the process."""

import os
import subprocess
import sys
import threading
import time
from typing import List  # noqa: UP035  (programs for TorchScript write it so)

import pytest

import rushlight as torch
from rushlight import nn

HANGS = 60


def test_blocking_calls_overlap():
    meeting = threading.Barrier(4, timeout=HANGS)
    futures = [torch.jit.fork(meeting.wait) for _ in range(4)]
    assert sorted(torch.jit.wait(future) for future in futures) == [0, 1, 2, 3]


def test_methods_modules_and_keywords():
    model = nn.Linear(2, 3)
    x = torch.ones(1, 2)
    assert torch.jit.wait(torch.jit.fork(model, x)).equal(model(x))
    assert torch.jit.wait(torch.jit.fork(x.sum, dim=1, keepdim=True)).tolist() == [[2]]


def test_gradients_equal_those_of_the_serial_program():
    def loss(x, fork):
        return sum(
            future.wait() if fork else future
            for future in [torch.jit.fork(part, x, i) if fork else part(x, i) for i in range(5)]
        )

    def part(x, i):
        return (x * (i + 1)).tanh().sum()

    grads = []
    for fork in (False, True):
        x = torch.linspace(-1, 1, 50, dtype=torch.float64, requires_grad=True)
        loss(x, fork).backward()
        grads.append(x.grad)
    assert grads[0].equal(grads[1])
    with torch.no_grad():
        assert not torch.jit.fork(part, x, 1).wait().requires_grad
        assert not torch.jit.fork(torch.is_grad_enabled).wait()
    assert torch.jit.fork(torch.is_grad_enabled).wait()


def test_exceptions_arrive_with_their_traceback():
    def wrong():
        raise LookupError("on purpose")

    future = torch.jit.fork(wrong)
    for _ in range(2):
        with pytest.raises(LookupError, match="on purpose") as caught:
            future.wait()
        assert any(entry.name == "wrong" for entry in caught.traceback)
    assert future.done()
    with pytest.raises(RuntimeError, match="must match the size"):
        torch.jit.fork(torch.add, torch.ones(2), torch.ones(3)).wait()


def test_refusals():
    with pytest.raises(TypeError, match="something to call"):
        torch.jit.fork(3)
    with pytest.raises(TypeError, match=r"expects a torch.jit.Future"):
        torch.jit.wait(3)
    gate = threading.Event()
    future = torch.jit.fork(gate.wait, HANGS)
    with pytest.raises(RuntimeError, match="not completed"):
        future.value()
    gate.set()
    assert future.wait() is future.value() is True


def test_a_task_may_replace_what_its_waiter_would_read():
    """Replacing a tensor's memory waits until no thread computes with it. A thread that only waits does not count."""
    x = torch.zeros(3)

    def replace():
        for _ in range(20):
            x.data = torch.ones(3)
            x.resize_(5).resize_(3)
        return x.sum().item()

    other = threading.Thread(target=lambda: torch.rand(2_000_000).exp().sum())
    other.start()
    assert torch.jit.wait(torch.jit.fork(replace)) == 3
    other.join()


def test_circles_are_errors():
    known = threading.Event()
    futures = []

    def circular(other):
        known.wait(HANGS)
        return futures[other].wait()

    futures += [torch.jit.fork(circular, 1), torch.jit.fork(circular, 0)]
    known.set()
    for future in futures:
        with pytest.raises(RuntimeError, match="waits for a future that waits for this call"):
            future.wait()


def test_a_forked_child():
    gate = threading.Event()
    running, began = None, threading.Event()

    def slow():
        began.set()
        gate.wait(HANGS)

    running = torch.jit.fork(slow)
    began.wait(HANGS)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                running.wait()
            except RuntimeError as error:
                lost = "parent process" in str(error)
            code = 0 if lost and torch.jit.fork(sum, [1, 2]).wait() == 3 else 2
        finally:
            os._exit(code)
    gate.set()
    deadline = time.monotonic() + HANGS
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended == (child, 0)
    running.wait()


def test_the_interpreter_ends():
    program = "import rushlight as torch, time; [torch.jit.fork(time.sleep, 0.2) for _ in range(3)]; print('end')"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANGS)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")


@pytest.mark.parametrize("kept", ["future = ", ""])
def test_a_call_that_never_returns_ends_with_the_process(kept):
    program = f"""
import threading
import rushlight as torch
torch.jit._PATIENCE = 0.2
began = threading.Event()
def forever():
    began.set()
    threading.Event().wait()
{kept}torch.jit.fork(forever)
began.wait()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANGS)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr.startswith("jit.fork: calls still run 0.2 seconds after the end of the program")


def test_decorators_change_nothing():
    @torch.jit.script
    def double(x: torch.Tensor):
        if torch.jit.is_scripting():
            raise AssertionError
        return x * 2

    class Model(nn.Module):
        size: torch.jit.Final[int]

        def __init__(self):
            super().__init__()
            self.size = 2
            self.linear = nn.Linear(2, 2)

        @torch.jit.export
        def twice(self, x):
            return self.helper(self.linear(x))

        @torch.jit.ignore
        def helper(self, x):
            return x

        @torch.jit.unused
        def never(self):
            raise AssertionError

        def forward(self, x):
            return self.linear(x)

    assert double(torch.ones(1)).item() == 2
    model = Model()
    scripted = torch.jit.script(model)
    assert scripted.state_dict().keys() == model.state_dict().keys()
    assert torch.jit.trace(model, torch.ones(1, 2))(torch.ones(1, 2)).shape == (1, 2)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.jit.trace(model, torch.ones(1, 3))
    assert torch.jit.annotate(List[int], []) == [] and torch.jit.isinstance([1], List[int])  # noqa: UP006
    assert torch.jit.freeze(model.eval()) is model


def test_futures_are_set_chained_and_collected():
    futures = torch.futures
    first, second = futures.Future(), futures.Future()
    seen = []
    first.add_done_callback(lambda done: seen.append(done is first))
    chained = first.then(lambda done: done.wait() + 1).then(lambda done: done.value() * 10)
    both = futures.collect_all([first, torch.jit.fork(sum, [1, 2]), second])
    assert not first.done() and not both.done()
    first.set_result(1)
    assert seen == [True] and chained.wait() == 20 and torch.jit.wait(first) == 1 and not both.done()
    second.set_exception(ValueError("no"))
    assert [one.done() for one in both.wait()] == [True] * 3
    with pytest.raises(ValueError, match="no"):
        futures.wait_all([first, second])
    assert futures.wait_all([]) == []
    with pytest.raises(RuntimeError, match="Attempting to mark a completed Future as complete again"):
        first.set_result(2)
    with pytest.raises(RuntimeError, match="Got the following error when running the callback: ZeroDivisionError"):
        first.then(lambda done: 1 / 0).wait()
    with pytest.raises(AssertionError, match="3 is of type <class 'int'>, not an Exception"):
        futures.Future().set_exception(3)
    with pytest.raises(TypeError, match="list of futures"):
        futures.wait_all([3])


def test_a_future_is_set_from_another_thread():
    future = torch.futures.Future()
    threading.Timer(0.05, future.set_result, [5]).start()
    assert future.then(lambda done: done.value()).wait() == 5


def test_settings_of_the_compiler_are_kept():
    before = torch.jit.set_fusion_strategy([("STATIC", 3)])
    assert torch.jit.set_fusion_strategy(before) == [("STATIC", 3)] and before == [("STATIC", 2), ("DYNAMIC", 10)]
    with pytest.raises(ValueError, match="FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: X"):
        torch.jit.set_fusion_strategy([("X", 1)])
    torch.jit.enable_onednn_fusion(True)
    assert torch.jit.onednn_fusion_enabled()
    torch.jit.enable_onednn_fusion(False)
    with pytest.warns(UserWarning, match="Only works in script mode"), torch.jit.strict_fusion():
        pass
