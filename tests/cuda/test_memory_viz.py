"""`torch.cuda._memory_viz`: texts and pictures of snapshots, as functions and as a program."""

import pickle
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest
from card import needs_card, run

import rushlight as torch
from rushlight.cuda import _memory_viz as viz

MIB = 1 << 20
STEP = {"filename": "/a/train.py", "line": 3, "name": "step"}
HIDDEN = {"filename": "/a/Objects/call.c", "line": 1, "name": "PyObject_Call"}
MAIN = {"filename": "/a/main.py", "line": 9, "name": "<module>"}


def block(size, asked, state="active_allocated", frames=()):
    return {"size": size, "requested_size": asked, "state": state, "frames": list(frames)}


def action(name, address, size, **more):
    return {"action": name, "addr": address, "size": size, "stream": 0, "frames": [], **more}


SEGMENTS = [
    {
        "address": 1000,
        "total_size": 2 * MIB,
        "allocated_size": 1024,
        "stream": 0,
        "blocks": [block(1024, 1000, frames=(STEP, HIDDEN, MAIN)), block(2 * MIB - 1024, 0, "inactive")],
    },
    {
        "address": 1 << 30,
        "total_size": 100 * MIB,
        "allocated_size": 35 * MIB,
        "stream": 7,
        "blocks": [
            block(30 * MIB, 29 * MIB, frames=(STEP,)),
            block(20 * MIB, 20 * MIB, "inactive"),
            block(2 * MIB, 2 * MIB),
            block(3 * MIB, 3 * MIB, frames=(MAIN,)),
            block(45 * MIB, 45 * MIB, "active_pending_free"),
        ],
    },
]
TRACE = [
    action("segment_alloc", 1000, 2 * MIB),
    action("alloc", 1000, 1024),
    action("alloc", 2024, 2048),
    action("free_requested", 2024, 2048),
    action("free_completed", 2024, 2048),
    {"action": "oom", "device_free": 5, "size": 2048, "stream": 0, "frames": []},
    action("free_requested", 99, 3),
    action("segment_free", 1000, 2 * MIB),
    action("alloc", (1 << 30) + 5, 512),
]


@pytest.fixture
def snapshot():
    return {"segments": SEGMENTS, "device_traces": [list(TRACE), []]}


def as_is(lines):
    return lines


def test_segments_are_summed(snapshot):
    told = viz.segsum(snapshot).splitlines()
    assert told[:6] == [
        "Summary of segments >= 20.0MiB in size",
        "[aa2  ] 100.0MiB allocated, 66.0MiB (1.5% internal) free stream_7",
        "segments: 2",
        "total_reserved: 102.0MiB",
        "total_allocated: 34.0MiB",
        "total_free: 68.0MiB (1.5% internal)",
    ]
    broken = {"segments": [{**SEGMENTS[0], "total_size": 5}]}
    with pytest.raises(AssertionError, match="Segment size mismatch: 2096128 \\+ 24 \\+ 1000 != 5"):
        viz.segsum(broken)


def test_a_trace_reads_like_a_program(snapshot):
    assert viz.trace(snapshot).splitlines() == [
        "Device 0 ----------------",
        "9 entries",
        "a = cudaMalloc(1000, 2.0MiB)",
        "b = a[0:1.0KiB]",
        "c = a[1024:2.0KiB]",
        "del c # 2.0KiB",
        "# free completed for c 2.0KiB",
        "raise OutOfMemoryError # 2.0KiB requested, 5.0B free in CUDA",
        "del 99 # 3.0B",
        "cudaFree(a) # 2.0MiB",
        "d = seg_1[5:512.0B]",
        "TOTAL MEM: 1.5KiB",
    ]
    left = viz.filter_alloc_free_pairs(snapshot)["device_traces"][0]
    assert left == [entry for entry in TRACE if entry.get("addr") != 2024]


def test_lines_of_pictures(snapshot, capsys):
    stack = "main.py:9:<module>;train.py:3:step"
    first = ["stream_0;seg_1000;active_allocated;" + stack + " 1000", "stream_0;seg_1000;active_allocated;<gaps> 24"]
    assert viz.segments(snapshot, as_is).splitlines()[:2] == first
    assert viz.memory(snapshot, as_is).splitlines()[0] == f"stream_0;active_allocated;{stack} 1000"
    assert f"stream_7;active_allocated;<non-python> {2 * MIB}" in viz.memory(snapshot, as_is).splitlines()
    told = viz.compare(SEGMENTS[:1], SEGMENTS, as_is)
    assert all(line.startswith(f"only_after;stream_7;seg_{1 << 30};") for line in told.splitlines())
    assert capsys.readouterr().out == f"only_before = []\nonly_after = [{1 << 30}]\n"


