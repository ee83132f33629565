"""Submodules are loaded when first asked for, and no fork comes in the middle of that: what a function needs from another
file comes through `load`, unless that file was loaded before.

A module has a lock while it loads. A child forked meanwhile would find it closed, and the thread that would open it does
not exist there; so a fork lets the loads of other threads come to their end.
"""

import os
from _thread import get_ident
from importlib import import_module
from time import sleep

#: The threads that are loading, once for each module.
_busy: list[int] = []


def load(name):
    """The module of that name, loaded if it is not yet."""
    _busy.append(get_ident())
    try:
        return import_module(name)
    finally:
        _busy.remove(get_ident())


def _settle():
    # A load that waits for a lock of ours would wait for ever, so a second must do. A disk may be slower still: then the
    # child has that module half loaded, and hangs if it imports it; it does not if it uses what was loaded before.
    for _ in range(1000):
        if all(thread == get_ident() for thread in _busy):
            break
        sleep(0.001)


os.register_at_fork(before=_settle, after_in_child=_busy.clear)
