"""What timers of every kind have: requests, clients, servers, and the block that a timer guards."""

import abc
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

__all__ = ["RequestQueue", "TimerClient", "TimerRequest", "TimerServer", "configure", "expires"]

logger = logging.getLogger("torch.distributed.elastic.timer.api")


def __dir__() -> list[str]:
    return __all__


@dataclass
class TimerRequest:
    """Begins or releases a timer.

    Args:
        worker_id: the worker that a server ends when the time is over.
        scope_id: a name for the block.
        expiration_time: when the time is over, in seconds as those of `time.time`. A negative number releases the timer.

    >>> torch.distributed.elastic.timer.TimerRequest(4711, "step", 1.5)
    TimerRequest(worker_id=4711, scope_id='step', expiration_time=1.5)
    """

    worker_id: Any
    scope_id: str
    expiration_time: float


class TimerClient(abc.ABC):
    """Begins and releases the timers of a worker. A subclass has `acquire` and `release`."""

    @abc.abstractmethod
    def acquire(self, scope_id, expiration_time):
        """Begins a timer for a block. It is over at this time, in seconds as those of `time.time`."""

    @abc.abstractmethod
    def release(self, scope_id):
        """Ends the timer of a block."""


class RequestQueue(abc.ABC):
    """Where a `TimerServer` gets requests from. A subclass has `size` and `get`."""

    @abc.abstractmethod
    def size(self):
        """How many requests there are at least."""

    @abc.abstractmethod
    def get(self, size, timeout):
        """A list of at most so many requests. It waits for them for at most so many seconds."""


class TimerServer(abc.ABC):
    """Ends workers whose time is over, in a thread. A subclass keeps the timers, and knows how to end a worker.

    Args:
        request_queue: a `RequestQueue`.
        max_interval: the seconds between looks at the timers.
        daemon: whether the process may end while the thread runs.
    """

    def __init__(self, request_queue, max_interval, daemon=True):
        self._request_queue, self._max_interval, self._daemon = request_queue, max_interval, daemon
        self._stopping = threading.Event()
        self._watchdog_thread: threading.Thread | None = None

    @abc.abstractmethod
    def register_timers(self, timer_requests):
        """Takes a list of requests."""

    @abc.abstractmethod
    def clear_timers(self, worker_ids):
        """Forgets the timers of a set of workers."""

    @abc.abstractmethod
    def get_expired_timers(self, deadline):
        """A dict of the requests that are over at a time, by worker."""

    @abc.abstractmethod
    def _reap_worker(self, worker_id):
        """Ends a worker. False if that has to be tried again."""

    def _watchdog_loop(self):
        while not self._stopping.is_set():
            try:
                self._run_watchdog()
            except Exception:
                logger.exception("Error running watchdog")

    def _run_watchdog(self):
        self.register_timers(self._request_queue.get(max(1, self._request_queue.size()), self._max_interval))
        reaped = set()
        for worker, requests in self.get_expired_timers(time.time()).items():
            scopes = [request.scope_id for request in requests]
            logger.info("Reaping worker_id=[%s]. Expired timers: %s", worker, scopes)
            try:
                ended = self._reap_worker(worker)
            except Exception:
                logger.exception(
                    "Uncaught exception thrown from _reap_worker(). Check that it always returns a boolean"
                )
                ended = True
            if ended:
                reaped.add(worker)
            else:
                logger.error("Error reaping worker=[%s]. Will retry on next watchdog.", worker)
        self.clear_timers(reaped)

    def start(self):
        """Begins to watch."""
        self._watchdog_thread = threading.Thread(target=self._watchdog_loop, daemon=self._daemon)
        self._watchdog_thread.start()

    def stop(self):
        """Ends the watch, after `max_interval` seconds at most."""
        self._stopping.set()
        if self._watchdog_thread is not None:
            self._watchdog_thread.join(self._max_interval)
            self._watchdog_thread = None


class Timers:
    """The timers of workers that are processes of this machine."""

    def __init__(self):
        self._requests = {}

    def register(self, process, request):
        """Begins or releases a timer. Requests for no single process are left out: signals to them reach several."""
        if isinstance(process, bool) or not isinstance(process, int) or process <= 0:
            logger.error("Not the number of a process: %r", request)
        elif request.expiration_time < 0:
            self._requests.pop((process, request.scope_id), None)
        else:
            self._requests[process, request.scope_id] = request

    def clear(self, processes):
        """Forgets the timers of some processes."""
        self._requests = {key: request for key, request in self._requests.items() if key[0] not in processes}

    def processes(self):
        """The set of processes that have timers."""
        return {process for process, _ in self._requests}

    def expired(self, deadline):
        """A dict of lists of the requests that are over, the earliest first, by process."""
        found: dict[int, list[Any]] = {}
        for (process, _), request in sorted(self._requests.items(), key=lambda item: item[1].expiration_time):
            if request.expiration_time <= deadline:
                found.setdefault(process, []).append(request)
        return found

    def next_end(self):
        """When the first timer is over, or None without timers."""
        return min((request.expiration_time for request in self._requests.values()), default=None)


def kill(process, number=signal.SIGKILL):
    """Sends a signal. False if that has to be tried again; a process that is gone needs none."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        logger.info("Process with pid=%s does not exist. Skipping", process)
    except Exception:
        logger.exception("Error terminating pid=%s", process)
        return False
    return True


_timer_client: TimerClient | None = None


def configure(timer_client):
    """Sets the client that `expires` uses.

    Args:
        timer_client: a `TimerClient`.

    >>> import multiprocessing
    >>> timer = torch.distributed.elastic.timer
    >>> requests = multiprocessing.Queue()
    >>> timer.configure(timer.LocalTimerClient(requests))
    >>> with timer.expires(after=60, scope="step"):
    ...     requests.get().scope_id
    'step'
    """
    global _timer_client
    _timer_client = timer_client


@contextlib.contextmanager
def expires(after, scope=None, client=None):
    """A context manager for a block that must end in time. The server ends the worker if it does not.

    Args:
        after: seconds.
        scope: a name for the block, by default the file and line of the caller.
        client: a `TimerClient`, by default that of `configure`.

    Raises:
        RuntimeError: there is no client.
    """
    client = client or _timer_client
    if client is None:
        raise RuntimeError(
            "Configure timer client before using countdown timers.\n  Call torch.distributed.elastic.timer.configure(client), or give client=."
        )
    if scope is None:
        caller = sys._getframe(2)
        scope = f"{caller.f_code.co_filename}#{caller.f_lineno}"
    client.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        client.release(scope)
