"""Timers whose requests come through a named pipe, as lines of JSON."""

import contextlib
import json
import logging
import math
import os
import select
import signal
import threading
import time
from dataclasses import dataclass

from .api import TimerClient, Timers, kill

__all__ = ["FileTimerClient", "FileTimerRequest", "FileTimerServer"]

logger = logging.getLogger("torch.distributed.elastic.timer.file_based_local_timer")

#: How often a client looks for its server, and the seconds between.
_TRIES, _PAUSE = 10, 0.1
#: Bytes that are read at once: all that a pipe holds.
_CHUNK = 1 << 16


def __dir__() -> list[str]:
    return __all__


@dataclass
class FileTimerRequest:
    """Begins or releases a timer.

    Args:
        worker_pid: the process whose timer it is.
        scope_id: a name for the block.
        expiration_time: when the time is over, in seconds as those of `time.time`. A negative number releases the timer.
        signal: what the process gets when the time is over; 0 or less for nothing.

    >>> torch.distributed.elastic.timer.FileTimerRequest(4711, "step", 1.5, 9).to_json()
    '{"version": 1, "pid": 4711, "scope_id": "step", "expiration_time": 1.5, "signal": 9}'
    """

    version = 1
    worker_pid: int
    scope_id: str
    expiration_time: float
    signal: int = 0

    def to_json(self):
        """The request as JSON."""
        return json.dumps(
            {
                "version": self.version,
                "pid": self.worker_pid,
                "scope_id": self.scope_id,
                "expiration_time": self.expiration_time,
                "signal": self.signal,
            }
        )


