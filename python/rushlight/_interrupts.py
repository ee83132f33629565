"""Defers Ctrl-C while it must not occur: between the start of a process and the creation of the object that ends it."""

import contextlib
import signal
import threading


@contextlib.contextmanager
def interrupts_deferred():
    """Defers Ctrl-C until the block ends. Only the main thread receives it; other threads are not affected."""
    before = signal.getsignal(signal.SIGINT)
    # A handler that was not installed from Python cannot be restored.
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
