"""`torch.cuda._sanitizer`: accesses from several streams without an order are told, and those with one are not."""

from card import needs_card, run

pytestmark = needs_card

FOUND = """
import contextlib, io
csan = torch.cuda._sanitizer
def found(function):
    text = io.StringIO()
    try:
        with contextlib.redirect_stderr(text):
            function()
    except csan.CUDASanitizerErrors as errors:
        assert str(errors) == f"detected {len(errors.errors)} errors"
        return errors.errors, text.getvalue()
    return [], text.getvalue()
"""


def test_accesses_without_an_order_are_described():
    run(
        FOUND
        + """
csan.enable_cuda_sanitizer()
x = torch.ones(3, device="cuda")
side = torch.cuda.Stream()
def reads():
    with torch.cuda.stream(side):
        x * 2
errors, told = found(reads)
error, = errors
assert type(error) is csan.UnsynchronizedAccessError and isinstance(error, csan.SynchronizationError)
assert error.data_ptr == x.data_ptr()
assert error.current_access.type is csan.AccessType.READ and error.current_access.stream == side.cuda_stream
assert error.previous_access.type is csan.AccessType.WRITE and error.previous_access.stream == 0
lines = told.splitlines()
assert lines[0] == "============================"
assert lines[1] == f"CSAN detected a possible data race on tensor with data pointer {x.data_ptr()}"
assert lines[2] == f"Access by stream {side.cuda_stream} during kernel:"
assert lines[3].startswith("aten::mul") and lines[4] == "reading from argument(s) self"
assert lines[5] == "With stack trace:" and "in reads" in told
assert "Previous access by stream 0 during kernel:" in lines and "writing to the output" in lines
assert "Tensor was allocated with stack trace:" in lines
csan.cuda_sanitizer.disable()
reads()
"""
    )


def test_what_has_an_order_is_not_told():
    run(
        FOUND
        + """
csan.enable_cuda_sanitizer()
x, side, third = torch.ones(3, device="cuda"), torch.cuda.Stream(), torch.cuda.Stream()
def ordered(wait):
    def use():
        x.add_(1)
        wait()
        with torch.cuda.stream(side):
            x.mul_(2)
        side.synchronize()
    return use
def by_event():
    event = torch.cuda.Event()
    event.record()
    third.wait_event(event)
    later = third.record_event()
    event.record(torch.cuda.current_stream())
    side.wait_event(later)
def by_host():
    event = torch.cuda.Event()
    event.record()
    event.synchronize()
waits = [lambda: side.wait_stream(torch.cuda.current_stream()), by_event, by_host, torch.cuda.synchronize, lambda: x.sum().item(), lambda: x.cpu(), lambda: x.tolist(), lambda: repr(x), lambda: str(x[0])]
for wait in waits:
    assert found(ordered(wait)) == ([], ""), wait
assert len(found(ordered(lambda: None))[0]) == 1
torch.cuda.synchronize()
# Two reads need no order, nor do a view and the shape of another one.
y = torch.ones(3, device="cuda")
torch.cuda.synchronize()
def reads():
    y + 1
    with torch.cuda.stream(side):
        y + 1
        y.view(3, 1), torch.zeros_like(y), y.new_empty(2)
assert found(reads) == ([], "")
errors, told = found(lambda: y.add_(1))
assert len(errors) == 1 and errors[0].previous_access.stream == side.cuda_stream
assert "writing to argument(s) self, and to the output" in told
torch.cuda.synchronize()
# What is read on the host must come after what was written.
def early():
    with torch.cuda.stream(side):
        y.add_(1)
    y.tolist()
errors, told = found(early)
assert len(errors) == 1 and "aten::_to_copy" in told
# Once the check has ended, waits are not followed.
csan.cuda_sanitizer.disable()
assert len(y.tolist()) == 3
"""
    )


def test_memory_that_is_given_up_is_forgotten():
    run(
        FOUND
        + """
csan.enable_cuda_sanitizer()
side = torch.cuda.Stream()
x = torch.ones(3, device="cuda")
address = x.data_ptr()
del x
torch.cuda.empty_cache()
with torch.cuda.stream(side):
    y = torch.ones(3, device="cuda")
    y.add_(1)
assert address not in csan.cuda_sanitizer.dispatch.event_handler.tensors or y.data_ptr() == address
"""
    )


def test_copies_that_do_not_wait_sparse_tensors_and_repeated_calls():
    run(
        """
import pytest

import rushlight.cuda._sanitizer as csan

csan.enable_cuda_sanitizer()
csan.enable_cuda_sanitizer()
x, host = torch.ones(3, device="cuda"), torch.empty(3).pin_memory()
torch.cuda.synchronize()
for copy in (lambda: host.copy_(x, True), lambda: host.copy_(x, non_blocking=True)):
    copy()
    with pytest.raises(csan.CUDASanitizerErrors), torch.cuda.stream(torch.cuda.Stream()):
        x.add_(1)
    torch.cuda.synchronize()
sparse = torch.eye(3, device="cuda").to_sparse()
assert (sparse + sparse).to_dense().sum() == 6
csan.cuda_sanitizer.disable()
with torch.cuda.stream(torch.cuda.Stream()):
    x.add_(1)
torch.cuda.synchronize()
"""
    )


def test_the_variable_enables_it():
    assert "CSAN detected" in run(
        """
import contextlib, sys
x = torch.ones(3, device="cuda")
try:
    with torch.cuda.stream(torch.cuda.Stream()), contextlib.redirect_stderr(sys.stdout):
        x.add_(1)
except torch.cuda._sanitizer.CUDASanitizerErrors as errors:
    assert len(errors.errors) == 1
else:
    raise AssertionError
""",
        TORCH_CUDA_SANITIZER=1,
    )
