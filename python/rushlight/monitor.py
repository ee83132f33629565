"""`torch.monitor`: events with data for handlers, and statistics over fixed intervals of time."""

from __future__ import annotations

import enum
import time
from datetime import datetime, timedelta

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = [
    "Aggregation",
    "COUNT",
    "Event",
    "EventHandlerHandle",
    "MAX",
    "MEAN",
    "MIN",
    "STAT_EVENT",
    "SUM",
    "Stat",
    "TensorboardEventHandler",
    "VALUE",
    "data_value_t",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]

STAT_EVENT = "torch.monitor.Stat"


class Aggregation(enum.Enum):
    """What a `Stat` computes of the values of an interval.

    >>> torch.monitor.Aggregation.SUM.name
    'SUM'
    """

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6

    def __int__(self) -> int:
        return self.value


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation


class data_value_t:
    """The types of the values of an event: ``str``, ``float``, ``int`` and ``bool``.

    >>> "str" in torch.monitor.data_value_t.__doc__
    True
    """


class Event:
    """Something that happened, with a name, a time and data.

    Args:
        name: the name, which events of one kind share.
        timestamp: the time.
        data: texts and numbers, by name.

    >>> from datetime import datetime
    >>> event = torch.monitor.Event("epoch", datetime(2026, 1, 1), {"loss": 0.5})
    >>> event.data["loss"]
    0.5
    """

    def __init__(self, name: str, timestamp: datetime, data: dict[str, str | float | int | bool]) -> None:
        if not (isinstance(name, str) and isinstance(timestamp, datetime) and isinstance(data, dict)):
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
                "    (name: str, timestamp: datetime.datetime, data: dict[str, str | float | int | bool])"
            )
        for key, value in data.items():
            if not (isinstance(key, str) and isinstance(value, (str, float, int))):
                raise TypeError(
                    "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
                    f"    texts and numbers as data, not {key!r}: {value!r}"
                )
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class EventHandlerHandle:
    """The result of `register_event_handler`, which `unregister_event_handler` takes.

    >>> handle = torch.monitor.register_event_handler(print)
    >>> isinstance(handle, torch.monitor.EventHandlerHandle)
    True
    >>> torch.monitor.unregister_event_handler(handle)
    """

    def __init__(self) -> None:
        raise TypeError("torch._C._monitor.EventHandlerHandle: No constructor defined!")


_handlers: dict[EventHandlerHandle, Callable[[Event], Any]] = {}


def register_event_handler(callback: Callable[[Event], Any]) -> EventHandlerHandle:
    """Calls a function with each event from now on.

    >>> from datetime import datetime
    >>> handle = torch.monitor.register_event_handler(lambda event: print(event.name))
    >>> torch.monitor.log_event(torch.monitor.Event("epoch", datetime(2026, 1, 1), {}))
    epoch
    >>> torch.monitor.unregister_event_handler(handle)
    """
    handle = EventHandlerHandle.__new__(EventHandlerHandle)
    _handlers[handle] = callback
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Ends the calls of a function that `register_event_handler` began. A second time has no effect.

    >>> torch.monitor.unregister_event_handler(torch.monitor.register_event_handler(print))
    """
    if not isinstance(handler, EventHandlerHandle):
        raise TypeError(
            "unregister_event_handler(): incompatible function arguments. The following argument types are supported:\n"
            "    (handler: EventHandlerHandle)"
        )
    _handlers.pop(handler, None)


def log_event(event: Event) -> None:
    """Calls the registered functions with an event.

    >>> from datetime import datetime
    >>> torch.monitor.log_event(torch.monitor.Event("epoch", datetime(2026, 1, 1), {}))
    """
    if not isinstance(event, Event):
        raise TypeError(
            "log_event(): incompatible function arguments. The following argument types are supported:\n"
            "    (event: Event)"
        )
    for handler in list(_handlers.values()):
        handler(event)


class Stat:
    """Statistics of the values of each interval, which are an event at its end.

    The event is logged with the first value of the next interval, with the value that makes ``max_samples``, or when the object
    is released.

    Args:
        name: the name; the data of the event are ``name.sum`` and so on.
        aggregations: what is computed.
        window_size: the length of an interval.
        max_samples: the largest number of values of an interval. Further ones are ignored.

    >>> from datetime import timedelta
    >>> handle = torch.monitor.register_event_handler(lambda event: print(event.name, event.data))
    >>> loss = torch.monitor.Stat("loss", [torch.monitor.MEAN], timedelta(hours=1), max_samples=2)
    >>> loss.add(1.0)
    >>> loss.add(2.0)
    torch.monitor.Stat {'loss.mean': 1.5}
    >>> torch.monitor.unregister_event_handler(handle)
    """

    def __init__(
        self,
        name: str,
        aggregations: Iterable[Aggregation],
        window_size: timedelta,
        max_samples: int = 2**63 - 1,
    ) -> None:
        if not isinstance(window_size, timedelta):
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
                "    (name: str, aggregations: Sequence[Aggregation], window_size: datetime.timedelta, max_samples: int = ...)"
            )
        self.name = name
        self._aggregations = tuple(aggregations)
        # The precision is a millisecond.
        self._window = max(window_size // timedelta(milliseconds=1), 1)
        self._max_samples = max_samples
        self._values: list[float] = []
        self._now = self._number()
        self._before = dict.fromkeys(self._aggregations, 0.0)
        self._full = False

    def _number(self) -> int:
        return time.time_ns() // 1_000_000 // self._window

    @property
    def count(self) -> int:
        """The number of values of this interval."""
        return len(self._values)

    def add(self, v: float) -> None:
        """Adds a value."""
        value = float(v)
        number = self._number()
        if number != self._now:
            self._log()
            self._now, self._full = number, False
        if self._full:
            return
        self._values.append(value)
        if len(self._values) >= self._max_samples:
            self._log()
            self._full = True

    def get(self) -> dict[Aggregation, float]:
        """The statistics of the last interval that was logged."""
        return dict(self._before)

    def _log(self) -> None:
        values, self._values = self._values, []
        if not values:
            return
        found = {VALUE: values[-1], MEAN: sum(values) / len(values), COUNT: float(len(values))}
        found.update({SUM: sum(values), MAX: max(values), MIN: min(values)})
        self._before = {one: found[one] for one in self._aggregations}
        data: dict[str, Any] = {f"{self.name}.{one.name.lower()}": value for one, value in self._before.items()}
        log_event(Event(STAT_EVENT, datetime.now(), data))

    def __del__(self) -> None:
        if getattr(self, "_values", None):
            self._log()


class TensorboardEventHandler:
    """A handler that writes the statistics of `Stat` to a SummaryWriter.

    Args:
        writer: has ``add_scalar(name, value, walltime=...)``.

    >>> from datetime import datetime
    >>> class Writer:
    ...     def add_scalar(self, name, value, walltime):
    ...         print(name, value)
    >>> handler = torch.monitor.TensorboardEventHandler(Writer())
    >>> handler(torch.monitor.Event("torch.monitor.Stat", datetime(2026, 1, 1), {"loss.mean": 1.5}))
    loss.mean 1.5
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())


set_module("rushlight.monitor", Aggregation)


def __dir__() -> list[str]:
    return __all__
