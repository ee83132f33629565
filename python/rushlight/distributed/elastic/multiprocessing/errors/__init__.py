"""Errors of the processes of torchrun."""

import contextlib
import functools
import json
import os
import signal
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ProcessFailure", "ChildFailedError", "record", "ErrorHandler", "get_error_handler"]


def __dir__() -> list[str]:
    return __all__


_NONE = "<N/A>"
_UNTOLD = {"message": "<NONE>", "errorTraits": {"category": "system_terminated_error", "retryability": "False"}}


@dataclass
class ProcessFailure:
    """A process that failed.

    Args:
        local_rank, pid: the process.
        exitcode: its exit code; negative if a signal ended it.
        error_file: the file that `record` writes. Its contents are the attribute `error_file_data`, from which `message` and
            `timestamp`, in seconds, come; if there is none, the message names the signal.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: Any = field(init=False)
    message: Any = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self):
        try:
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            self.message = self.error_file_data["message"]
            self.timestamp = int(self.message["extraInfo"]["timestamp"])
        except (OSError, ValueError, LookupError, TypeError):
            self.error_file, self.error_file_data, self.timestamp = _NONE, _UNTOLD, int(time.time())
            if self.exitcode < 0:
                self.message = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
            else:
                self.message = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"

    def signal_name(self) -> str:
        """The name of the signal that ended the process.

        >>> torch.distributed.elastic.multiprocessing.errors.ProcessFailure(0, 1234, -9, "").signal_name()
        'SIGKILL'
        """
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return _NONE

    def timestamp_isoformat(self) -> str:
        """The time of the failure."""
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))

    def _cause(self) -> str:
        return f"signal {self.signal_name()}" if self.exitcode < 0 else f"exit code {self.exitcode}"


class ChildFailedError(Exception):
    """Processes of a program have failed, and there are no restarts left.

    Args:
        name: the program.
        failures: the `ProcessFailure` of each rank that failed.

    Raises:
        AssertionError: there are no failures.
    """

    def __init__(self, name, failures):
        if not failures:
            raise AssertionError("no process failed")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self):
        """The rank that failed first, and its `ProcessFailure`. One that a signal ended is the cause of errors in the others."""
        return min(self.failures.items(), key=lambda one: (one[1].exitcode > 0, one[1].timestamp))

    def format_msg(self):
        """The message: the first failure, with the error that `record` has written, and the ranks of the others."""
        rank, first = self.get_first_failure()
        lines = [f"{self.name} FAILED", f"  rank {rank} failed with {first._cause()} (process {first.pid})"]
        if isinstance(first.message, dict):
            text = first.message.get("extraInfo", {}).get("py_callstack") or first.message.get("message", "")
            lines += [f"    {line}" for line in str(text).splitlines()]
        lines += [
            f"  rank {other} failed with {failure._cause()} (process {failure.pid})"
            for other, failure in self.failures.items()
            if other != rank
        ]
        return "\n".join(lines)


class ErrorHandler:
    """Writes errors to the file that TORCHELASTIC_ERROR_FILE names; torchrun sets it."""

    def initialize(self):
        """Called before the program."""

    def record_exception(self, e):
        """Called with the error that ends the program."""
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if path:
            trace = "".join(traceback.format_exception(e))
            details = {"py_callstack": trace, "timestamp": str(int(time.time()))}
            # The error itself matters more than its record.
            with contextlib.suppress(OSError), open(path, "w") as file:
                json.dump({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": details}}, file)


def get_error_handler():
    """The handler that `record` uses by default.

    >>> torch.distributed.elastic.multiprocessing.errors.get_error_handler().initialize()
    """
    return ErrorHandler()


def record(fn, error_handler=None):
    """Decorates the main function of a program: an error is also written to the file that TORCHELASTIC_ERROR_FILE names.

    Args:
        fn: the function.
        error_handler: an object with ``initialize()`` and ``record_exception(error)`` in place of the file.

    >>> torch.distributed.elastic.multiprocessing.errors.record(lambda: 3)()
    3
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            # The program has ended by itself, well or with its own message.
            if error.code not in (None, 0):
                handler.record_exception(error)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
