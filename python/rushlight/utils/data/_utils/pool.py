"""The parent's side of multi-process loading: starts the workers, waits for their results and ends them.

One call waits for the connections and the processes together, so that the end of a worker is detected immediately,
without polling.
"""

import contextlib
import os
import signal
import time
import weakref
from multiprocessing.connection import wait

from rushlight._interrupts import interrupts_deferred

from .fetch import Task
from .flight_recorder import NO_TASK, FlightRecorder
from .memory import memory_report, size
from .randomness import load_early
from .wire import pipe
from .worker import Result, WorkerSetup, worker_main

# The time that a worker has to finish its current work when the loader ends it.
_GRACE_SECONDS = 5.0
_KILL_SECONDS = 1.0
# The time that a hanging worker has to write its stack.
_ANSWER_SECONDS = 0.1


class WorkerFailed(RuntimeError):
    """A worker has ended or does not answer. The message says what is known of it."""


_pools: "weakref.WeakSet[WorkerPool]" = weakref.WeakSet()


class WorkerProcess:
    """A worker, as represented in its parent."""

    def __init__(self, context, setup: WorkerSetup, worker_id: int) -> None:
        self.id = worker_id
        self.recorder = FlightRecorder()
        self.connection, self._theirs = pipe()
        self.process = context.Process(
            target=worker_main, args=(setup, worker_id, self._theirs, self.recorder), daemon=True
        )
        self.tasks: list[Task] = []  # sent and not yet answered, oldest first
        self.peak_memory = 0
        self.dismissed = False

    def start(self) -> None:
        try:
            self.process.start()
        finally:
            # A duplicate in this process would keep the connection open after the worker has ended.
            self._theirs.close()

    def send(self, message) -> None:
        # The next `receive` detects that a worker has ended, and reports it.
        with contextlib.suppress(OSError):
            self.connection.send(message)

    def describe_death(self) -> str:
        """torch's message, followed by all available information."""
        self.process.join(_KILL_SECONDS)
        lines = [
            f"DataLoader worker (pid(s) {self.process.pid}) exited unexpectedly",
            f"Worker {self.id} {_how_it_ended(self.process.exitcode)} {self._last_work()}.",
            *self._memory(),
        ]
        if self.process.exitcode == -signal.SIGKILL:
            lines.append("SIGKILL often means that the system ran out of memory: try fewer workers or smaller batches.")
        return "\n".join(lines + self._stack())

    def describe_hang(self) -> str:
        """Describes what the worker does, after a timeout."""
        lines = [f"Worker {self.id} (pid {self.process.pid}) has not answered {self._last_work()}.", *self._memory()]
        return "\n".join(lines + self._stack())

    def _memory(self) -> list[str]:
        memory = [f"the worker's peak after its last batch {size(self.peak_memory)}"] if self.peak_memory else []
        memory += memory_report()
        return [f"Memory: {', '.join(memory)}."] if memory else []

    def _stack(self) -> list[str]:
        stack = self.recorder.stack
        return ["Python stack of the worker:", stack] if stack else []

    def _last_work(self) -> str:
        if self.recorder.task == NO_TASK:
            return "before its first batch"
        task = next((task for task in self.tasks if task.number == self.recorder.task), None)
        return "while it waited for work" if task is None else task.at(self.recorder.position)

    def close(self) -> None:
        self.connection.close()
        self.recorder.close()


def _how_it_ended(code) -> str:
    if code is None:
        return "closed its connection"
    if code >= 0:
        return f"exited with status {code}"
    try:
        number = signal.Signals(-code)
        return f"was killed by signal {number.name} ({signal.strsignal(number)})"
    except ValueError:
        return f"was killed by signal {-code}"


