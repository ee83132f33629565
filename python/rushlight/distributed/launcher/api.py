"""Starts a function or a command in several processes, as torchrun does."""

import os
import sys
import uuid
from dataclasses import dataclass, field
from typing import Any

from rushlight.distributed.elastic.agent.server import WorkerSpec
from rushlight.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from rushlight.distributed.elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs, _signals
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError
from rushlight.distributed.elastic.rendezvous import RendezvousParameters
from rushlight.distributed.elastic.rendezvous.registry import get_rendezvous_handler
from rushlight.numa.binding import NumaOptions

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


def __dir__() -> list[str]:
    return __all__


@dataclass
class LaunchConfig:
    """How processes are started.

    Args:
        min_nodes, max_nodes: the least and the largest number of machines.
        nproc_per_node: the number of processes on this one.
        logs_specs: where output goes, a `LogsSpecs`, by default the terminal.
        run_id: the name of the job, which all machines give; by default a new one.
        role: a name for the processes.
        rdzv_endpoint: ``HOST:PORT`` of the store, on one of the machines.
        rdzv_backend: how machines meet: ``"c10d"``, ``"static"``, or a registered name.
        rdzv_configs: options of that, such as ``{"join_timeout": 600}``.
        rdzv_timeout: the seconds in which machines must come, if it is not -1.
        max_restarts: how often all begin again after a failure.
        monitor_interval: the seconds between looks at the processes.
        start_method: how processes of a function start: ``"spawn"``, ``"fork"`` or ``"forkserver"``.
        log_line_prefix_template: what stands before lines on the terminal, such as ``"[${role_name}${rank}]:"``.
        metrics_cfg: accepted.
        local_addr: the host name of this machine.
        event_log_handler: where events go.
        numa_options: `torch.numa.binding.NumaOptions`, which bind processes to CPUs near their GPUs.
        signals_to_handle: the signals that end the processes.
        duplicate_stdout_filters, duplicate_stderr_filters: texts. Lines of a teed stream that contain one of them are also written to one file
            for all processes, ``filtered_stdout.log`` or ``filtered_stderr.log``.
        virtual_local_rank: every process sees its own GPU alone, and has the LOCAL_RANK 0.
        shutdown_timeout: the seconds before processes that do not end are killed, by default 30.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: NumaOptions | None = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self):
        if self.rdzv_timeout != -1:
            self.rdzv_configs["join_timeout"] = self.rdzv_timeout
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()
        if self.shutdown_timeout is None:
            self.shutdown_timeout = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 30))


def launch_agent(config, entrypoint, args):
    """Starts a function or a command on this machine, and waits until those of all machines have ended.

    Args:
        config: a `LaunchConfig`.
        entrypoint: the function or command.
        args: a list of its arguments.

    Returns:
        what the functions on this machine returned, by global rank; None for commands.

    Raises:
        ChildFailedError: a process has failed, and there are no restarts left.
        SignalException: a signal ended this process.
    """
    with _signals.handled(config.signals_to_handle):
        config.run_id = config.run_id or str(uuid.uuid4())
        parameters = RendezvousParameters(
            config.rdzv_backend,
            config.rdzv_endpoint,
            config.run_id,
            config.min_nodes,
            config.max_nodes,
            config.local_addr,
            **config.rdzv_configs,
        )
        spec = WorkerSpec(
            config.role,
            config.nproc_per_node,
            get_rendezvous_handler(parameters),
            entrypoint=entrypoint,
            args=tuple(args),
            max_restarts=config.max_restarts,
            monitor_interval=config.monitor_interval,
            event_log_handler=config.event_log_handler,
            numa_options=config.numa_options,
            duplicate_stdout_filters=config.duplicate_stdout_filters,
            duplicate_stderr_filters=config.duplicate_stderr_filters,
            virtual_local_rank=config.virtual_local_rank,
        )
        agent = LocalElasticAgent(
            spec,
            config.logs_specs,
            config.start_method,
            log_line_prefix_template=config.log_line_prefix_template,
            shutdown_timeout=config.shutdown_timeout,
        )
        result = agent.run()
    if result.is_failed():
        raise ChildFailedError(_name(entrypoint, args), result.failures)
    return result.return_values


def _name(entrypoint, args):
    """What failures call a program: the function, the command, or the program that Python runs."""
    if callable(entrypoint):
        return entrypoint.__name__
    own = (arg for arg in args if not arg.startswith("-"))
    return next(own, entrypoint) if entrypoint == sys.executable else entrypoint


class elastic_launch:
    """A function or command that, when it is called, runs in several processes.

    Args:
        config: a `LaunchConfig`.
        entrypoint: the function or command.

    >>> launcher = torch.distributed.launcher
    >>> config = launcher.LaunchConfig(1, 1, 2, rdzv_backend="c10d", rdzv_endpoint="localhost:0", start_method="fork")
    >>> launcher.elastic_launch(config, pow)(2, 10)
    {0: 1024, 1: 1024}
    """

    def __init__(self, config, entrypoint):
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args):
        """Runs it with the arguments.

        Returns:
            what it returned in the processes of this machine, by global rank.

        Raises:
            ChildFailedError: a process has failed, and there are no restarts left.
        """
        return launch_agent(self._config, self._entrypoint, list(args))
