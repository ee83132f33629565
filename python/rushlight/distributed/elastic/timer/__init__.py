"""Timers: a block of a worker that takes too long ends the worker, through a server in another process of its machine.

`LocalTimerServer` gets the requests of workers through a queue, and `FileTimerServer` through a named pipe. torchrun starts the latter if the variable
``TORCHELASTIC_ENABLE_FILE_TIMER`` is 1, and its workers find the pipe in ``TORCHELASTIC_TIMER_FILE``.
"""

from rushlight._set_module import set_module

from .api import TimerClient, TimerRequest, TimerServer, configure, expires
from .file_based_local_timer import FileTimerClient, FileTimerRequest, FileTimerServer
from .local_timer import LocalTimerClient, LocalTimerServer

__all__ = [
    "FileTimerClient",
    "FileTimerRequest",
    "FileTimerServer",
    "LocalTimerClient",
    "LocalTimerServer",
    "TimerClient",
    "TimerRequest",
    "TimerServer",
    "configure",
    "expires",
]


def __dir__() -> list[str]:
    return [*__all__, "api", "file_based_local_timer", "local_timer"]


set_module(__name__, *(globals()[name] for name in __all__))
