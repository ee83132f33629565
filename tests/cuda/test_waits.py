"""Waits for devices, which Ctrl-C ends, and questions whether work has run."""

import pytest
import soft_card
from soft_card import needs_soft_card
from test_runtime import RAISES

each_wait = pytest.mark.parametrize(
    "wait", ["torch.cuda.synchronize", "stream.synchronize", "event.synchronize", "lambda: repr(x)"]
)

#: How many sines of `x` take a second.
PER_SECOND = """
import time
begun = time.monotonic()
for _ in range(3):
    torch.sin(x)
torch.cuda.synchronize()
per_second = 3 / (time.monotonic() - begun)
"""


@needs_soft_card
def test_events_of_two_devices_have_no_time_between_them():
    soft_card.run(
        RAISES
        + """
events = []
for device in range(2):
    with torch.cuda.device(device):
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()
        events[-1].synchronize()
raises(torch.AcceleratorError, "CUDA error: invalid resource handle", lambda: events[0].elapsed_time(events[1]))
""",
        SOFTCUDA_DEVICES=2,
    )


@needs_soft_card
@each_wait
def test_ctrl_c_ends_a_wait(wait):
    """The work goes on, and later waits see its results."""
    soft_card.run(
        f"""
import os, signal, threading, time
x = torch.ones(1 << 18, device="cuda")
stream, event = torch.cuda.current_stream(), torch.cuda.Event()
repr(torch.sin(x))
{PER_SECOND}
for _ in range(round(6 * per_second)):
    x = torch.sin(x)
event.record()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
begun = time.monotonic()
try:
    ({wait})()
except KeyboardInterrupt:
    assert not event.query(), "the work has run: the interrupt came with its end"
else:
    raise AssertionError("the wait was not interrupted")
torch.cuda.synchronize()
assert event.query() and x.isfinite().all()
"""
    )


@needs_soft_card
@pytest.mark.parametrize(
    "wait",
    [
        "lambda: x[0].item()",
        "lambda: x[:3].tolist()",
        "lambda: pinned.copy_(x[:3])",
        "lambda: one.copy_(x[:3])",
        "lambda: small[index]",
    ],
)
def test_other_threads_go_on_during_a_wait(wait):
    """Also where few elements are waited for."""
    soft_card.run(
        f"""
import threading, time
x, small, index = torch.ones(1 << 18, device="cuda"), torch.ones(4, device="cuda"), torch.tensor([3], device="cuda")
pinned, one = torch.empty(3).pin_memory(), torch.empty(3)
torch.sin(x)
({wait})()
torch.cuda.synchronize()
{PER_SECOND}
count = round(per_second)
moments, stop = [], threading.Event()
def watch():
    while not stop.wait(0.001):
        moments.append(time.monotonic())
thread = threading.Thread(target=watch)
thread.start()
while len(moments) < 2:
    time.sleep(0.001)
for _ in range(count):
    x = torch.sin(x)
begun = time.monotonic()
({wait})()
ended = time.monotonic()
stop.set()
thread.join()
inside = [moment for moment in moments if begun < moment < ended]
assert len(inside) > 3, (len(inside), ended - begun)
"""
    )


@needs_soft_card
def test_polling_ends():
    soft_card.run(
        """
x = torch.ones(3, device="cuda")
event = torch.cuda.Event()
event.record()
while not event.query() or not torch.cuda.current_stream().query():
    pass
"""
    )


@needs_soft_card
@each_wait
def test_a_wait_ends_while_another_thread_enqueues(wait):
    """It is for the work that the device has when the wait begins."""
    soft_card.run(
        f"""
import threading, time
x = torch.ones(1 << 12, device="cuda")
stream, event = torch.cuda.current_stream(), torch.cuda.Event()
stop = threading.Event()
def enqueue():
    y = torch.ones(1 << 12, device="cuda")
    while not stop.is_set():
        torch.sin(y)
thread = threading.Thread(target=enqueue)
torch.sin(x)
torch.cuda.synchronize()
limit = threading.Timer(60, stop.set)
limit.daemon = True
limit.start()
thread.start()
while stream.query():
    pass
event.record()
begun = time.monotonic()
({wait})()
assert not stop.is_set(), "the wait ended with the other thread"
stop.set()
thread.join()
"""
    )


@needs_soft_card
def test_a_wait_leaves_a_capture_that_begins_meanwhile():
    soft_card.run(
        f"""
import threading, time
x = torch.ones(1 << 18, device="cuda")
torch.sin(x)
torch.cuda.synchronize()
{PER_SECOND}
count = round(per_second)
graph, side, errors = torch.cuda.CUDAGraph(), torch.cuda.Stream(), []
y = torch.ones(4, device="cuda")
for _ in range(count):
    x = torch.sin(x)
def wait():
    try:
        torch.cuda.synchronize()
    except Exception as error:
        errors.append(error)
thread = threading.Thread(target=wait)
thread.start()
time.sleep(0.1)
with torch.cuda.graph(graph, stream=side):
    z = y * 2
    thread.join(0.3)
thread.join()
assert not errors, errors
graph.replay()
assert z.tolist() == [2.0] * 4
"""
    )