class WorkerPool:
    def __init__(self) -> None:
        self.owner = os.getpid()
        self.workers: list[WorkerProcess] = []
        self._patience = _GRACE_SECONDS
        _pools.add(self)

    def start(self, context, setup: WorkerSetup) -> None:
        if context.get_start_method() == "fork":
            load_early(setup.randomness)
        try:
            for worker_id in range(setup.num_workers):
                with interrupts_deferred():
                    worker = WorkerProcess(context, setup, worker_id)
                    # Added before the start, so that a forked worker closes its duplicate of this end too.
                    self.workers.append(worker)
                    worker.start()
        except BaseException:
            self.shutdown(patience=0)
            raise

    def assign(self, worker_id: int, task: Task) -> None:
        worker = self.workers[worker_id]
        worker.tasks.append(task)
        worker.send(task)

    def broadcast(self, message) -> None:
        for worker in self.workers:
            worker.tasks.clear()
            worker.send(message)

    def dismiss(self, worker_id: int) -> None:
        """Marks that there is no more work for the worker, so that it may end normally."""
        worker = self.workers[worker_id]
        worker.dismissed = True
        worker.send(None)

    @property
    def is_ours(self) -> bool:
        return os.getpid() == self.owner

    def check_owner(self) -> None:
        if not self.is_ours:
            raise RuntimeError("A DataLoader's worker processes can only be used by the process that started them")

    def wait_for_result(self, timeout: float) -> list:
        """Waits until a worker has sent a result or has ended; at most `timeout` seconds, or without a limit for 0.

        Returns the argument of `receive`. Nothing is lost if the handler of a signal raises an exception here.
        """
        open_workers = [worker for worker in self.workers if not worker.dismissed]
        sources = [worker.connection for worker in open_workers] + [worker.process.sentinel for worker in open_workers]
        try:
            return wait(sources, timeout if timeout > 0 else None)  # without a limit for NaN too
        except KeyboardInterrupt:
            # Usually the program ends now, and nobody needs the samples that are being loaded.
            self._patience = 0.0
            raise

    def receive(self, ready: list, timeout: float) -> tuple[int, Result]:
        """The next result and its worker."""
        if not ready:
            raise WorkerFailed(f"DataLoader timed out after {timeout} seconds\n{_where_they_hang(self.workers)}")
        by_connection = {worker.connection: worker for worker in self.workers if not worker.dismissed}
        # Results that were sent before a worker ended are still valid.
        for worker in [by_connection[source] for source in ready if source in by_connection]:
            with contextlib.suppress(EOFError, ConnectionError):
                result = worker.connection.recv()
                worker.tasks = [task for task in worker.tasks if task.number != result.number]
                worker.peak_memory = result.peak_memory
                self._patience = _GRACE_SECONDS
                return worker.id, result
        dead = next(worker for worker in self.workers if worker.connection in ready or worker.process.sentinel in ready)
        raise WorkerFailed(dead.describe_death())

    def shutdown(self, patience: float | None = None) -> None:
        """Ends all workers. A second call, or a call in a process that did not start them, has no effect. If an exception
        of a signal's handler ends a call, the next one does the rest."""
        patience = self._patience if patience is None else patience
        workers = self.workers
        if not self.is_ours:
            self.workers = []
            return
        processes = [worker.process for worker in workers if worker.process.pid is not None]
        try:
            for worker in workers:
                worker.connection.close()
            _join(processes, patience)
        finally:
            # Ctrl-C ends the wait, and also the workers.
            with interrupts_deferred():
                _end(processes)
                for worker in workers:
                    worker.close()
                self.workers = []

    def abandon(self) -> None:
        """In a forked child: closes the duplicates of the parent's descriptors, which would keep connections open."""
        for worker in self.workers:
            worker.connection.close()
        self.workers = []


def _where_they_hang(workers: list[WorkerProcess]) -> str:
    late = [worker for worker in workers if worker.tasks]
    for worker in late:
        worker.recorder.ask_for_stack(worker.process.pid)
    time.sleep(_ANSWER_SECONDS)
    return "\n".join(worker.describe_hang() for worker in late)


def _end(processes) -> None:
    for stop in ("terminate", "kill"):
        processes = [process for process in processes if process.is_alive()]
        for process in processes:
            getattr(process, stop)()
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)  # a stopped process does not handle SIGTERM
        _join(processes, _KILL_SECONDS)


def _join(processes, patience: float) -> None:
    deadline = time.monotonic() + patience
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))


def _abandon_all() -> None:
    for pool in list(_pools):
        pool.abandon()


os.register_at_fork(after_in_child=_abandon_all)
