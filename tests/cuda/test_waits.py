"""Waits for devices, which Ctrl-C ends, and questions whether work has run."""

import pytest
import soft_card
from soft_card import needs_soft_card
from test_runtime import RAISES


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
@pytest.mark.parametrize(
    "wait", ["torch.cuda.synchronize", "stream.synchronize", "event.synchronize", "lambda: repr(x)"]
)
def test_ctrl_c_ends_a_wait(wait):
    """The work goes on, and later waits see its results."""
    soft_card.run(
        f"""
import os, signal, threading, time
x = torch.ones(1 << 18, device="cuda")
stream, event = torch.cuda.current_stream(), torch.cuda.Event()
repr(torch.sin(x))
begun = time.monotonic()
for _ in range(3):
    torch.sin(x)
torch.cuda.synchronize()
for _ in range(round(18 / (time.monotonic() - begun))):
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
