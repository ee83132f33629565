"""A replacement for :mod:`multiprocessing` whose queues and pipes send tensors without copying them.

Tensors in a queue, in a pipe or in the arguments of a process are moved to shared memory, and only a handle is sent.
The memory has no name, so that nothing remains when the processes end. The sender may end as soon as ``put`` has been
flushed. A process that is killed does not block the others.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing

from .atomic import atomic_add_
from .context import default as _default
from .reductions import init_reductions
from .spawn import (
    ENV_VAR_PARALLEL_START as ENV_VAR_PARALLEL_START,
)
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

# The same names as in `multiprocessing`: `Process`, `Queue`, `Lock`, `get_context`...
globals().update((name, getattr(_default, name)) for name in _multiprocessing.__all__)

_sharing_strategy = "file_descriptor"
_all_sharing_strategies = {"file_descriptor", "file_system"}


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted; it has no effect. Memory is always shared by descriptor, without reaching the limit on open files.

    Args:
        new_strategy: ``"file_descriptor"`` or ``"file_system"``.

    Raises:
        AssertionError: the strategy is unknown.

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
    """The strategy that was set with `set_sharing_strategy`.

    >>> torch.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    return _sharing_strategy


def get_all_sharing_strategies() -> set[str]:
    """The strategies that `set_sharing_strategy` accepts.

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
