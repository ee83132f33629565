"""Ctrl-C at the moments when it may not come: between a process that has been started and the object that will end it."""

import contextlib
import signal
import threading


@contextlib.contextmanager
def held_back():
    """Ctrl-C takes effect when the block ends. Only the main thread ever feels it, so elsewhere nothing is held back."""
    before = signal.getsignal(signal.SIGINT)
    # Nobody can put a handler back that is not Python's.
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    felt = []
    signal.signal(signal.SIGINT, lambda *_: felt.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if felt:
            signal.raise_signal(signal.SIGINT)
