"""The profiler: events, threads and nesting; tables, traces and schedules."""

import gzip
import json
import multiprocessing
import re
import threading
import types
import warnings

import pytest

import rushlight as torch
from rushlight import profiler
from rushlight.autograd import profiler as old


def names(events):
    return [event.name for event in events]


def test_what_ran_and_what_it_was_called_by():
    with profiler.profile() as profiled:
        with profiler.record_function("mine"):
            y = torch.ones(2, 3) @ torch.ones(3)
        y.add_(1)
    events = {event.name: event for event in profiled.events()}
    assert {"mine", "aten::matmul", "aten::mv", "aten::add_"} <= events.keys()
    assert events["aten::mv"].cpu_parent is events["aten::matmul"]
    assert events["aten::matmul"].cpu_parent is events["mine"]
    assert events["aten::add_"].cpu_parent is None and events["mine"].is_user_annotation
    around, within = events["mine"].time_range, events["aten::matmul"].time_range
    assert around.start <= within.start <= within.end <= around.end
    assert 0 <= events["mine"].self_cpu_time_total <= events["mine"].cpu_time_total


def test_short_calls_and_calls_before_and_after():
    x = torch.ones(2)
    x + 1
    with old.profile() as profiled:
        x + x
        x * 2
    x - 1
    assert names(profiled.function_events) == ["aten::add", "aten::mul"]
    assert torch.equal(x + x, torch.full((2,), 2.0))


def test_a_backward_pass():
    x = torch.ones(2, requires_grad=True)
    with profiler.profile() as profiled:
        (x * x).sum().backward()
    events = profiled.events()
    assert {"MulBackward0", "SumBackward0"} <= set(names(events))
    node = next(event for event in events if event.name == "MulBackward0")
    assert "aten::mul" in names(node.cpu_children)


def test_threads_have_numbers_of_their_own():
    def work():
        with profiler.record_function("work"):
            torch.ones(2) + 1

    with profiler.profile() as profiled:
        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        work()
    parts = [event for event in profiled.events() if event.name == "work"]
    assert len({part.thread for part in parts}) == 4
    assert all("aten::add" in names(part.cpu_children) for part in parts)
    assert all(child.thread == part.thread for part in parts for child in part.cpu_children)


def test_averages_and_totals():
    with old.profile(record_shapes=True) as profiled:
        for size in (2, 2, 3):
            torch.ones(size).exp()
    entry = next(entry for entry in profiled.key_averages() if entry.key == "aten::exp")
    assert entry.count == 3 and entry.cpu_time == pytest.approx(entry.cpu_time_total / 3)
    grouped = profiled.key_averages(group_by_input_shape=True)
    assert sorted((e.count, e.input_shapes) for e in grouped if e.key == "aten::exp") == [(1, [[3]]), (2, [[2]])]
    total = sum(entry.self_cpu_time_total for entry in profiled.key_averages())
    assert profiled.self_cpu_time_total == pytest.approx(total)
    assert profiled.total_average().count == len(profiled.function_events)
    assert profiled.key_averages().total_average().count == len(profiled.function_events)


def test_shapes_only_where_asked_for():
    with profiler.profile(record_shapes=True) as with_shapes:
        torch.ones(2, 3) @ torch.ones(3)
    with profiler.profile() as without:
        torch.ones(2, 3) @ torch.ones(3)
    product = next(event for event in with_shapes.events() if event.name == "aten::matmul")
    assert product.input_shapes == [[2, 3], [3]]
    assert all(event.input_shapes == [] for event in without.events())


