"""Who is told of streams and events as a program uses them: the sanitizer, once it is enabled."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._sanitizer import EventHandler

observer: EventHandler | None = None
