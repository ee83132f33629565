"""A drop-in for :mod:`multiprocessing` whose queues and pipes send tensors without copying them.

Tensors that go through a queue, a pipe or the arguments of a process are moved to shared memory, and only a handle is
sent. The memory has no name, so nothing is left behind however the processes end; the sender may end as soon as ``put``
has been flushed; and a process that is killed keeps no other from going on.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing

from .atomic import atomic_add_
from .context import default as _default
from .reductions import init_reductions
from .spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    _prctl_pr_set_pdeathsig,
    spawn,
    start_processes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from multiprocessing import *  # noqa: F403

# The same names as there: `Process`, `Queue`, `Lock`, `get_context`...
globals().update((name, getattr(_default, name)) for name in _multiprocessing.__all__)

_sharing_strategy = "file_descriptor"
_all_sharing_strategies = {"file_descriptor", "file_system"}


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted for programs that call it: memory is shared by descriptor in either case, and runs out of neither.

    Args:
        new_strategy: ``"file_descriptor"`` or ``"file_system"``.

    Raises:
        AssertionError: another name.

    >>> torch.multiprocessing.set_sharing_strategy("file_system")
    >>> torch.multiprocessing.get_sharing_strategy()
    'file_system'
    >>> torch.multiprocessing.set_sharing_strategy("file_descriptor")
    """
    global _sharing_strategy
    if new_strategy not in _all_sharing_strategies:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, expected one of {_all_sharing_strategies}")
    _sharing_strategy = new_strategy


def get_sharing_strategy() -> str:
    """The name that `set_sharing_strategy` was given.

    >>> torch.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    return _sharing_strategy


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` accepts.

    >>> sorted(torch.multiprocessing.get_all_sharing_strategies())
    ['file_descriptor', 'file_system']
    """
    return _all_sharing_strategies


__all__ = [
    "atomic_add_",
    "set_sharing_strategy",
    "get_sharing_strategy",
    "get_all_sharing_strategies",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]
__all__ += _multiprocessing.__all__

init_reductions()


def __dir__() -> list[str]:
    return __all__
