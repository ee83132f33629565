"""Who is told of streams and events as a program uses them: the sanitizer, and the functions of `_gpu_trace`."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Observer:
    """What is told; its methods do nothing."""

    def event_created(self, event: int) -> None:
        """An event of the driver is made."""

    def event_deleted(self, event: int) -> None:
        """An event is given up."""

    def event_recorded(self, event: int, stream: int) -> None:
        """An event marks the work that a stream has."""

    def event_waited_for(self, event: int, stream: int) -> None:
        """A stream waits for an event."""

    def stream_created(self, stream: int) -> None:
        """A stream of the driver is made."""

    def stream_synchronized(self, stream: int) -> None:
        """The host has waited for a stream."""

    def event_synchronized(self, event: int) -> None:
        """The host has waited for an event."""

    def device_synchronized(self) -> None:
        """The host has waited for a GPU."""


class _Several(Observer):
    """Tells several."""

    def __init__(self, observers: list[Observer]) -> None:
        self.observers = observers


def _forward(name: str) -> Any:
    def tell(self: _Several, *args: int) -> None:
        for observer in self.observers:
            getattr(observer, name)(*args)

    return tell


for _name in [name for name in vars(Observer) if not name.startswith("_")]:
    setattr(_Several, _name, _forward(_name))

#: None while nobody is told.
observer: Observer | None = None
_all: list[Observer] = []


def add(one: Observer) -> None:
    """Tells one more."""
    _all.append(one)
    _choose()


def remove(one: Observer) -> None:
    """Ends `add`."""
    _all.remove(one)
    _choose()


def _choose() -> None:
    global observer
    observer = None if not _all else _all[0] if len(_all) == 1 else _Several(list(_all))
    # The engine tells of the waits that are no calls of Python's, such as that of `item()`.
    _C._cuda_watch_waits(observer is not None)


def waited(stream: int) -> None:
    """The host waits for a stream. The engine calls this, once it was told to."""
    if observer is not None:
        observer.stream_synchronized(stream)
