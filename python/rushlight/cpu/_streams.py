"""Streams and events of the CPU. Calls are synchronous, so that they have nothing to wait for."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Stream:
    """A stream of the CPU. It has no effect.

    >>> torch.cpu.Stream().wait_stream(torch.cpu.current_stream())
    """

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Has no effect."""

    def record_event(self) -> None:
        """Has no effect."""

    def wait_event(self, event: Any) -> None:
        """Has no effect."""


class Event:
    """An event of the CPU, which has always taken place.

    >>> torch.cpu.Event().query()
    True
    """

    def query(self) -> bool:
        """Whether the event has taken place: always True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Has no effect."""

    def synchronize(self) -> None:
        """Has no effect."""

    def wait(self, stream: Any = None) -> None:
        """Has no effect."""


_current = Stream()


def current_stream(device: Any = None) -> Stream:
    """The stream that was selected with `stream`.

    >>> torch.cpu.current_stream() is torch.cpu.current_stream()
    True
    """
    return _current


class StreamContext(AbstractContextManager[None]):
    """Selects a stream inside a ``with`` block; None leaves it as it is.

    >>> chosen = torch.cpu.Stream()
    >>> with torch.cpu.StreamContext(chosen):
    ...     torch.cpu.current_stream() is chosen
    True
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.before: Stream | None = None

    def __enter__(self) -> None:
        global _current
        if self.stream is not None:
            self.before, _current = _current, self.stream

    def __exit__(self, *exception: object) -> None:
        global _current
        if self.before is not None:
            _current = self.before


def stream(stream: Stream | None) -> AbstractContextManager[None]:
    """Selects a stream inside a ``with`` block. It has no effect besides `current_stream`.

    >>> with torch.cpu.stream(torch.cpu.Stream()):
    ...     pass
    """
    return StreamContext(stream)


set_module("rushlight.cpu", Stream, Event, StreamContext, current_stream, stream)