class FileTimerClient(TimerClient):
    """Begins and releases timers of this process at a `FileTimerServer`.

    Args:
        file_path: the server's named pipe.
        signal: what this process gets when the time is over; 0 or less for nothing.
    """

    def __init__(self, file_path, signal=signal.SIGKILL):
        self._file_path, self.signal = file_path, signal

    def _open(self):
        for attempt in range(_TRIES):
            try:
                # Without a reader this is an error at once, where a plain open would wait for one.
                return os.open(self._file_path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                if attempt == _TRIES - 1:
                    raise BrokenPipeError(
                        "Could not send the FileTimerRequest because FileTimerServer is not available."
                        f"\n  Nothing reads {self._file_path}: start a FileTimerServer with this path first."
                    ) from error
                time.sleep(_PAUSE)

    def _send(self, request):
        line = request.to_json().encode() + b"\n"
        # Shorter writes are not divided by those of other processes.
        if len(line) > select.PIPE_BUF:
            raise RuntimeError(
                f"FileTimerRequest larger than {select.PIPE_BUF} bytes is not supported: {line[:100].decode(errors='replace')}..."
            )
        file = self._open()
        try:
            os.set_blocking(file, True)
            os.write(file, line)
        finally:
            os.close(file)

    def acquire(self, scope_id, expiration_time):
        """Begins a timer for a block.

        Raises:
            BrokenPipeError: there is no server after a second.
            RuntimeError: the name of the block is too long.
        """
        self._send(FileTimerRequest(os.getpid(), scope_id, expiration_time, int(self.signal)))

    def release(self, scope_id):
        """Ends the timer of a block."""
        self._send(FileTimerRequest(os.getpid(), scope_id, -1, 0))


class FileTimerServer:
    """Sends signals to processes of this machine whose time is over, and then the same signal to its own process, as torchrun does.

    Args:
        file_path: the path of a named pipe, which is made. A file that is there is removed.
        run_id: the name of the job, for the log.
        max_interval: the longest time in seconds between looks at the timers.
        daemon: whether the process may end while the server's thread runs.
        log_event: a function of a text and a request (or None), called when something happens.

    >>> import os, tempfile
    >>> timer = torch.distributed.elastic.timer
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "timer")
    >>> server = timer.FileTimerServer(path, "job", log_event=lambda what, request: print(what))
    >>> server.start()
    watchdog started
    >>> with timer.expires(after=60, client=timer.FileTimerClient(path)):
    ...     pass
    >>> server.stop()
    watchdog stopped
    >>> folder.cleanup()
    """

    def __init__(self, file_path, run_id, max_interval=10, daemon=True, log_event=None):
        self._file_path, self._run_id = file_path, run_id
        self._max_interval, self._daemon = max_interval, daemon
        self._log_event = log_event or (lambda name, request: None)
        self._timers = Timers()
        self._watchdog_thread: threading.Thread | None = None
        self._stopping, self._rest = False, b""
        self._last_progress_time = int(time.time())
        self._remove()
        # Only this user may ask for signals.
        os.mkfifo(file_path, 0o600)
        self._reader = os.open(file_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # A pipe that has a writer does not end, and `stop` wakes the thread through it.
        self._writer = os.open(file_path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def start(self):
        """Begins to watch."""
        self._watchdog_thread = threading.Thread(target=self._watchdog_loop, daemon=self._daemon)
        self._watchdog_thread.start()
        self._log_event("watchdog started", None)

    def stop(self):
        """Ends the watch, and removes the pipe."""
        self.run_once()
        self._log_event("watchdog stopped", None)

    def run_once(self):
        """Takes the requests that have come, ends the watch, and removes the pipe."""
        self._stopping = True
        if self._watchdog_thread is not None:
            with contextlib.suppress(BlockingIOError):  # a full pipe wakes the thread as well
                os.write(self._writer, b"\n")
            self._watchdog_thread.join()
            self._watchdog_thread = None
        for file in (self._reader, self._writer):
            if file >= 0:
                os.close(file)
        self._reader = self._writer = -1
        self._remove()

    def _remove(self):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._file_path)

    @staticmethod
    def is_process_running(pid):
        """Whether there is a process with this number to which signals can be sent."""
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return True

    def get_last_progress_time(self):
        """When the server last looked at the timers, in whole seconds as those of `time.time`; now, if it does not run."""
        return self._last_progress_time if self._watchdog_thread is not None else int(time.time())

    def register_timers(self, timer_requests):
        """Takes a list of requests."""
        for request in timer_requests:
            self._timers.register(request.worker_pid, request)

    def clear_timers(self, worker_pids):
        """Forgets the timers of a set of processes, and of those that have ended."""
        self._timers.clear(
            {*worker_pids, *(pid for pid in self._timers.processes() if not self.is_process_running(pid))}
        )

    def get_expired_timers(self, deadline):
        """A dict of the requests that are over at a time, the earliest first, by process."""
        return self._timers.expired(deadline)

    def _watchdog_loop(self):
        stopping = False
        while not stopping:
            stopping = self._stopping
            try:
                self.register_timers(self._requests(0 if stopping else self._wait()))
                self._reap()
            except Exception:
                logger.exception("Error running watchdog")
            self._last_progress_time = int(time.time())

    def _wait(self):
        """The seconds until the next look."""
        end = self._timers.next_end()
        return self._max_interval if end is None else min(self._max_interval, max(0, end - time.time()))

    def _requests(self, seconds):
        """The requests that have come, or come within some seconds."""
        select.select([self._reader], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            self._rest += os.read(self._reader, _CHUNK)
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest[-select.PIPE_BUF :]
        return [request for line in lines if line and (request := _request(line)) is not None]

    def _reap(self):
        found, ended = self.get_expired_timers(time.time()), 0
        if found:
            logger.info("Timers expired for run:[%s] [%s].", self._run_id, found)
        for process, requests in found.items():
            for request in requests:
                self._log_event("timer expired", request)
            request = next((request for request in requests if request.signal > 0), None)
            if request is None:
                logger.info("No signal specified with worker=[%s]. Do not reap it.", process)
            elif kill(process, request.signal):
                self._log_event("kill worker process", request)
                ended = request.signal
        self.clear_timers(found.keys())
        if ended:
            logger.info("Terminating the server process=[%s] because of expired timers", os.getpid())
            self._remove()  # the signal may leave no time for it
            kill(os.getpid(), ended)


def _request(line):
    """The request of a line. None if it is none, as any process of the user may write to the pipe."""
    try:
        fields = json.loads(line)
        number, end = int(fields["signal"]), float(fields["expiration_time"])
        if math.isnan(end) or number not in range(min(number, 1), signal.NSIG):
            raise ValueError
        return FileTimerRequest(fields["pid"], str(fields["scope_id"]), end, number)
    except (ValueError, TypeError, KeyError, RecursionError):
        logger.error("Not a FileTimerRequest: %r", line[:100])
        return None
