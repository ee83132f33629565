"""Transfers exceptions from a worker to the loop over the batches."""

import sys
import traceback
from typing import Any


class KeyErrorMessage(str):
    """A message whose repr is the text itself, because KeyError prints the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception for another process: its class and its traceback as text.

    Args:
        exc_info: the exception as `sys.exc_info` returns it; by default, the one that is being handled.
        where: where it was raised, for the message.
        note: what `reraise` adds to the exception as a note.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background", note: str | None = None) -> None:
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where
        self.note = note

    def reraise(self):
        """Raises the exception again, with its first traceback in the message."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        try:
            # Raised unchanged, it would silently end the pass.
            kind = RuntimeError if issubclass(self.exc_type, StopIteration) else self.exc_type
            # Some classes need other arguments, or none.
            exception = kind(message)
        except Exception:
            exception = RuntimeError(message)
        if self.note is not None:
            exception.add_note(self.note)
        try:
            raise exception
        finally:
            # Its traceback refers to this frame, and so to the iterator and its workers. This avoids a reference cycle.
            del exception

    def __reduce__(self):
        name = self.exc_type.__name__
        return _rebuild_exception, (self._class_that_travels(), name, self.exc_msg, self.where, self.note)

    def _class_that_travels(self):
        """The class, or None if the parent cannot find it by its name."""
        found = sys.modules.get(self.exc_type.__module__)
        for part in self.exc_type.__qualname__.split("."):
            found = getattr(found, part, None)
        return self.exc_type if found is self.exc_type else None


def _rebuild_exception(exc_type, name: str, message: str, where: str, note: str | None) -> ExceptionWrapper:
    wrapper = ExceptionWrapper.__new__(ExceptionWrapper)
    wrapper.exc_type = exc_type or type(name, (RuntimeError,), {})
    wrapper.exc_msg = message
    wrapper.where = where
    wrapper.note = note
    return wrapper
