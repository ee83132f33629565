"""`torch.cuda._gpu_trace`: functions of a program are called with events, streams and memory as they come and go."""

from card import needs_card, run

pytestmark = needs_card

TRACED = """
import gc, threading
import rushlight.cuda._gpu_trace as _gpu_trace
heard = []
def hear(name):
    return lambda *numbers: heard.append((name, *numbers))
"""


def test_functions_are_called_in_order():
    run(
        TRACED
        + """
kinds = ("event_creation event_deletion event_record event_wait memory_allocation memory_deallocation stream_creation "
         "device_synchronization stream_synchronization event_synchronization").split()
for kind in kinds:
    getattr(_gpu_trace, f"register_callback_for_{kind}")(hear(kind))
torch.ones(1, device="cuda")
torch.cuda.Event().record()
assert heard == []
torch._C._activate_gpu_trace()
torch._C._activate_gpu_trace()
stream, default = torch.cuda.Stream(), torch.cuda.current_stream()
assert heard.pop(0) == ("stream_creation", stream.cuda_stream)
event = torch.cuda.Event()
event.record()
handle = event.cuda_event
event.wait(stream)
event.synchronize()
stream.synchronize()
torch.cuda.synchronize()
x = torch.empty(1000, device="cuda")
address = x.data_ptr()
del x, event
gc.collect()
torch.cuda.synchronize()
assert heard == [
    ("event_creation", handle), ("event_record", handle, default.cuda_stream), ("event_wait", handle, stream.cuda_stream),
    ("event_synchronization", handle), ("stream_synchronization", stream.cuda_stream), ("device_synchronization",),
    ("memory_allocation", address), ("memory_deallocation", address), ("event_deletion", handle), ("device_synchronization",),
], heard
"""
    )


def test_memory_of_other_threads_is_told_without_a_call():
    run(
        TRACED
        + """
import time
_gpu_trace.register_callback_for_memory_allocation(hear("taken"))
_gpu_trace.register_callback_for_memory_deallocation(hear("given back"))
torch._C._activate_gpu_trace()
addresses = []
def work():
    for _ in range(50):
        x = torch.ones(600, device="cuda")
        addresses.append(x.data_ptr())
        del x
thread = threading.Thread(target=work)
thread.start()
thread.join()
end = time.monotonic() + 20
while len(heard) < 100 and time.monotonic() < end:
    pass
assert heard == [pair for address in addresses for pair in (("taken", address), ("given back", address))], heard[:4]
"""
    )


def test_an_error_of_a_function_is_logged():
    run(
        TRACED
        + """
import logging
lines = []
class Lines(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
logging.getLogger("rushlight.cuda._gpu_trace").addHandler(Lines())
def fails(*numbers):
    raise ValueError("no")
_gpu_trace.register_callback_for_device_synchronization(fails)
_gpu_trace.register_callback_for_device_synchronization(hear("synchronized"))
torch._C._activate_gpu_trace()
torch.cuda.synchronize()
assert heard == [("synchronized",)] and lines == ["Exception in callback for CUDA device synchronization registered with gpu trace"]
"""
    )


def test_the_sanitizer_hears_beside_them():
    run(
        TRACED
        + """
import contextlib, io
_gpu_trace.register_callback_for_event_record(hear("recorded"))
torch._C._activate_gpu_trace()
csan = torch.cuda._sanitizer
csan.enable_cuda_sanitizer()
x = torch.ones(3, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    x * 2
assert len(heard) == 1
try:
    with contextlib.redirect_stderr(io.StringIO()):
        x.add_(1)
except csan.CUDASanitizerErrors:
    pass
else:
    raise AssertionError
csan.cuda_sanitizer.disable()
torch.cuda.Event().record()
assert len(heard) == 2
"""
    )


def test_waits_that_are_no_calls_of_streams_are_heard():
    run(
        TRACED
        + """
_gpu_trace.register_callback_for_stream_synchronization(hear("waited"))
x = torch.ones(3, device="cuda")
x.sum().item()
assert not heard
torch._C._activate_gpu_trace()
x.sum().item()
assert heard == [("waited", torch.cuda.current_stream().cuda_stream)], heard
"""
    )
