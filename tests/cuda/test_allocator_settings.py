"""`PYTORCH_ALLOC_CONF`: torch's grammar and sentences, and what each setting does, as statistics and snapshots show it."""

import os

import pytest
import soft_card
from card import needs_card, run
from soft_card import RAISES

#: Texts that torch takes, and those that it refuses, with its class and its sentence. Where torch names a failed assertion of its own,
#: the end of its sentence.
TAKEN = """
||max_split_size_mb:20|max_split_size_mb:-1|max_split_size_mb:20,|max_split_size_mb:20abc|max_split_size_mb:+25|max_split_size_mb,20
|max_split_size_mb: 30 , garbage_collection_threshold : 0.5|max_split_size_mb:20]|max_split_size_mb:18446744073709551615
|garbage_collection_threshold:1e-3|garbage_collection_threshold:0.5x|roundup_power2_divisions:4|roundup_power2_divisions:[]
|roundup_power2_divisions:[256:1,512:2,1024:4,>:8]|roundup_power2_divisions:[256:1,>:2,512:2]|roundup_power2_divisions:[256,1]
|roundup_power2_divisions:[256:0]|max_non_split_rounding_mb:20.5|large_segment_size_mb:20|expandable_segments:True
|expandable_segments:False|pinned_use_background_threads:True|pinned_reserve_segment_size_mb:10
|pinned_use_cuda_host_register:False|pinned_use_hip_host_register:False|pinned_num_register_threads:128|backend:native
|release_lock_on_cudamalloc:True|release_lock_on_hipmalloc:True|graph_capture_record_stream_reuse:True
|per_process_memory_fraction:0.5|per_process_memory_fraction:1.0|throw_on_cudamalloc_oom:True|pinned_max_round_threshold_mb:1
|pinned_max_cached_size_mb:0
"""
UNKNOWN = "Unrecognized key '{}' in Accelerator allocator config."
BEYOND = "Index out of bounds in ConfigTokenizer"
SMALL = "CachingAllocator option {} too small, must be >= 20"
NO_TRUTH = "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got '{}'"
REFUSED = [
    ("garbage:1", "ValueError", UNKNOWN.format("garbage")),
    ("garbage", "ValueError", UNKNOWN.format("garbage")),
    ("MAX_SPLIT_SIZE_MB:30", "ValueError", UNKNOWN.format("MAX_SPLIT_SIZE_MB")),
    ("max_split_size_mb 20", "ValueError", UNKNOWN.format("max_split_size_mb20")),
    ("max_split_size_mb:20,,", "ValueError", UNKNOWN.format(",")),
    ("max_split_size_mb:20 max_split_size_mb:21", "ValueError", UNKNOWN.format("21")),
    ("max_split_size_mb:20:30", "ValueError", UNKNOWN.format("30")),
    ("[", "ValueError", UNKNOWN.format("[")),
    ("max_split_size_mb", "RuntimeError", BEYOND),
    ("max_split_size_mb:", "RuntimeError", BEYOND),
    ("max_split_size_mb:19", "ValueError", SMALL.format("max_split_size_mb")),
    ("max_split_size_mb:1.5", "ValueError", SMALL.format("max_split_size_mb")),
    ("max_non_split_rounding_mb:0", "ValueError", SMALL.format("max_non_split_rounding_mb")),
    ("max_split_size_mb:x", "ValueError", "stoull"),
    ("max_split_size_mb:[20]", "ValueError", "stoull"),
    ("max_split_size_mb:99999999999999999999", "IndexError", "stoull"),
    ("garbage_collection_threshold:0", "ValueError", "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
    ("garbage_collection_threshold:nan", "ValueError", "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
    ("garbage_collection_threshold:x", "ValueError", "stod"),
    ("garbage_collection_threshold:1e400", "IndexError", "stod"),
    ("roundup_power2_divisions:3", "ValueError", "For roundups, the divisions has to be power of 2 "),
    ("roundup_power2_divisions:-4", "ValueError", "For roundups, the divisions has to be power of 2 "),
    (
        "roundup_power2_divisions:[256:1,>:3]",
        "ValueError",
        "For roundups, the divisions has to be power of 2 or 0 to disable roundup ",
    ),
    ("roundup_power2_divisions:[100:1]", "ValueError", "For roundups, the intervals have to be power of 2 "),
    ("roundup_power2_divisions:[256:1", "RuntimeError", BEYOND),
    ("roundup_power2_divisions:[>:2,garbage]", "RuntimeError", BEYOND),
    ("roundup_power2_divisions:[256:]", "ValueError", "stoull"),
    (
        "roundup_power2_divisions:[",
        "RuntimeError",
        "Expected closing bracket ']' in ConfigTokenizer but reached end of config",
    ),
    ("large_segment_size_mb:10", "ValueError", "CachingAllocator option large_segment_size_mb must be > 10 MB"),
    ("expandable_segments:true", "ValueError", NO_TRUTH.format("true")),
    ("throw_on_cudamalloc_oom:x", "ValueError", NO_TRUTH.format("x")),
    ("pinned_reserve_segment_size_mb:0", "ValueError", "Pinned reserve segment size has to be greater than 0"),
    ("pinned_num_register_threads:3", "ValueError", "Number of register threads has to be power of 2, got 3"),
    (
        "pinned_num_register_threads:256",
        "ValueError",
        "Number of register threads should be less than or equal to 128, got 256",
    ),
    ("backend:x", "ValueError", "Unknown allocator backend, options are native and cudaMallocAsync"),
    (
        "backend:cudaMallocAsync",
        "RuntimeError",
        "Allocator backend parsed at runtime != allocator backend parsed at load time, cudaMallocAsync != native",
    ),
    ("per_process_memory_fraction:1.5", "ValueError", "per_process_memory_fraction is invalid, set it in [0.0, 1.0]"),
]


def test_texts_are_read_as_in_torch():
    soft_card.run_in(
        os.environ,
        RAISES
        + f"taken, refused = {TAKEN!r}, {REFUSED!r}\n"
        + """
import builtins, warnings
read, last = torch._C._accelerator_setAllocatorSettings, torch._C._accelerator_getAllocatorSettings
for text in taken.replace("\\n|", "|").strip().split("|"):
    read(text)
    assert last() == text
for text, kind, sentence in refused:
    raises(getattr(builtins, kind), sentence, lambda: read(text))
    assert last() == text, "torch keeps the text that it has refused"
raises(TypeError, "_accelerator_setAllocatorSettings(): incompatible function arguments.", lambda: read(None))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    torch.cuda.memory._set_allocator_settings("max_split_size_mb:30")
assert [one.category for one in told] == [FutureWarning]
assert torch._C._cuda_allocator_settings()["max_split_size"] == 30 << 20
# What comes before a mistake counts, and what a text does not name stays.
raises(ValueError, "Unrecognized key 'x'", lambda: read("garbage_collection_threshold:0.25,x:1"))
all = torch.cuda.memory._snapshot()["allocator_settings"]
assert all["garbage_collection_threshold"] == 0.25 and all["max_split_size"] == 30 << 20
assert all["PYTORCH_CUDA_ALLOC_CONF"] == "garbage_collection_threshold:0.25,x:1"
""",
    )


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"])
def test_a_variable_is_read_first(name):
    variables = {key: value for key, value in os.environ.items() if "ALLOC_CONF" not in key}
    program = "assert torch._C._cuda_allocator_settings()['max_split_size'] == 50 << 20"
    soft_card.run_in({**variables, name: "max_split_size_mb:50"}, program)


@needs_card
def test_a_mistake_in_the_variable_is_told_by_the_first_use():
    run(
        RAISES
        + """
assert torch.ones(2).sum() == 2
for _ in range(2):
    raises(ValueError, "Unrecognized key 'garbage' in Accelerator allocator config.", lambda: torch.ones(2, device="cuda"))
    error = raises(ValueError, "Unrecognized key 'garbage'", torch._C._accelerator_getAllocatorSettings)
    assert str(error).endswith("  The environment variable PYTORCH_ALLOC_CONF is 'garbage:1'."), error
""",
        PYTORCH_ALLOC_CONF="garbage:1",
    )


@needs_card
def test_large_blocks_are_not_divided():
    run(
        """
MIB = 1 << 20
def block(mebibytes):
    return torch.empty(mebibytes * MIB, dtype=torch.uint8, device="cuda")
def sizes():
    return sorted(segment["total_size"] // MIB for segment in torch.cuda.memory_snapshot())
stats = torch.cuda.memory_stats
x = block(60)
assert stats()["max_split_size"] == 40 * MIB
assert [stats()[f"oversize_{what}.current"] for what in ("allocations", "segments")] == [1, 1]
del x
# A small request does not divide it, a much smaller one that is large does not take it, and one of nearly its size does.
y = block(30)
assert sizes() == [30, 60]
z = block(41)
assert sizes() == [30, 60] and stats()["oversize_allocations.current"] == 1
assert stats()["inactive_split_bytes.all.current"] == 0
w = block(64)
assert sizes() == [30, 60, 64] and stats()["oversize_segments.peak"] == 2
del z, w
torch.cuda.empty_cache()
assert stats()["oversize_segments.current"] == 0 and stats()["oversize_segments.freed"] == 2
""",
        PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:40,max_non_split_rounding_mb:20",
    )


@needs_card
def test_a_block_that_is_much_too_large_is_left():
    run(
        """
MIB = 1 << 20
x = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
del x
y = torch.empty(41 * MIB, dtype=torch.uint8, device="cuda")
assert sorted(segment["total_size"] // MIB for segment in torch.cuda.memory_snapshot()) == [42, 100]
torch._C._accelerator_setAllocatorSettings("max_non_split_rounding_mb:60")
z = torch.empty(41 * MIB, dtype=torch.uint8, device="cuda")
assert len(torch.cuda.memory_snapshot()) == 2
""",
        PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:40",
    )


@needs_card
def test_undivided_blocks_make_room_before_all_others():
    run(
        """
MIB = 1 << 20
torch.cuda.set_per_process_memory_fraction(0.25)
blocks = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (120, 110, 3)]
del blocks
z = torch.empty(200 * MIB, dtype=torch.uint8, device="cuda")
stats = torch.cuda.memory_stats()
# The medium one is still there.
assert stats["num_alloc_retries"] == 0 and stats["num_device_free"] == 2
assert torch.cuda.memory_reserved() == 220 * MIB
""",
        PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:100",
        SOFTCUDA_MEMORY=1 << 30,
    )


@needs_card
def test_requests_are_rounded_by_divisions_of_powers_of_two():
    run(
        """
MIB = 1 << 20
def size(bytes):
    x = torch.empty(bytes, dtype=torch.uint8, device="cuda")
    return torch.cuda.memory_allocated()
assert [size(n) for n in (100, 2049, 3 * MIB // 2 + 1)] == [512, 2560, 2 * MIB - MIB // 4]
assert [size(n) for n in (5 * MIB, 5 * MIB + 1, 9 * MIB, 8 * MIB)] == [5 * MIB, 6 * MIB, 12 * MIB, 8 * MIB]
""",
        PYTORCH_CUDA_ALLOC_CONF="roundup_power2_divisions:[1:4,2:4,4:4,>:2]",
    )


@needs_card
def test_segments_of_medium_blocks_have_the_size_of_the_setting():
    run(
        """
x = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
assert torch.cuda.memory_reserved() == 64 << 20
""",
        PYTORCH_CUDA_ALLOC_CONF="large_segment_size_mb:64",
    )


@needs_card
def test_old_segments_are_collected_above_a_part_of_the_limit():
    run(
        """
MIB = 1 << 20
def block(mebibytes):
    return torch.empty(mebibytes * MIB, dtype=torch.uint8, device="cuda")
old, young = block(100), block(100)
del old
small = [torch.empty(8, device="cuda") for _ in range(20)]
del young
assert torch.cuda.memory_stats()["num_device_free"] == 0
# More than 200 of the 400 MiB are reserved. The segment that has been free for longer is enough.
more = block(120)
assert torch.cuda.memory_stats()["num_device_free"] == 1
assert sorted(s["total_size"] // MIB for s in torch.cuda.memory_snapshot() if s["segment_type"] == "large") == [100, 120]
""",
        PYTORCH_CUDA_ALLOC_CONF="garbage_collection_threshold:0.5,per_process_memory_fraction:0.390625",
        SOFTCUDA_MEMORY=1 << 30,
    )


@needs_card
def test_a_part_of_the_memory_is_the_limit():
    run(
        RAISES
        + """
assert torch.cuda.get_per_process_memory_fraction() == 0.25
x = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
error = raises(torch.OutOfMemoryError, "CUDA out of memory.", lambda: torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))
assert "256.00 MiB allowed" in str(error)
torch.cuda.set_per_process_memory_fraction(1.0)
y = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
""",
        PYTORCH_ALLOC_CONF="per_process_memory_fraction:0.25",
        SOFTCUDA_MEMORY=1 << 30,
    )


@needs_card
def test_page_locked_memory_has_its_own_settings():
    run(
        """
stats = torch.cuda.host_memory_stats
read = torch._C._accelerator_setAllocatorSettings
read("pinned_max_round_threshold_mb:1")
x = torch.empty(3 << 19, dtype=torch.uint8, pin_memory=True)
assert stats()["active_bytes.current"] == 3 << 19
del x
read("pinned_max_cached_size_mb:1,pinned_use_cuda_host_register:True")
y = torch.arange(1 << 19, dtype=torch.float32).pin_memory()
assert y.is_pinned() and torch.equal(y.to("cuda", non_blocking=True).cpu(), y)
del y
torch.cuda.synchronize()
z = torch.ones(3, pin_memory=True)
# Blocks of more than 1 MiB are not kept; the first one was freed before.
assert stats()["num_host_free"] == 1 and stats()["allocated_bytes.current"] == (3 << 19) + 64
assert torch.equal(z.cuda(non_blocking=True).cpu(), torch.ones(3)) and z.is_pinned()
del z
torch.accelerator.empty_host_cache()
assert stats()["allocated_bytes.current"] == 0
"""
    )


def test_memory_of_a_graph_stays_while_it_is_recorded():
    """Work that was recorded uses it, even if no tensor does and memory is short."""
    run(
        """
MIB = 1 << 20
torch.cuda.memory._set_allocator_settings("max_split_size_mb:20")
out = torch.zeros(4, device="cuda")
torch.cuda.synchronize()
torch.cuda.set_per_process_memory_fraction(100 * MIB / torch.cuda.mem_get_info()[1])
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        x = torch.full((15 * MIB,), 3.0, device="cuda")
        out.copy_(x[:4])
        del x
        torch.full((20 * MIB,), 5.0, device="cuda")
except torch.OutOfMemoryError:
    pass
else:
    raise AssertionError("there is no memory for both")
"""
    )


def test_cached_memory_is_returned_while_work_is_recorded():
    run(
        """
MIB = 1 << 20
torch.cuda.memory._set_allocator_settings("garbage_collection_threshold:0.5")
torch.cuda.set_per_process_memory_fraction(200 * MIB / torch.cuda.mem_get_info()[1])
cached = [torch.zeros(30 * MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
before = torch.cuda.memory_stats()["num_device_free"]
with torch.cuda.graph(graph):
    del cached
    x = torch.full((40 * MIB,), 3, dtype=torch.uint8, device="cuda")
assert torch.cuda.memory_stats()["num_device_free"] > before
graph.replay()
assert x[-1].item() == 3
"""
    )


def test_settings_beyond_all_memory_and_those_that_change():
    run(
        """
import pytest
MIB = 1 << 20
torch.cuda.memory._set_allocator_settings("large_segment_size_mb:17592186044415,per_process_memory_fraction:0.5")
with pytest.raises(torch.OutOfMemoryError):
    torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
torch.cuda.memory._set_allocator_settings("large_segment_size_mb:20,max_split_size_mb:30,per_process_memory_fraction:1.0")
x = torch.empty(40 * MIB, dtype=torch.uint8, device="cuda")
torch.cuda.memory._set_allocator_settings("max_split_size_mb:100")
del x
torch.cuda.empty_cache()
stats = torch.cuda.memory_stats()
assert stats["oversize_allocations.current"] == stats["oversize_segments.current"] == 0
"""
    )