def test_a_table():
    with profiler.profile() as profiled:
        for _ in range(3):
            torch.ones(2).exp()
    table = profiled.key_averages().table(sort_by="count", row_limit=1, header="calls")
    lines = table.splitlines()
    assert lines[1] == "calls" and len({len(line) for line in lines[2:6]}) == 1
    assert [column.strip() for column in lines[3].split("  ") if column.strip()] == [
        "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls",
    ]  # fmt: skip
    assert lines[5].split()[-1] == "3" and lines[7].startswith("Self CPU time total: ")
    assert re.fullmatch(r"\d+\.\d{3}ms", profiled.key_averages().table(time_unit="ms").splitlines()[3].split()[2])
    with pytest.raises(AttributeError, match="'FunctionEventAvg' object has no attribute 'foo'"):
        profiled.key_averages().table(sort_by="foo")
    with profiler.profile() as empty:
        pass
    assert empty.key_averages().table() == ""
    above = profiled.events().table(top_level_events_only=True).splitlines()[:2]
    assert above == ["=" * (len(lines[2]) - 2), "This report only display top-level ops statistics"]


def test_a_trace(tmp_path):
    with profiler.profile(record_shapes=True) as profiled:
        with profiler.record_function('a "name"'):
            torch.ones(2).exp()
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    calls = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {"name", "ts", "dur", "pid", "tid", "cat"} <= calls[0].keys()
    assert {(call["name"], call["cat"]) for call in calls} >= {('a "name"', "user_annotation"), ("aten::exp", "cpu_op")}
    profiled.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes())) == trace


def test_steps_of_a_schedule():
    ready = []

    def take(profiled):
        ready.append((profiled.step_num, {entry.key: entry.count for entry in profiled.key_averages()}))

    plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    with profiler.profile(schedule=plan, on_trace_ready=take) as profiled:
        for _ in range(6):
            torch.ones(2).exp()
            profiled.step()
    [(step, counts)] = ready
    assert step == 4 and counts["aten::exp"] == 2 and counts["ProfilerStep*"] == 2


