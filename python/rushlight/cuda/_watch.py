"""Who is told of streams and events as a program uses them: the sanitizer, once it is enabled."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._sanitizer import EventHandler

watcher: EventHandler | None = None


def waited(stream: int) -> None:
    """The host waits for a stream. The engine calls this, once it was told to."""
    if watcher is not None:
        watcher.stream_synchronized(stream)
