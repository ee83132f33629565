"""What a profiler records besides times: memory, floating point operations, Python functions."""

import json
import re
import threading

import pytest

import rushlight as torch
from rushlight import profiler
from rushlight.autograd import profiler as old
from rushlight.autograd.profiler_util import EventList, FunctionEvent

F = torch.nn.functional


def named(profiled, name):
    [event] = [event for event in profiled.events() if event.name == name]
    return event


# --- memory -----------------------------------------------------------------------------------------------------------


def test_calls_have_the_memory_that_they_take():
    x = torch.ones(4, 32)
    with profiler.profile(profile_memory=True) as profiled:
        x + 1
        with profiler.record_function("mine"):
            torch.ones(7)
        y = torch.ones(32, 16) @ torch.ones(16, 8)
    add, mine, product = (named(profiled, name) for name in ("aten::add", "mine", "aten::mm"))
    assert (add.cpu_memory_usage, add.self_cpu_memory_usage, add.device_memory_usage) == (512, 512, 0)
    # The ones were given back inside of the range.
    assert (mine.cpu_memory_usage, mine.self_cpu_memory_usage) == (0, -28)
    assert product.cpu_memory_usage == y.numel() * 4
    assert named(profiled, "aten::matmul").cpu_memory_usage == product.cpu_memory_usage
    assert named(profiled, "aten::matmul").self_cpu_memory_usage == 0


def test_memory_outside_of_calls_has_events_of_its_own():
    before = torch.ones(1000)
    with profiler.profile(profile_memory=True) as profiled:
        x, y = torch.ones(100), torch.ones(1 << 16)
        del x, y
        del before  # is not told of: it was taken before
    alone = [event for event in profiled.events() if event.name == "[memory]"]
    assert sorted(event.cpu_memory_usage for event in alone) == [-4 << 16, -400]
    assert all(event.cpu_time_total == 0 for event in alone)
    [entry] = [entry for entry in profiled.key_averages() if entry.key == "[memory]"]
    assert entry.count == 2 and entry.self_cpu_memory_usage == -400 - (4 << 16)
    assert sum(event.self_cpu_memory_usage for event in profiled.events()) == 0


def test_memory_of_a_backward_pass_and_of_threads():
    weight = torch.ones(64, 64, requires_grad=True)

    def work():
        torch.ones(11, 64)

    with old.profile(profile_memory=True) as profiled:
        (torch.ones(8, 64) @ weight).sum().backward()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    events = profiled.function_events
    [node] = [event for event in events if event.name == "MmBackward0"]
    [product] = [event for event in node.cpu_children if event.name == "aten::mm"]
    assert product.cpu_memory_usage == weight.numel() * 4
    # The gradient that arrived, of one element, was given back in the node.
    assert node.self_cpu_memory_usage == -4
    assert 11 * 64 * 4 in [event.self_cpu_memory_usage for event in events if event.name == "aten::ones"]
    assert all(type(event.self_cpu_memory_usage) is int for event in events)


def test_memory_is_recorded_only_where_asked_for():
    with profiler.profile(profile_memory=True) as first:
        torch.ones(50)
    with profiler.profile() as second:
        torch.ones(50)
    assert named(first, "aten::ones").cpu_memory_usage == 200
    assert all(event.cpu_memory_usage == 0 for event in second.events())
    assert "CPU Mem" not in second.key_averages().table()
    # Blocks are used again after it.
    x = torch.ones(3000)
    address = x.data_ptr()
    del x
    assert torch.ones(3000).data_ptr() == address


def test_profiles_of_memory_in_each_other():
    with old.profile(profile_memory=True) as outer:
        torch.ones(10)
        with old.profile(profile_memory=True) as inner:
            torch.ones(20)
        with old.profile() as plain:
            torch.ones(30)
    taken = [
        [event.cpu_memory_usage for event in one.function_events if event.name == "aten::ones"]
        for one in (outer, inner, plain)
    ]
    assert taken == [[40, 80, 120], [80], [0]]