def test_schedules():
    plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    assert [plan(step).name for step in range(7)] == [
        "NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE",
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments. Got wait=0"):
        profiler.schedule(wait=0, warmup=0, active=0)


def test_the_sizes_that_one_profiler_asks_for_end_with_it():
    with profiler.profile(record_shapes=True) as outer:
        with profiler.profile():
            torch.ones(2) + 1
        torch.ones(3) + 1
    added = [event.input_shapes for event in outer.events() if event.name == "aten::add"]
    assert [shapes[0] for shapes in added] == [[2], [3]]
    with profiler.profile() as outer:
        with profiler.profile(record_shapes=True):
            torch.ones(2) + 1
        torch.ones(3) + 1
    last = [event for event in outer.events() if event.name == "aten::add"][-1]
    assert not last.input_shapes


def test_profilers_in_each_other():
    with old.profile() as outer:
        torch.ones(2).exp()
        with old.profile() as inner:
            torch.ones(2).sin()
        torch.ones(2).cos()
    found = set(names(outer.function_events))
    assert {"aten::exp", "aten::sin", "aten::cos"} <= found
    assert "aten::sin" in names(inner.function_events) and "aten::exp" not in names(inner.function_events)


def test_what_is_refused():
    with pytest.raises(AssertionError, match="^Profiler must be initialized before stopping trace"):
        profiler.profile().stop()
    for name, args, kind in (
        (5, None, "'str' for argument 'name' but instead found type 'int'"),
        (None, None, "'str' for argument 'name' but instead found type 'NoneType'"),
        ("a", 5, "'Optional[str]' for argument 'args' but instead found type 'int'"),
    ):
        with pytest.raises(
            RuntimeError, match=re.escape(f"_record_function_enter_new() Expected a value of type {kind}")
        ):
            profiler.record_function(name, args).__enter__()
    with pytest.raises(AssertionError, match="Profiler must be initialized before getting key averages"):
        profiler.profile().key_averages()
    with pytest.raises(AssertionError, match="Profiler must be initialized before exporting stacks"):
        profiler.profile().export_stacks("stacks")
    with old.profile() as profiled:
        pass
    with pytest.raises(RuntimeError, match="Profiler context manager is not reentrant"):
        profiled.__enter__()
    with old.profile(enabled=False) as off:
        torch.ones(2).exp()
    assert off.function_events is None


def test_an_error_is_recorded_and_passed_on():
    with old.profile() as profiled, pytest.raises(RuntimeError):
        torch.ones(2) @ torch.ones(3)
    assert "aten::matmul" in names(profiled.function_events)


def test_a_decorator():
    @profiler.record_function("decorated")
    def double(x, times=2):
        return x * times

    with profiler.profile() as profiled:
        assert double(torch.ones(1), times=3).item() == 3
        double(torch.ones(1))
    assert names(profiled.events()).count("decorated") == 2 and double.__name__ == "double"


def _in_child(answers):
    torch.ones(2).exp()
    with old.profile() as profiled:
        torch.ones(2).sin()
    answers.put(names(profiled.function_events))


def test_a_forked_child_is_not_profiled():
    context = multiprocessing.get_context("fork")
    with old.profile() as profiled:
        torch.ones(2).cos()
        answers = context.SimpleQueue()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork while there are threads
            child = context.Process(target=_in_child, args=(answers,))
            child.start()
        found = answers.get()
        child.join()
    assert "aten::sin" in found and "aten::exp" not in found and "aten::cos" not in found
    assert "aten::cos" in names(profiled.function_events) and "aten::sin" not in names(profiled.function_events)


def test_traces_of_tensorboard(tmp_path):
    handler = profiler.tensorboard_trace_handler(str(tmp_path), worker_name="worker")
    with profiler.profile(on_trace_ready=handler):
        torch.ones(2).exp()
    [file] = tmp_path.iterdir()
    assert file.name.startswith("worker.") and file.name.endswith(".pt.trace.json")
    assert json.loads(file.read_text())["traceEvents"]


def test_work_of_gpus_alone_needs_a_gpu():
    with pytest.raises(AssertionError, match="only with Kineto"):
        torch.autograd.profiler.profile(use_cpu=False)
    if not torch.cuda.is_available():
        with pytest.raises(AssertionError, match="No activities specified for the profiler"), pytest.warns(UserWarning):
            torch.autograd.profiler.profile(use_cpu=False, use_kineto=True, use_cuda=True)


@pytest.mark.parametrize("activities", [[], [3]])
def test_activities_that_are_none(activities):
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        torch.profiler.profile(activities=activities)


def test_names_of_devices_are_accepted():
    with profiler.profile() as profiled:
        torch.ones(2) + 1
    averages = profiled.key_averages()
    for key in ("self_cuda_time_total", "device_time_total", "cuda_time", "xpu_time"):
        assert averages.table(sort_by=key) == averages.table()
    assert averages[0].self_cpu_memory_usage == profiled.events()[0].device_time == 0


def test_a_call_that_the_engine_passes_on_is_one_event():
    with profiler.profile() as profiled:
        torch.mm(torch.ones(3, 4), torch.ones(4, 5), out=torch.ones(3, 5))
    assert names(profiled.events()).count("aten::mm") == 1


def test_profilers_of_vendors_are_refused():
    from rushlight.autograd import profiler

    for emit, message in ((profiler.emit_nvtx, "NVIDIA|CUDA"), (profiler.emit_itt, "ITT functions not installed")):
        with emit(enabled=False) as emitted:
            assert emitted is None
        with pytest.raises((RuntimeError, AssertionError), match=message), emit():
            pytest.fail("entered")


def test_steps_and_keys_of_a_profiler():
    unique = old.EnforceUnique()
    unique.see(1, 2)
    with pytest.raises(RuntimeError, match=r"duplicate key: \(1, 2\)"):
        unique.see(1, 2)
    tracker = old.KinetoStepTracker
    start = tracker.current_step()
    assert [tracker.increment_step("a"), tracker.increment_step("b"), tracker.increment_step("b")] == [
        start + 1,
        start + 2,
        start + 3,
    ]
    assert tracker.current_step() == start + 3 and tracker.erase_step_count("a") and not tracker.erase_step_count("a")
    records = [(types.SimpleNamespace(start_ns=lambda at=at: at), at) for at in (30, 10, 20)]
    assert [at for _, at in old.MemRecordsAcc(records).in_interval(10, 20)] == [10, 20]
