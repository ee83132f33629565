"""How an exception comes from a worker to the loop that reads the batches."""

import sys
import traceback
from typing import Any


class KeyErrorMessage(str):
    """KeyError prints the repr of its argument, which would spoil a text of several lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception on its way to another process: its class and its traceback as text."""

    def __init__(self, where: str, note: str | None = None) -> None:
        kind, value, trace = sys.exc_info()
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where
        self.note = note

    def reraise(self):
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        try:
            # Raised as itself, this one would end the pass unseen.
            kind = RuntimeError if issubclass(self.exc_type, StopIteration) else self.exc_type
            # Some classes want other arguments, or none at all.
            exception = kind(message)
        except Exception:
            exception = RuntimeError(message)
        if self.note is not None:
            exception.add_note(self.note)
        try:
            raise exception
        finally:
            # Its traceback holds this frame, and with it the iterator and its workers: no cycle, please.
            del exception

    def __reduce__(self):
        name = self.exc_type.__name__
        return _rebuild_exception, (self._class_that_travels(), name, self.exc_msg, self.where, self.note)

    def _class_that_travels(self):
        """None for a class that the parent could not find by its name."""
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
