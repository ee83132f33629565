"""Loads submodules when they are first used, in a way that is safe with fork.

Functions that need another module call `load`, unless that module was loaded before. A module holds a lock while it
loads. If another thread forked in the meantime, the child would find the lock held by a thread that does not exist
there. Therefore a fork waits until the other threads have finished loading.
"""

import os
from _thread import get_ident
from importlib import import_module
from time import sleep

#: The threads that are loading a module, one entry per module.
_busy: list[int] = []


def load(name):
    """The module of that name. Loads it first if necessary."""
    _busy.append(get_ident())
    try:
        return import_module(name)
    finally:
        _busy.remove(get_ident())


def _wait_for_imports():
    # A load may itself wait for one of our locks, so the fork waits for at most a second. If loading takes longer, the
    # child has a half-loaded module and hangs if it imports it. Modules that were loaded before still work.
    for _ in range(1000):
        if all(thread == get_ident() for thread in _busy):
            break
        sleep(0.001)


os.register_at_fork(before=_wait_for_imports, after_in_child=_busy.clear)
