"""Green contexts on the card made of software, which counts launches by the multiprocessors of their streams."""

from soft_card import needs_soft_card, run


@needs_soft_card
def test_green_contexts_run_on_a_part_of_the_multiprocessors():
    run(
        """
import ctypes
card = ctypes.CDLL("libcuda.so.1")
card.softcuda_launches_on.restype = ctypes.c_uint64
def launches():
    torch.cuda.synchronize()
    return [card.softcuda_launches_on(count) for count in (0, 2, 4)]
assert torch.cuda.green_contexts.SUPPORTED
part = torch.cuda.GreenContext.create(num_sms=1)
x = torch.ones(100, device="cuda")
before = launches()
stream = part.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    y = x * 3
torch.cuda.current_stream().wait_stream(stream)
assert y.cpu().tolist() == [3.0] * 100
after = launches()
assert [b - a for a, b in zip(before, after)] == [0, 1, 0], (before, after)
outer = torch.cuda.current_stream()
part.set_context()
assert torch.cuda.current_stream() != outer
z = y + 1
try:
    part.set_context()
except RuntimeError as error:
    assert "is current already" in str(error)
part.pop_context()
assert torch.cuda.current_stream() == outer and (z * 2).cpu().tolist() == [8.0] * 100
assert [b - a for a, b in zip(after, launches())] == [1, 1, 0]
# Parts have an even number of multiprocessors, and one that was given up is used again.
whole = torch.cuda.GreenContext.create(num_sms=3, device_id=0)
with torch.cuda.stream(whole.Stream()):
    torch.ones(3, device="cuda") + 1
assert launches()[2] > before[2]
handles = {part.Stream().cuda_stream for _ in range(40)}
assert len(handles) == 32
del part
assert torch.cuda.GreenContext.create(num_sms=1).Stream().cuda_stream in handles
for wrong, text in [
    (lambda: torch.cuda.GreenContext.create(num_sms=9), "CUDA error"),
    (lambda: torch.cuda.GreenContext.create(), "At least one of num_sms or workqueue_scope must be specified"),
    (lambda: torch.cuda.GreenContext.create(num_sms=2, workqueue_scope="balanced"), "Green Context workqueue configuration is only"),
    (lambda: torch.cuda.GreenContext.max_workqueue_concurrency(), "Green Context workqueue configuration is only supported on CUDA 13.1"),
    (whole.pop_context, "expected popped context to be the current ctx"),
]:
    try:
        wrong()
    except RuntimeError as error:
        assert str(error).startswith(text), error
    else:
        raise AssertionError(text)
"""
    )