def test_a_table_of_memory():
    with profiler.profile(profile_memory=True) as profiled:
        kept = [torch.ones(size) for size in (300, 4 << 10, 1 << 20)]
        [x.exp_() for x in kept]
    averages = profiled.key_averages()
    lines = averages.table(sort_by="self_cpu_memory_usage").splitlines()
    assert re.split(r"\s{2,}", lines[1].strip())[-3:] == ["CPU Mem", "Self CPU Mem", "# of Calls"]
    assert re.split(r"\s{2,}", lines[3].strip())[0] == "aten::ones"
    assert re.split(r"\s{2,}", lines[3].strip())[-3:] == ["4.02 MB", "4.02 MB", "3"]
    assert averages.table(sort_by="cpu_memory_usage").splitlines()[3].split()[0] == "aten::ones"
    for key in ("cuda_memory_usage", "self_cuda_memory_usage", "device_memory_usage", "self_xpu_memory_usage", "flops"):
        assert averages.table(sort_by=key).count("\n") == len(lines)
    with pytest.raises(AttributeError, match="'FunctionEvent' object has no attribute 'memory'"):
        profiled.events().table(sort_by="memory")


def test_memory_in_a_trace(tmp_path):
    with profiler.profile(profile_memory=True) as profiled:
        x = torch.ones(100)
        del x
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    taken, given = [event for event in events if event["name"] == "[memory]"]
    assert taken["ph"] == "i" and taken["cat"] == "cpu_instant_event" and taken["ts"] <= given["ts"]
    args = taken["args"]
    assert args.pop("Addr") == given["args"].pop("Addr") != 0
    assert args == {"Total Reserved": 0, "Total Allocated": 400, "Bytes": 400, "Device Id": -1, "Device Type": 0}
    assert given["args"]["Bytes"] == -400 and given["args"]["Total Allocated"] == 0


def test_memory_of_the_steps_of_a_schedule():
    taken = []

    def ready(profiled):
        taken.append([event.cpu_memory_usage for event in profiled.events() if event.name == "aten::ones"])

    with pytest.warns(UserWarning, match="warmup"):
        plan = profiler.schedule(wait=1, warmup=0, active=1, repeat=2)
    with profiler.profile(schedule=plan, on_trace_ready=ready, profile_memory=True) as profiled:
        for size in range(1, 6):
            torch.ones(size)
            profiled.step()
    assert taken == [[8], [16]]


# --- floating point operations ------------------------------------------------------------------------------------------


def ones(*sizes):
    return torch.ones(*sizes)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        # torch 2.13 has the same numbers.
        (lambda: ones(3, 4) + ones(4), 12),
        (lambda: ones(4) * ones(3, 4), 4),
        (lambda: 2 * ones(4), 4),
        (lambda: ones(4).add_(1), 0),
        (lambda: ones(4) - 1, 0),
        (lambda: torch.add(ones(4), ones(4), alpha=2), 4),
        (lambda: torch.bmm(ones(2, 3, 4), ones(2, 4, 5)), 240),
        (lambda: torch.baddbmm(ones(2, 3, 5), ones(2, 3, 4), ones(2, 4, 5)), 240),
        (lambda: torch.addmm(ones(3, 5), ones(3, 4), ones(4, 5)), 120),
        (lambda: torch.mm(ones(3, 4), ones(4, 5), out=ones(3, 5)), 120),
        (lambda: ones(2, 3, 4) @ ones(4, 5), 240),
        (lambda: ones(2, 1, 3, 4) @ ones(5, 4, 5), 1200),
        (lambda: ones(3, 4) @ ones(4), 0),
        (lambda: F.linear(ones(2, 3, 4), ones(5, 4), ones(5)), 240),
        (lambda: F.conv2d(ones(2, 4, 10, 12), ones(6, 4, 3, 3)), 69120),
        (lambda: F.conv2d(ones(2, 4, 10, 12), ones(6, 2, 3, 3), groups=2), 34560),
        (lambda: F.conv2d(ones(2, 4, 10, 12), ones(6, 4, 3, 3), stride=2, padding=1, dilation=2), 17280),
        (lambda: F.conv2d(ones(2, 4, 10, 12), ones(6, 4, 3, 3), ones(6), stride=(2, 1), padding=(0, 1)), 41472),
        (lambda: F.conv2d(ones(4, 10, 12), ones(6, 4, 3, 3)), 0),
        (lambda: F.conv1d(ones(2, 4, 10), ones(6, 4, 3)), 0),
    ],
)
def test_operations_are_counted_by_torchs_formulas(call, expected):
    with profiler.profile(with_flops=True) as profiled:
        call()
    assert sum(event.flops for event in profiled.events()) == expected


