"""``spawn``: starts processes, waits for all of them, and raises the exception of the first that fails."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing.connection
import os
import signal
import sys
import time
import traceback

from rushlight._warnings import warn

from .context import default

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"
"""The environment variable that, set to 1, lets ``start_processes`` start all processes of a fork server at once."""

#: The seconds that processes have to end by themselves, and again after SIGTERM.
_PATIENCE = 30

_log = logging.getLogger(__name__)

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process of ``spawn`` failed. ``error_index`` is its index, ``error_pid`` its process id."""

    __slots__ = ["error_index", "error_pid"]

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The process raised an exception. The message has its traceback.

    >>> def fail(index):
    ...     raise ValueError("no luck")
    >>> try:
    ...     torch.multiprocessing.start_processes(fail, start_method="fork")
    ... except torch.multiprocessing.ProcessRaisedException as error:
    ...     print(error.error_index, str(error).splitlines()[-1])
    0 ValueError: no luck
    """


class ProcessExitedException(ProcessException):
    """The process ended by a signal or with a nonzero exit code: ``exit_code``, and ``signal_name`` or None.

    >>> import os
    >>> def leave(index):
    ...     os._exit(3)
    >>> try:
    ...     torch.multiprocessing.start_processes(leave, start_method="fork")
    ... except torch.multiprocessing.ProcessExitedException as error:
    ...     print(error.exit_code)
    3
    """

    __slots__ = ["exit_code", "signal_name"]

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _prctl_pr_set_pdeathsig(number):
    """Makes the kernel send this process a signal when its parent ends."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number))


def _run(fn, index, args, report):
    _prctl_pr_set_pdeathsig(signal.SIGINT)
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent has ended, or has terminated this process
    except Exception:
        report.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes of one call of `spawn` or `start_processes` with ``join=False``.

    >>> context = torch.multiprocessing.start_processes(print, join=False, start_method="fork", nprocs=0)
    >>> context.join(), context.pids()
    (True, [])
    """

    def __init__(self, processes, reports):
        self.processes = processes
        self._reports = reports
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The process ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits for a process to end. Returns True when all processes have ended successfully.

        If one fails, the others have ``grace_period`` seconds to end. They then get SIGTERM and, after the same time
        again (30 seconds without a grace period), SIGKILL. The exception of the first process is raised.
        """
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout):
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        if grace_period is not None:
            self._wait(grace_period)
        self._terminate(_PATIENCE if grace_period is None else grace_period)
        self._raise(failed)

    def _terminate(self, seconds):
        """Ends the processes by SIGTERM, and those that have not followed it after some seconds by SIGKILL."""
        self._each_alive("terminate", "Terminating process %s via signal SIGTERM")
        self._wait(seconds)
        self._each_alive("kill", "Unable to shutdown process %s via SIGTERM , forcefully exiting via SIGKILL")
        for process in self.processes:
            process.join()

    def _wait(self, seconds):
        deadline = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))

    def _each_alive(self, action, warning):
        for process in self.processes:
            if process.is_alive():
                _log.warning(warning, process.pid)
                getattr(process, action)()

    def _raise(self, index: int) -> NoReturn:
        process, report = self.processes[index], self._reports[index]
        try:
            text = report.recv() if report.poll() else None
        except EOFError:
            text = None
        if text is not None:
            msg = f"\n\n-- Process {index} terminated with the following error:\n{text}"
            raise ProcessRaisedException(msg, index, process.pid)
        code, name = process.exitcode, None
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
        how = f"exit code {code}" if name is None else f"signal {name}"
        raise ProcessExitedException(f"process {index} terminated with {how}", index, process.pid, code, name)


class SpawnContext(ProcessContext):
    """The old name of `ProcessContext`. Gives a warning.

    >>> issubclass(torch.multiprocessing.SpawnContext, torch.multiprocessing.ProcessContext)
    True
    """

    def __init__(self, processes, reports):
        warn("SpawnContext is renamed to ProcessContext since 1.4 release.")
        super().__init__(processes, reports)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs ``fn(index, *args)`` in ``nprocs`` processes of any start method; see `spawn`.

    Args:
        fn: the function; for ``"spawn"`` and ``"forkserver"`` it must be importable (not interactive, no `lambda`).
        args: its other arguments; tensors are shared, not copied.
        nprocs: the number of processes.
        join: whether to wait for them.
        daemon: whether the processes end with this process and may not start others.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``.

    Raises:
        ProcessRaisedException: a process raised an exception.
        ProcessExitedException: a process ended by a signal or with a nonzero exit code.

    >>> def add(index, total):
    ...     total[index] += index + 1
    >>> total = torch.zeros(2)
    >>> torch.multiprocessing.start_processes(add, (total.share_memory_(),), nprocs=2, start_method="fork")
    >>> total
    tensor([1., 2.])
    """
    context = default.get_context(start_method)
    processes, reports = [], []
    theirs = []
    for index in range(nprocs):
        ours, their = context.Pipe(duplex=False)
        processes.append(context.Process(target=_run, args=(fn, index, args, their), daemon=daemon))
        reports.append(ours)
        theirs.append(their)
    if start_method == "forkserver" and os.environ.get(ENV_VAR_PARALLEL_START, "0") == "1":
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(max_workers=max(nprocs, 1)) as threads:
            for _ in threads.map(lambda process: process.start(), processes):
                pass
    else:
        for process in processes:
            process.start()
    for their in theirs:
        their.close()
    started = ProcessContext(processes, reports)
    if not join:
        return started
    try:
        while not started.join():
            pass
    except KeyboardInterrupt:
        # A terminal interrupts the processes too, so they are ending. They know nothing of a signal to this process alone, for
        # which Python would wait for them at its end.
        started._wait(_PATIENCE)
        started._terminate(_PATIENCE)
        raise
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs ``fn(index, *args)`` in ``nprocs`` new processes and waits for them.

    If one of them fails, the others are ended and its exception is raised.

    Args:
        fn: an importable function. Each process imports its module, so the main program must be guarded by
            ``if __name__ == "__main__"``.
        args: its other arguments; tensors are shared, not copied.
        nprocs: the number of processes.
        join: False returns a `ProcessContext` immediately, whose ``join`` waits.
        daemon: whether the processes end with this process and may not start others.
        start_method: accepted; methods other than ``"spawn"`` give a warning and are used (see `start_processes`).

    Raises:
        ProcessRaisedException: a process raised an exception; the message has its traceback.
        ProcessExitedException: a process ended by a signal or with a nonzero exit code.

    >>> torch.multiprocessing.spawn(print, nprocs=0)
    """
    if start_method != "spawn":
        msg = (
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t torch.multiprocessing.start_processes(...)"
        )
        warn(msg, FutureWarning)
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
