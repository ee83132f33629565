"""Events, handlers, and statistics over intervals."""

import datetime
import time

import pytest

from rushlight import monitor

DAY = datetime.timedelta(days=1)
THEN = datetime.datetime(2026, 1, 1)


@pytest.fixture
def events():
    seen = []
    handle = monitor.register_event_handler(seen.append)
    yield seen
    monitor.unregister_event_handler(handle)


def test_handlers_get_events(events):
    event = monitor.Event(name="epoch", timestamp=THEN, data={"loss": 0.5, "step": 1, "phase": "train"})
    monitor.log_event(event)
    assert events == [event] and event.data["phase"] == "train" and event.timestamp == THEN
    other = monitor.register_event_handler(lambda event: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        monitor.log_event(event)
    monitor.unregister_event_handler(other)
    monitor.unregister_event_handler(other)
    monitor.log_event(event)
    assert len(events) == 3


def test_statistics_of_an_interval(events):
    stat = monitor.Stat("loss", list(monitor.Aggregation), DAY, max_samples=3)
    for value in (2, 3.0, 1):
        assert stat.count < 3
        stat.add(value)
    expected = {"value": 1, "mean": 2, "count": 3, "sum": 6, "max": 3, "min": 1}
    assert [(event.name, event.data) for event in events] == [
        ("torch.monitor.Stat", {f"loss.{name}": value for name, value in expected.items()})
    ]
    stat.add(5)  # beyond the largest number of values
    assert stat.count == 0 and stat.get()[monitor.SUM] == 6
    del stat
    assert len(events) == 1


def test_the_end_of_an_interval(events):
    stat = monitor.Stat("short", [monitor.SUM], datetime.timedelta(milliseconds=20))
    assert stat.get() == {monitor.SUM: 0}
    stat.add(1)
    time.sleep(0.05)
    assert events == []
    stat.add(2)
    assert [event.data for event in events] == [{"short.sum": 1}] and stat.get() == {monitor.SUM: 1}
    del stat
    assert [event.data for event in events] == [{"short.sum": 1}, {"short.sum": 2}]


def test_statistics_for_tensorboard():
    class Writer:
        def add_scalar(self, *args, **kwargs):
            written.append((args, kwargs))

    written = []
    handler = monitor.TensorboardEventHandler(Writer())
    handler(monitor.Event("torch.monitor.Stat", THEN, {"a.sum": 1.5}))
    handler(monitor.Event("other", THEN, {"a": 1}))
    assert written == [(("a.sum", 1.5), {"walltime": THEN.timestamp()})]


@pytest.mark.parametrize(
    "call",
    [
        lambda: monitor.Event("n", 1, {}),
        lambda: monitor.Event("n", THEN, {"a": [1]}),
        lambda: monitor.log_event(3),
        lambda: monitor.unregister_event_handler(3),
        lambda: monitor.EventHandlerHandle(),
        lambda: monitor.Stat("a", [monitor.SUM], 5),
    ],
)
def test_refusals(call):
    with pytest.raises(TypeError):
        call()