def test_operations_of_a_backward_pass_and_of_failed_calls():
    x = torch.ones(4, 4, requires_grad=True)
    with old.profile(with_flops=True) as profiled:
        (x @ x).sum().backward()
        with pytest.raises(RuntimeError):
            torch.mm(x, torch.ones(3, 3))
    assert [event.flops for event in profiled.function_events if event.name == "aten::mm"] == [128, 128, 128, 0]


def test_a_table_of_operations():
    with profiler.profile(with_flops=True) as profiled:
        for size in (40, 400):
            torch.ones(size, size) @ torch.ones(size, size)
    lines = profiled.key_averages().table(sort_by="flops").splitlines()
    assert lines[1].split()[-2:] == ["Total", "MFLOPs"] and lines[3].split()[0] == "aten::mm"
    assert lines[3].split()[-1] == "128.128" and lines[4].split()[-1] == "--"
    # As in torch, shapes are recorded too.
    assert "Input Shapes" in profiled.key_averages(group_by_input_shape=True).table()
    with profiler.profile(with_flops=True) as profiled:
        torch.ones(2).exp()
    assert "FLOPs" not in profiled.key_averages().table()


# --- Python functions -----------------------------------------------------------------------------------------------------


def inner(x):
    return x.exp()


def outer(x):
    return inner(inner(x) * 2).sum()


def functions(stack):
    return [line.split("): ")[1] for line in stack]


def test_events_know_the_functions_around_them():
    x = torch.ones(8, requires_grad=True)
    with profiler.profile(with_stack=True) as profiled:
        outer(x).backward()
    for event in profiled.events():
        if event.name in ("aten::exp", "ExpBackward0"):
            assert functions(event.stack)[:3] == ["inner", "outer", "test_events_know_the_functions_around_them"]
        if event.name in ("aten::sum", "SumBackward0", "MulBackward0"):
            assert functions(event.stack)[0] == "outer", event
    # As in torch, it is the line in which the function begins.
    line = inner.__code__.co_firstlineno
    assert named_first(profiled, "aten::exp").stack[0].endswith(f"test_profiler_memory.py({line}): inner")
    # Operations of the backward pass have the stack of the forward call.
    product = next(event for event in profiled.events() if event.name == "aten::mul" and event.cpu_parent.scope == 1)
    assert functions(product.stack)[0] == "inner" and product.cpu_parent.fwd_thread == product.thread


def named_first(profiled, name):
    return next(event for event in profiled.events() if event.name == name)


def test_functions_are_events_with_parents():
    with old.profile(with_stack=True, profile_memory=True) as profiled:
        y = outer(torch.ones(8))
    assert y.dim() == 0
    events = [event for event in profiled.function_events if event.is_python_function]
    calls = [event for event in events if event.name.endswith((": inner", ": outer"))]
    assert functions([event.name for event in calls]) == ["outer", "inner", "inner"]
    assert [event.cpu_parent is calls[0] for event in calls[1:]] == [True, True]
    assert [event.python_parent_id == calls[0].python_id for event in calls[1:]] == [True, True]
    assert calls[0].cpu_time_total >= calls[1].cpu_time_total > 0
    # Three results of 32 bytes were taken in it, and given back before it ended; the sum is left.
    assert calls[0].cpu_memory_usage in (4, -28)
    assert not any("rushlight/autograd/profiler.py" in event.name for event in events)


def test_modules_are_events():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    with profiler.profile(with_stack=True) as profiled:
        model(torch.ones(1, 4))
        model(torch.ones(1, 4))
    names = [event.name for event in profiled.events() if event.name.startswith("nn.Module: ")]
    one = ["nn.Module: Sequential_0", "nn.Module: Linear_0", "nn.Module: ReLU_0", "nn.Module: Linear_1"]
    assert names == one * 2
    last = [event for event in profiled.events() if event.name == "aten::linear"][-1]
    assert [line for line in last.stack if line.startswith("nn.Module")] == [
        "nn.Module: Linear_1",
        "nn.Module: Sequential_0",
    ]
    with profiler.profile(with_modules=True) as plain:
        model(torch.ones(1, 4))
    assert not any(event.is_python_function or event.stack for event in plain.events())


