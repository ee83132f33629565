"""Timers whose requests come through a queue of `multiprocessing`."""

import contextlib
import os
import queue
import time

from .api import RequestQueue, TimerClient, TimerRequest, Timers, TimerServer, kill

__all__ = ["LocalTimerClient", "LocalTimerServer", "MultiprocessingRequestQueue"]


def __dir__() -> list[str]:
    return __all__


class LocalTimerClient(TimerClient):
    """Begins and releases timers of this process at a `LocalTimerServer`.

    Args:
        mp_queue: the queue of the server.
    """

    def __init__(self, mp_queue):
        self._mp_queue = mp_queue

    def acquire(self, scope_id, expiration_time):
        """Begins a timer for a block."""
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id):
        """Ends the timer of a block."""
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, -1))


class MultiprocessingRequestQueue(RequestQueue):
    """Requests of a queue of `multiprocessing`.

    Args:
        mp_queue: the queue.
    """

    def __init__(self, mp_queue):
        self._mp_queue = mp_queue

    def size(self):
        """How many requests there are at least."""
        return self._mp_queue.qsize()

    def get(self, size, timeout):
        """A list of at most so many requests, after at most so many seconds."""
        requests, deadline = [], time.monotonic() + timeout
        with contextlib.suppress(queue.Empty):
            while len(requests) < size and (not requests or time.monotonic() < deadline):
                requests.append(self._mp_queue.get(timeout=max(0, deadline - time.monotonic())))
        return requests


class LocalTimerServer(TimerServer):
    """Kills processes of this machine whose time is over.

    Args:
        mp_queue: a queue of `multiprocessing`, from which the requests of `LocalTimerClient` come.
        max_interval: the seconds between looks at the timers, if no request comes.
        daemon: whether the process may end while the server's thread runs.

    >>> import multiprocessing, time
    >>> timer, methods = torch.distributed.elastic.timer, multiprocessing.get_context("fork")
    >>> requests = methods.Queue()
    >>> server = timer.LocalTimerServer(requests, max_interval=0.05)
    >>> def work():
    ...     with timer.expires(after=0.1, client=timer.LocalTimerClient(requests)):
    ...         time.sleep(60)
    >>> worker = methods.Process(target=work)
    >>> worker.start(); server.start(); worker.join(); server.stop()
    >>> worker.exitcode
    -9
    """

    def __init__(self, mp_queue, max_interval=60, daemon=True):
        super().__init__(MultiprocessingRequestQueue(mp_queue), max_interval, daemon)
        self._timers = Timers()

    def register_timers(self, timer_requests):
        """Takes a list of requests."""
        for request in timer_requests:
            self._timers.register(request.worker_id, request)

    def clear_timers(self, worker_ids):
        """Forgets the timers of a set of processes."""
        self._timers.clear(worker_ids)

    def get_expired_timers(self, deadline):
        """A dict of the requests that are over at a time, by process."""
        return self._timers.expired(deadline)

    def _reap_worker(self, worker_id):
        return kill(worker_id)
