"""The profiler and events of other processes on the card made of software."""

import pytest
from card import needs_card, run, run_file

pytestmark = needs_card


@pytest.mark.parametrize("seed", [0, 3])
def test_the_profiler_tells_of_kernels_and_copies(seed):
    run(
        """
        import json, os, tempfile
        from rushlight.profiler import DeviceType, ProfilerActivity, profile, record_function

        x = torch.randn(64, 64, device="cuda")
        side = torch.cuda.Stream()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            with record_function("products"):
                y = x @ x
            z = y.exp()
            with torch.cuda.stream(side):
                side.wait_stream(torch.cuda.default_stream())
                w = z + 1
            torch.cuda.current_stream().wait_stream(side)
            w.cpu()
        events = profiled.events()
        work = [event for event in events if event.device_type == DeviceType.CUDA]
        names = [event.name for event in work]
        assert {"cublasLtMatmul", "exp", "add", "Memcpy DtoH"} <= set(names), names
        assert all(event.time_range.elapsed_us() >= 0 and event.cpu_time_total == 0 for event in work)
        [add] = [event for event in work if event.name == "add"]
        assert add.device_index == 0 and add.device_resource_id == side.cuda_stream != 0
        # Work runs after the call that enqueued it began, and each call has its own.
        calls = {event.name: event for event in events if event.device_type == DeviceType.CPU}
        for call, kernel in (("aten::exp", "exp"), ("aten::add", "add"), ("aten::mm", "cublasLtMatmul")):
            assert [one.name for one in calls[call].kernels] == [kernel], (call, calls[call].kernels)
            [run] = [event for event in work if event.name == kernel]
            assert run.time_range.start >= calls[call].time_range.start - 50, (call, run.time_range.start)
            assert calls[call].device_time_total == run.time_range.elapsed_us()
        assert calls["products"].device_time_total == calls["aten::mm"].device_time_total
        averages = {(entry.key, entry.device_type): entry for entry in profiled.key_averages()}
        assert averages["exp", DeviceType.CUDA].count == 1 and averages["exp", DeviceType.CUDA].self_device_time_total > 0
        table = profiled.key_averages().table(sort_by="self_cuda_time_total", row_limit=5)
        assert "Self CUDA" in table and "Self CUDA time total:" in table, table
        path = os.path.join(tempfile.mkdtemp(), "trace.json")
        profiled.export_chrome_trace(path)
        told = json.load(open(path))["traceEvents"]
        kernels = [one for one in told if one.get("cat") == "kernel"]
        assert {one["name"] for one in kernels} >= {"cublasLtMatmul", "exp", "add"}
        assert {one["args"]["stream"] for one in kernels} == {0, side.cuda_stream}
        """,
        SOFTCUDA_SEED=seed,
    )


def test_without_the_activity_no_work_is_recorded():
    run(
        """
        from rushlight.profiler import DeviceType, ProfilerActivity, profile
        x = torch.ones(3, device="cuda")
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            x + 1
        assert profiled.events() and all(event.device_type == DeviceType.CPU for event in profiled.events())
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            x + 1
        assert [(event.name, event.device_type) for event in profiled.events()] == [("add", DeviceType.CUDA)]
        with torch.autograd.profiler.profile(use_device="cuda") as profiled:
            x + 1
        assert [event.name for event in profiled.function_events if event.device_type == DeviceType.CUDA] == ["add"]
        # Captured work has no times; a run of a graph is one piece of work.
        graph = torch.cuda.CUDAGraph()
        with profile() as profiled:
            with torch.cuda.graph(graph):
                x.add_(1)
            graph.replay()
        assert [event.name for event in profiled.events() if event.device_type == DeviceType.CUDA].count("graph") == 1
        assert x.tolist() == [2.0, 2.0, 2.0]
        """
    )


def test_memory_of_a_card():
    run(
        """
        import json, os, tempfile
        from rushlight.profiler import profile

        x = torch.ones(1000, device="cuda")
        with profile(profile_memory=True) as profiled:
            y = x + 1
            z = y.exp()
            del y
            w = z.cpu()
        calls = {event.name: event for event in profiled.events()}
        # Blocks are multiples of 512 bytes.
        assert calls["aten::add"].device_memory_usage == calls["aten::exp"].self_device_memory_usage == 4096
        assert calls["aten::add"].cpu_memory_usage == 0
        [freed] = [event for event in profiled.events() if event.name == "[memory]"]
        assert freed.device_memory_usage == -4096 and freed.cpu_memory_usage == 0
        table = profiled.key_averages().table(sort_by="self_cuda_memory_usage", row_limit=2)
        heading = table.splitlines()[1]
        for name in ("CPU Mem", "Self CPU Mem", "CUDA Mem", "Self CUDA Mem"):
            assert name in heading, heading
        assert {line.split()[0] for line in table.splitlines()[3:5]} == {"aten::add", "aten::exp"}, table
        path = os.path.join(tempfile.mkdtemp(), "trace.json")
        profiled.export_chrome_trace(path)
        changes = [one["args"] for one in json.load(open(path))["traceEvents"] if one["name"] == "[memory]"]
        on_card = [one for one in changes if one["Device Type"] == 1]
        assert [one["Bytes"] for one in on_card] == [4096, 4096, -4096] and on_card[0]["Device Id"] == 0
        assert on_card[0]["Total Reserved"] >= on_card[0]["Total Allocated"] >= 4096
        assert 4000 in [one["Bytes"] for one in changes if one["Device Type"] == 0]
        """
    )


def test_events_of_other_processes(tmp_path):
    run_file(
        tmp_path / "events.py",
        """
import rushlight as torch
import rushlight.multiprocessing as mp

def other(received, answers, x):
    event = received.get()
    assert event.device == torch.device("cuda", 0)
    event.wait()
    answers.put((x + 1).sum().item())
    event.synchronize()
    assert event.query()
    own = torch.cuda.Event(interprocess=True)
    x.mul_(3)
    own.record()
    answers.put(own)
    received.get()

if __name__ == "__main__":
    context = mp.get_context("spawn")
    received, answers = context.Queue(), context.Queue()
    x = torch.zeros(4, device="cuda")
    event = torch.cuda.Event(interprocess=True)
    x.add_(1)
    event.record()
    assert len(event.ipc_handle()) == 64
    child = context.Process(target=other, args=(received, answers, x))
    child.start()
    received.put(event)
    assert answers.get(timeout=60) == 8.0
    theirs = answers.get(timeout=60)
    theirs.wait()
    assert x.tolist() == [3.0] * 4
    received.put(None)
    child.join(60)
    assert child.exitcode == 0
    unshared, timed = torch.cuda.Event(), torch.cuda.Event(enable_timing=True, interprocess=True)
    for sentence, wrong in (("invalid resource handle", unshared.ipc_handle), ("invalid argument", timed.record)):
        try:
            wrong()
        except torch.AcceleratorError as error:
            assert str(error).startswith("CUDA error: " + sentence), error
        else:
            raise AssertionError("accepted")
    copy = torch.cuda.Event.from_ipc_handle
    try:
        copy(0, event.ipc_handle())
    except torch.AcceleratorError:
        pass
    else:
        raise AssertionError("a process opened its own event")
""",
    )