def test_functions_of_threads_and_of_generators():
    def steps():
        for size in (2, 3):
            yield torch.ones(size)

    def work():
        list(steps())

    with profiler.profile(with_stack=True) as profiled:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    created = [event for event in profiled.events() if event.name == "aten::ones"]
    assert [functions(event.stack)[:2] for event in created] == [["steps", "work"]] * 2


def test_a_function_that_raises_ends():
    def fails():
        raise ValueError

    with profiler.profile(with_stack=True) as profiled:
        with pytest.raises(ValueError):
            fails()
        torch.ones(1)
    assert functions(named(profiled, "aten::ones").stack)[0] == "test_a_function_that_raises_ends"


def test_another_profile_function_is_kept():
    import sys

    seen = []

    def watch(frame, kind, argument):
        seen.append(kind)

    sys.setprofile(watch)
    try:
        with profiler.profile(with_stack=True):
            inner(torch.ones(1))
        assert sys.getprofile() is watch
    finally:
        sys.setprofile(None)


def test_groups_and_tables_by_source_location():
    def again(x):
        return x.exp()

    with profiler.profile(with_stack=True) as profiled:
        for _ in range(2):
            inner(torch.ones(2))
            again(torch.ones(2))
    counts = {
        n: [entry.count for entry in profiled.key_averages(group_by_stack_n=n) if entry.key == "aten::exp"]
        for n in (0, 1, 5)
    }
    assert counts == {0: [4], 1: [2, 2], 5: [2, 2]}
    table = profiled.key_averages(group_by_stack_n=2).table(row_limit=3)
    assert "Source Location" in table and "Source Location" not in profiled.key_averages().table()


def made(stack, **more):
    event = FunctionEvent(0, "aten::add", 1, 0.0, 10.0, [])
    event.stack = stack
    for name, value in more.items():
        setattr(event, name, value)
    return event


def test_the_text_of_a_table_with_stacks():
    """The same text as torch's, for events that are made by hand."""
    stack = ["a.py(3): inner", "a/long/path/b.py(5): outer"]
    events = EventList([made(stack), made([])], profile_memory=True)
    lines = events.table(max_src_column_width=20).splitlines()
    column = lines[1].index("Source Location")
    assert [line[column:] for line in lines[1:-2]] == [
        text.ljust(20) + "  "
        for text in ("Source Location", "-" * 20, "a.py(3): inner", "...th/b.py(5): outer", "", "", "")
    ]
    assert len({len(line) for line in lines[:-1]}) == 1
    averages = events.key_averages(group_by_stack_n=1)
    assert [(entry.stack, entry.count) for entry in averages] == [(stack[:1], 1), ([], 1)]


def test_stacks_as_a_file(tmp_path):
    events = EventList([made(["a.py(3): inner", "a.py(5): outer"]), made([])])
    events.export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    assert (tmp_path / "stacks").read_text() == "a.py(5):_outer;a.py(3):_inner 10\n"
    with pytest.raises(ValueError, match=re.escape("metric should be one of: ['self_cpu_time_total', 'self_cuda")):
        events.export_stacks(str(tmp_path / "stacks"), "count")
    with old.profile() as plain:
        torch.ones(1)
    with pytest.raises(AssertionError, match=r"export_stacks\(\) requires with_stack=True"):
        plain.export_stacks(str(tmp_path / "stacks"))


def test_functions_in_a_trace(tmp_path):
    handler = profiler.tensorboard_trace_handler(str(tmp_path), worker_name="worker")
    with profiler.profile(with_stack=True, on_trace_ready=handler):
        torch.nn.ReLU()(outer(torch.ones(2)))
    [file] = tmp_path.iterdir()
    events = [event for event in json.loads(file.read_text())["traceEvents"] if event.get("cat") == "python_function"]
    by_id = {event["args"]["Python id"]: event for event in events}
    call = next(event for event in events if event["name"].endswith(": inner"))
    around = by_id[call["args"]["Python parent id"]]
    assert around["name"].endswith(": outer")
    assert around["ts"] <= call["ts"] and call["ts"] + call["dur"] <= around["ts"] + around["dur"] + 1e-3
    assert [event["args"]["Python module id"] for event in events if event["name"] == "nn.Module: ReLU_0"] == [0]
