"""Processes that a launcher starts: their environment, their output, how they end, and what their functions return."""

import abc
import contextlib
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from rushlight._set_module import set_module
from rushlight.numa.binding import cpus_for

from ._logs import DefaultLogsSpecs, LogsDest, LogsSpecs, Std, to_map
from ._signals import SignalException, held
from .errors import ProcessFailure, record

__all__ = [
    "DefaultLogsSpecs",
    "SignalException",
    "Std",
    "to_map",
    "RunProcsResult",
    "PContext",
    "MultiprocessContext",
    "SubprocessContext",
    "LogsDest",
    "LogsSpecs",
]


def __dir__() -> list[str]:
    return __all__


set_module(__name__, DefaultLogsSpecs, LogsDest, LogsSpecs, SignalException, Std, to_map)

_PR_SET_PDEATHSIG = 1


def _ends_with(parent, cpus=None):
    """What a new process calls first, so that it gets SIGTERM when the launcher ends, however that happens, and uses these CPUs."""
    library = ctypes.CDLL(None)

    def begin():
        if cpus is not None:
            os.sched_setaffinity(0, cpus)
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return begin


@dataclass
class RunProcsResult:
    """How processes ended.

    Args:
        return_values: what the functions returned, by local rank; None for commands.
        failures: the `ProcessFailure` of each process that failed.
        stdouts, stderrs: their files.
    """

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether a process failed."""
        return bool(self.failures)


class PContext(abc.ABC):
    """Processes of one program, one for each local rank.

    Args:
        name: a name for the processes.
        entrypoint: a function or a command.
        args: the arguments of each process.
        envs: variables that each process gets besides those of the launcher.
        logs_specs: where output goes.
        log_line_prefixes: what stands before a process's lines on the terminal, by default ``[name0]:``.
        numa_options: `NumaOptions`, which bind each process to CPUs near the GPU of its local rank.
        duplicate_stdout_filters, duplicate_stderr_filters: texts. Lines of a teed stream that contain one of them are also written to one file
            for all processes, ``filtered_stdout.log`` or ``filtered_stderr.log``.

    Raises:
        RuntimeError: `args` and `envs` have not the same local ranks, from 0 on.
    """

    def __init__(
        self,
        name,
        entrypoint,
        args,
        envs,
        logs_specs,
        log_line_prefixes=None,
        numa_options=None,
        duplicate_stdout_filters=None,
        duplicate_stderr_filters=None,
    ):
        for what, found in (("args", args), ("envs", envs)):
            if set(found) != set(range(len(args))):
                raise RuntimeError(
                    f"{what}, local rank mapping mismatch, expected: {set(range(len(args)))}, actual: {set(found)}"
                )
        self.name, self.entrypoint, self.args, self.envs = name, entrypoint, args, envs
        self.nprocs, self._prefixes, self._numa = len(args), log_line_prefixes or {}, numa_options
        self._logs = logs_specs.reify(envs)
        self.stdouts, self.stderrs = self._logs.stdouts, self._logs.stderrs
        self.error_files = self._logs.error_files
        self._filters = {"stdout": duplicate_stdout_filters, "stderr": duplicate_stderr_filters}
        self._filtered: dict[str, _Filtered] = {}
        self._processes: dict[int, Any] = {}
        self._copiers: list[threading.Thread] = []

    def start(self):
        """Starts the processes."""
        for rank in range(self.nprocs):
            with held(), contextlib.ExitStack() as own:
                streams = {name: self._stream(rank, name, own) for name in ("stdout", "stderr")}
                env = {"TORCHELASTIC_ERROR_FILE": self.error_files[rank], **self.envs[rank]}
                self._processes[rank] = self._start_one(rank, env, streams)

    def _stream(self, rank, name, own):
        """Where a stream of a process goes, or None for that of the launcher."""
        tee = getattr(self._logs, f"tee_{name}s").get(rank)
        path = tee or getattr(self._logs, f"{name}s").get(rank)
        if not path:
            return None
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        if not tee:
            return own.enter_context(Connection(file, readable=False))
        source, target = os.pipe2(os.O_CLOEXEC)
        prefix = self._prefixes.get(rank, f"[{self.name}{rank}]:")
        copier = threading.Thread(
            target=_copy, args=(source, file, getattr(sys, name), prefix, self._filter(name)), daemon=True
        )
        copier.start()
        self._copiers.append(copier)
        return own.enter_context(Connection(target, readable=False))

    def _filter(self, name):
        """The file of a stream's lines that contain a filter's text, which all processes share. None without filters."""
        texts, path = self._filters[name], getattr(self._logs, f"filtered_{name}")
        if name not in self._filtered and texts and path:
            self._filtered[name] = _Filtered(path, texts)
        return self._filtered.get(name)

    @abc.abstractmethod
    def _start_one(self, rank, env, streams):
        """Starts a process whose streams are the given connections."""

    @abc.abstractmethod
    def _exit_code(self, process):
        """The exit code of a process, or None while it runs."""

    @abc.abstractmethod
    def _join(self, process, seconds):
        """Waits for the end of a process, None for as long as it takes."""

    def _return_values(self):
        """What the processes have returned until now."""
        return dict.fromkeys(range(self.nprocs))

    def _poll(self):
        """How the processes ended, or None while they run. The others may still run when one has failed."""
        with held():
            codes = {rank: self._exit_code(process) for rank, process in self._processes.items()}
        values = self._return_values()
        failures = {
            rank: ProcessFailure(rank, self._processes[rank].pid, code, self.error_files[rank])
            for rank, code in codes.items()
            if code
        }
        if failures:
            return RunProcsResult({}, failures, self.stdouts, self.stderrs)
        if any(code is None for code in codes.values()):
            return None
        return RunProcsResult(values, {}, self.stdouts, self.stderrs)

    def wait(self, timeout=-1, period=1):
        """Waits until all processes have ended, or one has failed, which ends the others.

        Args:
            timeout: after how many seconds None is returned; a negative number for no end.
            period: the seconds between looks at the processes.

        Returns:
            a `RunProcsResult`.
        """
        deadline = float("inf") if timeout < 0 else time.monotonic() + timeout
        while True:
            result = self._poll()
            if result is not None:
                self.close()
                return result
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(period, left))

    def pids(self):
        """The processes' numbers, by local rank."""
        return {rank: process.pid for rank, process in self._processes.items()}

    def close(self, death_sig=None, timeout=30):
        """Ends the processes that still run.

        Args:
            death_sig: the signal that they get, by default SIGTERM.
            timeout: after how many seconds those that do not end are killed.
        """
        with held():
            self._close(death_sig or signal.SIGTERM, timeout)

    def _close(self, death_sig, timeout):
        for process in self._processes.values():
            if self._exit_code(process) is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, death_sig)
        deadline = time.monotonic() + timeout
        for process in self._processes.values():
            self._join(process, max(0.0, deadline - time.monotonic()))
            if self._exit_code(process) is None:
                process.kill()
                self._join(process, None)
        for copier in self._copiers:
            copier.join(5)
        for filtered in self._filtered.values():
            filtered.close()


