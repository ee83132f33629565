"""Events and metrics of torchrun. The lines are those of torch."""

import json
import logging
import subprocess
import sys

import pytest

from rushlight.distributed.elastic import events, metrics


class _Seen(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append((record.name, record.levelname, record.getMessage()))


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(events, "_events_loggers", {})
    made = _Seen()
    names = ["torchelastic-events-null", "torchelastic-events-dynamic_rendezvous"]
    for name in names:
        logging.getLogger(name).addHandler(made)
    yield made
    for name in names:
        logging.getLogger(name).removeHandler(made)


def test_events(seen):
    event = events.Event("a", events.EventSource.AGENT, 5, {"x": 1, "y": None})
    line = '{"name": "a", "source": "AGENT", "timestamp": 5, "metadata": {"x": 1, "y": null}}'
    assert str(event) == event.serialize() == line
    assert events.Event.deserialize(line) == event and events.Event.deserialize(event) is event
    events.record(event)
    assert seen.lines == [("torchelastic-events-null", "INFO", line)]
    assert not logging.getLogger("torchelastic-events-null").propagate
    for data in ('{"name": "a"}', '{"name": "a", "source": "X"}'):
        with pytest.raises(KeyError):
            events.Event.deserialize(data)
    with pytest.raises(KeyError, match="zz"):
        events.record(event, "zz")


def test_events_of_a_rendezvous(seen, monkeypatch):
    events.construct_and_record_rdzv_event("id", "dropped", events.NodeState.INIT)
    monkeypatch.setitem(events.handlers._log_handlers, "dynamic_rendezvous", logging.StreamHandler(sys.stdout))
    events.construct_and_record_rdzv_event("id", "begun", events.NodeState.RUNNING, hostname="here", pid=4, rank=0)
    try:
        raise ValueError("cut off")
    except ValueError:
        events.construct_and_record_rdzv_event("id", "lost", events.NodeState.FAILED, name="join")
    first, second = (events.RdzvEvent.deserialize(line) for _, _, line in seen.lines)
    assert first == events.RdzvEvent(
        "test_events.py:test_events_of_a_rendezvous", "id", "begun", "here", 4, events.NodeState.RUNNING, rank=0
    )
    assert second.name == "test_events.py:join" and second.error_trace.endswith("ValueError: cut off\n")


class _Kept(metrics.MetricHandler):
    def __init__(self):
        self.data = []

    def emit(self, metric_data):
        self.data.append(metric_data[1:])


class _Work:
    @metrics.prof
    def well(self):
        """Returns a number."""
        return 7

    @metrics.prof(group="other")
    def badly(self):
        raise ValueError("no")


@pytest.fixture
def kept():
    made = _Kept()
    metrics.configure(made)
    yield made
    metrics.configure(metrics.NullMetricHandler())


def test_metrics(kept, capsys):
    own = _Kept()
    metrics.configure(own, "test_metrics")
    metrics.put_metric("a", 2.5)
    metrics.put_metric("a", 1, "test_metrics")
    assert kept.data == [("torchelastic", "a", 2.5)] and own.data == [("test_metrics", "a", 1)]
    metrics.ConsoleMetricHandler().emit(metrics.MetricData(1, "g", "n", 2))
    assert capsys.readouterr().out == "[1][g]: n=2\n"
    with pytest.raises(TypeError, match="abstract"):
        metrics.MetricHandler()
    with pytest.warns(FutureWarning, match="Deprecated, use `put_metric"):
        metrics.publish_metric("g", "n", 1)


def test_measured_functions(kept):
    assert _Work().well() == 7 and _Work.well.__doc__ == "Returns a number."
    with pytest.raises(ValueError, match="no"):
        _Work().badly()
    with pytest.warns(FutureWarning):
        assert metrics.profile("old")(max)(1, 2) == 2
    assert metrics.prof(max)(1, 2) == 2
    assert [name[:2] for name in kept.data] == [
        ("torchelastic", "_Work.well.success"), ("torchelastic", "_Work.well.duration.ms"),
        ("other", "_Work.badly.failure"), ("other", "_Work.badly.duration.ms"),
        ("old", "max.success"), ("old", "max.duration.ms"),
        ("torchelastic", "builtins.max.success"), ("torchelastic", "builtins.max.duration.ms"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "ends"), [(0, ["SUCCEEDED 0", "SUCCEEDED 1"]), (3, ["TERMINATED 0", "FAILED 1"])], ids=["well", "badly"]
)
def test_torchrun(tmp_path, code, ends):
    """Rank 1 fails, and the other one, which would not end by itself, is ended."""
    program = tmp_path / "program.py"
    program.write_text(
        f"import os, sys, time\nif {code}:\n  time.sleep(60 * (os.environ['RANK'] == '0'))\n  sys.exit({code})\n"
    )
    command = [sys.executable, "-m", "rushlight.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, "--event-log-handler=console", str(program)], capture_output=True, text=True, timeout=90
    )
    assert done.returncode == bool(code), done.stderr
    found = [events.Event.deserialize(line) for line in done.stderr.splitlines() if line.startswith('{"name"')]
    states = [f"{one.metadata['state']} {one.metadata['global_rank']}".removesuffix(" None") for one in found]
    assert states == ["RENDEZVOUS", "START 0", "START 1", *ends, "SUCCEEDED"]
    assert all(one.name == f"torchelastic.worker.status.{one.metadata['state']}" for one in found)
    last = found[-2].metadata
    assert json.loads(last["metadata"])["exit_code"] == [code or None] and last["rdzv_backend"] == "c10d"


def test_unknown_destination(tmp_path):
    command = [sys.executable, "-m", "rushlight.distributed.run", "--event-log-handler=zz", "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "torchrun: error: --event-log-handler zz is unknown" in done.stderr
