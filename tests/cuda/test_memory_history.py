"""What allocators of GPUs do, recorded with the lines of the program, and memory that is not kept."""

from card import needs_card, run
from soft_card import RAISES

pytestmark = needs_card


def test_allocations_and_frees_are_recorded_with_their_lines(tmp_path):
    run(
        RAISES
        + f"path = {str(tmp_path / 'dump.pickle')!r}\n"
        + """
import pickle
memory = torch.cuda.memory
before = torch.ones(7, device="cuda")
memory._record_memory_history(context="alloc")
def asks():
    return torch.ones(3000, device="cuda")
x = asks()
address = x.untyped_storage().data_ptr()
memory._set_memory_metadata("second")
assert memory._get_memory_metadata() == "second"
y = torch.ones(5 << 20, device="cuda")
lines = memory._allocation_traceback(address)
assert lines[0]["name"] == "asks" and lines[1]["name"] == "<module>" and lines[0]["filename"] == "<string>"
assert lines[1]["line"] == lines[0]["line"] + 1
assert memory._allocation_traceback(before.untyped_storage().data_ptr()) is None
del x, y
torch.cuda.empty_cache()
shot = memory._snapshot()
assert set(shot) == {"segments", "device_traces", "allocator_settings", "external_annotations"}
trace = shot["device_traces"][0]
told = [(entry["action"], entry["user_metadata"]) for entry in trace]
assert told == [
    ("alloc", ""),
    ("segment_alloc", "second"),
    ("alloc", "second"),
    ("free_requested", "second"),
    ("free_completed", "second"),
    ("free_requested", "second"),
    ("free_completed", "second"),
    ("segment_free", "second"),
    ("snapshot", "second"),
], told
assert trace[0]["addr"] == address and trace[0]["size"] == 12288 and trace[0]["frames"] == lines
assert trace[0]["time_us"] <= trace[-1]["time_us"] and trace[0]["pool_id"] == (0, 0) and trace[0]["stream"] == 0
assert trace[3]["frames"] == []
memory._dump_snapshot(path)
with open(path, "rb") as file:
    dumped = pickle.load(file)
assert dumped["segments"] == shot["segments"] and len(dumped["device_traces"][0]) == len(trace) + 1
memory._record_memory_history(None)
torch.ones(3000, device="cuda")
assert len(memory._snapshot()["device_traces"][0]) == len(trace) + 1
"""
    )


def test_the_record_is_as_long_and_as_detailed_as_asked():
    run(
        RAISES
        + """
memory = torch.cuda.memory
actions = lambda: [entry["action"] for entry in memory._snapshot()["device_traces"][0]]
torch.ones(1, device="cuda")
memory._record_memory_history(max_entries=2, skip_actions=["free_requested", "snapshot"])
for _ in range(3):
    x = torch.ones(1, device="cuda")
    del x
assert actions() == ["alloc", "free_completed"]
frames = [entry["frames"] for entry in memory._snapshot()["device_traces"][0]]
assert all(lines and lines[0]["name"] == "<module>" for lines in frames)
memory._record_memory_history("state", clear_history=True)
x = torch.ones(1, device="cuda")
assert actions() == [] and memory._allocation_traceback(x.data_ptr())
del x
memory._record_memory_history(context=None, clear_history=True)
x = torch.ones(1, device="cuda")
assert memory._snapshot()["device_traces"][0][0]["frames"] == [] and memory._allocation_traceback(x.data_ptr()) is None
memory._record_memory_history(True, trace_alloc_max_entries=1, clear_history=True)
y = torch.ones(1, device="cuda")
assert memory._allocation_traceback(y.data_ptr())
memory._record_memory_history(False)
raises(RuntimeError, "expected state to be 'state', 'all', or None", lambda: memory._record_memory_history("some"))
raises(RuntimeError, "expected context to be", lambda: memory._record_memory_history(context="some"))
raises(RuntimeError, "expected stacks to be", lambda: memory._record_memory_history(stacks="some"))
# An error is on its way while the tensor of its frame is freed.
memory._record_memory_history()
def fails():
    held = torch.ones(1, device="cuda")
    raise KeyError("kept")
raises(KeyError, "'kept'", fails)
"""
    )


def test_a_failed_allocation_is_recorded():
    run(
        """
torch.ones(1, device="cuda")
torch.cuda.memory._record_memory_history()
try:
    torch.empty(1 << 60, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    pass
entry = torch.cuda.memory._snapshot()["device_traces"][0][-2]
assert entry["action"] == "oom" and entry["size"] == 1 << 60 and 0 < entry["device_free"] < 1 << 50 and "addr" not in entry
assert torch.cuda.memory._snapshot()["device_traces"][0][-1]["action"] == "snapshot"
"""
    )


def test_freed_memory_goes_back_at_once_if_it_is_not_kept():
    run(
        """
reserved = torch.cuda.memory_reserved
x = torch.ones(5, device="cuda")
with torch.cuda.caching_allocator_disabled():
    kept = reserved()
    y = torch.ones(40 << 20, dtype=torch.uint8, device="cuda")
    assert reserved() > kept
    del y
    assert reserved() == kept
y = torch.ones(40 << 20, dtype=torch.uint8, device="cuda")
del y
assert reserved() > kept
torch.cuda.caching_allocator_enable(False)
del x
assert reserved() == 0
torch.cuda.caching_allocator_enable()
torch.ones(5, device="cuda")
assert reserved() > 0
"""
    )