class _Filtered:
    """A file of the lines that contain one of several texts."""

    def __init__(self, path, texts):
        self._texts = texts
        self._file = open(path, "w", errors="replace", buffering=1)
        self._writing = threading.Lock()

    def write(self, prefix, line):
        if any(text in line for text in self._texts):
            with self._writing:
                if not self._file.closed:
                    self._file.write(f"{prefix}{line}")

    def close(self):
        with self._writing:
            self._file.close()


def _copy(source, file, terminal, prefix, filtered):
    """Copies lines to a file, and with the name of the process to the terminal and to the file of filtered lines."""
    with open(source, "rb") as lines, open(file, "wb", buffering=0) as log:
        for line in lines:
            log.write(line)
            text = line.decode(errors="replace")
            terminal.write(f"{prefix}{text}")
            terminal.flush()
            if filtered is not None:
                filtered.write(prefix, text)


class SubprocessContext(PContext):
    """Processes of a command (`PContext`)."""

    def _start_one(self, rank, env, streams):
        targets = {name: None if stream is None else stream.fileno() for name, stream in streams.items()}
        return subprocess.Popen(
            [self.entrypoint, *map(str, self.args[rank])],
            env={**os.environ, **env},
            preexec_fn=_ends_with(os.getpid(), None if self._numa is None else cpus_for(self._numa, rank)),
            **targets,
        )

    def _exit_code(self, process):
        return process.poll()

    def _join(self, process, seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


class MultiprocessContext(PContext):
    """Processes of a function (`PContext`).

    Args:
        name, entrypoint, args, envs, logs_specs, log_line_prefixes, numa_options, duplicate_stdout_filters,
            duplicate_stderr_filters: as for `PContext`.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``.
    """

    def __init__(
        self,
        name,
        entrypoint,
        args,
        envs,
        start_method,
        logs_specs,
        log_line_prefixes=None,
        numa_options=None,
        duplicate_stdout_filters=None,
        duplicate_stderr_filters=None,
    ):
        super().__init__(
            name,
            entrypoint,
            args,
            envs,
            logs_specs,
            log_line_prefixes,
            numa_options,
            duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
        self._context = multiprocessing.get_context(start_method)
        self._results: dict[int, Connection] = {}
        self._values: dict[int, Any] = {}

    def _start_one(self, rank, env, streams):
        own, theirs = self._context.Pipe()
        with theirs:
            process = self._context.Process(
                target=_call,
                args=(self.entrypoint, self.args[rank], env, streams, theirs, os.getpid(), self._numa, rank),
            )
            process.start()
        self._results[rank] = own
        return process

    def _exit_code(self, process):
        return process.exitcode

    def _join(self, process, seconds):
        process.join(seconds)

    def _return_values(self):
        for rank, results in self._results.items():
            # A process that ended by itself has sent nothing.
            with contextlib.suppress(EOFError, OSError):
                if rank not in self._values and results.poll():
                    self._values[rank] = results.recv()
                    results.send(None)
        return {rank: self._values.get(rank) for rank in range(self.nprocs)}

    def _close(self, death_sig, timeout):
        self._return_values()
        super()._close(death_sig, timeout)
        for results in self._results.values():
            results.close()


def _call(function, args, env, streams, results, parent, numa, rank):
    """Calls the function in a new process. Sends what it returns, and waits until that has been read."""
    # Here, because a GPU that the launcher has asked about could not be used in forked processes.
    cpus = None if numa is None else cpus_for(numa, rank)
    if cpus is not None:
        os.sched_setaffinity(0, cpus)
    # A server of forks is the parent of its processes, and ends by itself.
    if os.getppid() == parent:
        _ends_with(parent)()
    os.environ.update(env)
    for number, stream in enumerate(streams.values(), 1):
        if stream is not None:
            os.dup2(stream.fileno(), number)
    value = record(function)(*args)
    with contextlib.suppress(EOFError, OSError):
        results.send(value)
        results.recv()