def test_boxes_are_as_wide_as_their_bytes(tmp_path):
    picture = viz.format_flamegraph("a;b<c> 300\na;d 100\na 100\ne 500\n")
    boxes = {}
    for box in xml.fromstring(picture):
        title, rectangle, _ = box
        boxes[title.text] = (float(rectangle.get("x")), float(rectangle.get("width")), float(rectangle.get("y")))
    assert boxes == {
        "all (1,000 bytes, 100.00%)": (0, 1200, 34),
        "a (500 bytes, 50.00%)": (0, 600, 17),
        "b<c> (300 bytes, 30.00%)": (0, 360, 0),
        "d (100 bytes, 10.00%)": (360, 120, 0),
        "e (500 bytes, 50.00%)": (600, 600, 17),
    }
    script = tmp_path / "flame"
    script.write_text('#!/bin/sh\necho "$@"\ncat\n')
    script.chmod(0o755)
    assert viz.format_flamegraph("a 1\n", str(script)) == "--countname bytes\na 1\n"
    script.write_text("#!/bin/sh\ncat > /dev/null\nexit 3\n")
    with pytest.raises(AssertionError, match="flamegraph process exited with code 3"):
        viz.format_flamegraph("a 1\n", str(script))


def test_pages_contain_the_snapshot(snapshot):
    page = viz.trace_plot(snapshot)
    assert '"Active Memory Timeline"' in page and '"name": "snapshot.pickle"' in page
    assert '"Active Cached Memory Timeline"' in viz.trace_plot(snapshot, plot_segments=True, filter_freed=True)
    with pytest.warns(FutureWarning, match="device argument is deprecated"):
        assert '"Allocator State History"' in viz.segment_plot(snapshot, device=0)


def shown(page):
    """The snapshot in a page."""
    import base64
    import re

    return pickle.loads(base64.b64decode(re.search(r'"base64": "([^"]*)"', page)[1]))


def test_memory_in_a_profile():
    from rushlight.profiler import ProfilerActivity, profile

    before = torch.ones(3000)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        kept = before * 2
        gone = kept + 1
        del gone
    page = viz.profile_plot(watched)
    assert '"Active Memory Timeline"' in page
    data = shown(page)
    *cards, host = data["device_traces"]
    assert not any(cards)
    actions = [(row["action"], row["size"], row["addr"]) for row in host if row["size"] == 12000]
    address = kept.data_ptr()
    assert actions[0] == ("alloc", 12000, address)
    assert [action for action, _, at in actions if at != address] == ["alloc", "free_requested", "free_completed"]
    assert host[0]["frames"][0]["name"] and host[0]["category"] == "unknown"
    (segment,) = data["segments"]
    blocks = segment["blocks"]
    assert sum(block["size"] for block in blocks) == segment["total_size"] and segment["device"] == len(cards)
    assert [block["size"] for block in blocks if block["state"] == "active_allocated"].count(12000) == 1
    with pytest.warns(FutureWarning, match="device argument is deprecated"):
        viz.profile_plot(watched, device=0)
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        torch.ones(3)
    with pytest.raises(ValueError, match="profile_memory=True required for memory profiling."):
        viz.profile_plot(watched)


def test_the_program(snapshot, tmp_path):
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(snapshot))

    def call(*arguments):
        command = [sys.executable, "-m", "rushlight.cuda._memory_viz", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)

    assert call("stats", file).stdout == viz.segsum(snapshot) + "\n"
    assert call("trace", file).stdout == viz.trace(snapshot) + "\n"
    for command in ("segments", "memory"):
        assert call(command, file).returncode == 0
        assert (tmp_path / "output.svg").read_text().startswith("<svg")
    assert call("compare", file, file, "-o", "both.svg").stdout == "only_before = []\nonly_after = []\n"
    for command in (("trace_plot", "-s", "-f"), ("segment_plot",)):
        assert call(*command, file).returncode == 0
    assert "MemoryViz.js" in (tmp_path / "output.html").read_text()
    assert call("draw", file).returncode == 2 and call().returncode == 2
    assert call("stats", tmp_path / "none").stderr.splitlines()[-1].startswith("FileNotFoundError")


@needs_card
def test_snapshots_of_a_device(tmp_path):
    run(
        f"folder = {str(tmp_path)!r}\n"
        + """
memory, viz = torch.cuda.memory, torch.cuda._memory_viz
memory._record_memory_history()
def step():
    return torch.ones(3000, device="cuda")
x = step()
step()
assert "total_allocated: 11.7KiB" in viz.segsum(memory._snapshot())
told = viz.trace(memory._snapshot())
assert "b = a[0:12.0KiB]" in told and "del c # 12.0KiB" in told, told
memory._save_memory_usage(folder + "/memory.svg")
memory._save_segment_usage(folder + "/segments.svg")
assert ":step (12,000 bytes" in open(folder + "/memory.svg").read()
assert "seg_" in open(folder + "/segments.svg").read()
"""
    )
