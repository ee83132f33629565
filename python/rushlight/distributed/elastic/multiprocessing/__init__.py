"""Processes of torchrun."""

from . import api, errors
from .api import (
    DefaultLogsSpecs,
    LogsDest,
    LogsSpecs,
    MultiprocessContext,
    PContext,
    RunProcsResult,
    SignalException,
    Std,
    SubprocessContext,
    to_map,
)
from .errors import ProcessFailure

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "ProcessFailure",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "start_processes",
    "to_map",
]


def __dir__() -> list[str]:
    return [*__all__, "api", "errors"]


def start_processes(
    name,
    entrypoint,
    args,
    envs,
    logs_specs,
    log_line_prefixes=None,
    start_method="spawn",
    numa_options=None,
    duplicate_stdout_filters=None,
    duplicate_stderr_filters=None,
):
    """Starts a function or a command in several processes.

    Args:
        name: a name for the processes.
        entrypoint: a function, or the path of a command.
        args: the arguments, a tuple for each local rank.
        envs: variables for each local rank.
        logs_specs: where output goes, a `LogsSpecs`.
        log_line_prefixes: what stands before each process's lines on the terminal.
        start_method: how processes of a function start: ``"spawn"``, ``"fork"`` or ``"forkserver"``.
        numa_options: `torch.numa.binding.NumaOptions`, which bind each process to CPUs near the GPU of its local rank.
        duplicate_stdout_filters, duplicate_stderr_filters: texts. Lines of a teed stream that contain one of them are also written to one file
            for all processes, ``filtered_stdout.log`` or ``filtered_stderr.log``.

    Returns:
        a `PContext`.

    Raises:
        RuntimeError: `args` and `envs` have not the same local ranks, from 0 on.

    >>> multiprocessing = torch.distributed.elastic.multiprocessing
    >>> specs = multiprocessing.DefaultLogsSpecs()
    >>> started = multiprocessing.start_processes("pow", pow, {0: (2, 3), 1: (2, 4)}, {0: {}, 1: {}}, specs, start_method="fork")
    >>> started.wait().return_values
    {0: 8, 1: 16}
    """
    options = log_line_prefixes, numa_options, duplicate_stdout_filters, duplicate_stderr_filters
    if callable(entrypoint):
        made = MultiprocessContext(name, entrypoint, args, envs, start_method, logs_specs, *options)
    else:
        made = SubprocessContext(name, entrypoint, args, envs, logs_specs, *options)
    try:
        made.start()
    except BaseException as error:
        made.close(error.sigval if isinstance(error, SignalException) else None)
        raise
    return made
