"""Agents, and what they say of their processes, the workers."""

import abc
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rushlight.distributed.elastic.multiprocessing import SignalException, _signals
from rushlight.distributed.elastic.multiprocessing.errors import ProcessFailure
from rushlight.distributed.elastic.rendezvous import RendezvousGracefulExitError, RendezvousHandler
from rushlight.distributed.store import DistError
from rushlight.numa.binding import NumaOptions

from ._events import Events
from ._round import Interruption, Round

__all__ = ["WorkerSpec", "Worker", "WorkerState", "WorkerGroup", "RunResult", "ElasticAgent", "SimpleElasticAgent"]


def __dir__() -> list[str]:
    return __all__


@dataclass
class WorkerSpec:
    """The workers of a machine.

    Args:
        role: a name for them.
        local_world_size: how many there are.
        rdzv_handler: the `RendezvousHandler` through which machines meet.
        fn: the old name of `entrypoint`.
        entrypoint: a function or a command.
        args: its arguments.
        max_restarts: how often all begin again after a failure.
        monitor_interval: the seconds between looks at them.
        master_port, master_addr: accepted; the rendezvous gives the address.
        local_addr: accepted.
        event_log_handler: where events go.
        numa_options: `torch.numa.binding.NumaOptions`, which bind workers to CPUs near their GPUs.
        duplicate_stdout_filters, duplicate_stderr_filters: texts. Lines of a teed stream that contain one of them are also written to one file
            for all processes, ``filtered_stdout.log`` or ``filtered_stderr.log``.
        virtual_local_rank: each worker sees its own GPU alone, and has the LOCAL_RANK 0.

    Raises:
        AssertionError: a number is not positive, or there is nothing to run.
    """

    role: str
    local_world_size: int
    rdzv_handler: RendezvousHandler
    fn: Callable[..., Any] | None = None
    entrypoint: Callable[..., Any] | str | None = None
    args: tuple[Any, ...] = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: NumaOptions | None = None
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False

    def __post_init__(self):
        if self.local_world_size < 1:
            raise AssertionError(f"local_world_size is {self.local_world_size}, and must be at least 1")
        if not self.monitor_interval > 0:
            raise AssertionError(f"monitor_interval is {self.monitor_interval}, and must be positive")
        if self.fn is not None:
            warnings.warn(
                "WorkerSpec.fn will be deprecated, please use WorkerSpec.entrypoint instead",
                DeprecationWarning,
                stacklevel=3,
            )
            self.entrypoint = self.fn
        if self.entrypoint is None:
            raise AssertionError("entrypoint is None\n  Give a function or a command.")

    def get_entrypoint_name(self):
        """The name of the function, or of the command's file."""
        return getattr(self.entrypoint, "__qualname__", None) or os.path.basename(self.entrypoint)


class Worker:
    """A process of the program, and its place."""

    def __init__(self, local_rank, global_rank=-1, role_rank=-1, world_size=-1, role_world_size=-1):
        self.id = None
        self.local_rank, self.global_rank, self.role_rank = local_rank, global_rank, role_rank
        self.world_size, self.role_world_size = world_size, role_world_size

    def __str__(self):
        return ",".join(f"{name}={value}" for name, value in vars(self).items() if name != "id")

    __repr__ = __str__


class WorkerState(str, Enum):  # noqa: UP042 - its text is "WorkerState.INIT", as in torch
    """The state of a machine's workers.

    >>> state = torch.distributed.elastic.agent.server.WorkerState
    >>> state.is_running(state.HEALTHY)
    True
    """

    UNKNOWN = "UNKNOWN"
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @staticmethod
    def is_running(state):
        """Whether processes exist, well or not."""
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The workers of a machine, their state, and the place of the machine among the others."""

    def __init__(self, spec):
        self.spec, self.workers = spec, [Worker(local_rank) for local_rank in range(spec.local_world_size)]
        self.store = self.group_rank = self.group_world_size = self.master_addr = self.master_port = None
        self.state = WorkerState.INIT


@dataclass
class RunResult:
    """How workers ended.

    Args:
        state: a `WorkerState`.
        return_values: what the functions on this machine returned, by global rank; None for commands.
        failures: the `ProcessFailure` of ranks that failed, on whichever machine.

    >>> server = torch.distributed.elastic.agent.server
    >>> server.RunResult(server.WorkerState.FAILED).is_failed()
    True
    """

    state: WorkerState
    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether the state is FAILED."""
        return self.state == WorkerState.FAILED


class ElasticAgent(abc.ABC):
    """What starts the workers of a machine, and watches them."""

    @abc.abstractmethod
    def run(self, role="default"):
        """Runs the workers to their end. Returns a `RunResult`."""

    @abc.abstractmethod
    def get_worker_group(self, role="default"):
        """The `WorkerGroup`."""


class SimpleElasticAgent(ElasticAgent):
    """An agent whose workers all have one role. It begins again after failures, and when machines come and go.

    A subclass says how workers start and end: `LocalElasticAgent`.

    Args:
        spec: a `WorkerSpec`.
        exit_barrier_timeout: accepted; machines wait until all have ended.
        shutdown_timeout: the seconds that workers have to end.
    """

    def __init__(self, spec, exit_barrier_timeout=300, shutdown_timeout=30):
        self._worker_group, self._shutdown_timeout = WorkerGroup(spec), shutdown_timeout
        self._restarts = self._starts = 0
        self._round: Round | None = None
        self._events = Events(spec)

    def get_worker_group(self, role="default"):
        """The `WorkerGroup`."""
        return self._worker_group

    @abc.abstractmethod
    def _start_workers(self, worker_group):
        """Starts the workers. Returns their ids by local rank."""

    @abc.abstractmethod
    def _stop_workers(self, worker_group, death_sig=signal.SIGTERM):
        """Ends those that still run."""

    @abc.abstractmethod
    def _monitor_workers(self, worker_group):
        """A `RunResult` of the workers as they are, by local rank."""

    def run(self, role="default"):
        """Runs the workers to their end.

        Returns:
            a `RunResult`.

        Raises:
            SignalException: a signal ended this process.
            DistError: a machine does not answer.
        """
        group = self._worker_group
        while True:
            try:
                self._begin(group)
                interruption, result = self._watch(group)
            except RendezvousGracefulExitError:
                return RunResult(WorkerState.SUCCEEDED)
            except BaseException as error:
                _signals.end()
                trace = traceback.format_exc()
                self._stop_workers(group, error.sigval if isinstance(error, SignalException) else signal.SIGINT)
                self._events.of_launcher("FAILED", current=self._round, restarts=self._restarts, error=trace)
                raise
            self._stop_workers(group)
            group.state = result.state
            failed, most = result.is_failed(), group.spec.max_restarts
            if interruption is None or (failed and self._restarts == most):
                break
            self._restarts += failed
            count = f"restart {self._restarts} of {most}" if failed else "all begin again"
            sys.stderr.write(f"torchrun: {interruption.reason}; {count}\n")
        self._events.of_end(failed, group, self._round, result.failures, self._restarts)
        group.spec.rdzv_handler.shutdown()
        if failed and not result.failures:
            raise DistError(interruption.reason)
        return result

    def _begin(self, group):
        begun, spec = time.monotonic(), group.spec
        info = spec.rdzv_handler.next_rendezvous()
        self._round = current = Round(info, spec.local_world_size, self._starts)
        self._starts += 1
        address = info.bootstrap_store_info
        group.store, group.group_rank, group.group_world_size = info.store, info.rank, info.world_size
        group.master_addr, group.master_port = address.master_addr, address.master_port
        self._events.of_launcher("RENDEZVOUS", begun, restarts=self._restarts)
        total = sum(current.counts)
        group.workers = [
            Worker(local, current.first + local, current.first + local, total, total)
            for local in range(spec.local_world_size)
        ]
        for local, number in self._start_workers(group).items():
            group.workers[local].id = number
        group.state = WorkerState.HEALTHY
        for worker in group.workers:
            self._events.of_process("START", current, worker, restarts=self._restarts)

    def _watch(self, group):
        """Waits until the workers of all machines have ended well, or all have to end. Returns
        the `Interruption`, or None, and the result."""
        spec, current = group.spec, self._round
        result, own = None, {}
        while result is None or not current.is_done():
            if result is None:
                seen = self._monitor_workers(group)
                if seen.state == WorkerState.SUCCEEDED:
                    result = RunResult(
                        seen.state, {current.first + rank: one for rank, one in seen.return_values.items()}
                    )
                    current.finish()
                    continue
                if seen.is_failed():
                    own = {current.first + rank: one for rank, one in seen.failures.items()}
                    self._tell(current, own)
            for other in spec.rdzv_handler._lost():
                if not current.is_done(other):
                    current.interrupt(Interruption(f"machine {other} does not answer", is_failure=True))
            if spec.rdzv_handler.num_nodes_waiting() > 0:
                current.interrupt(Interruption("another machine came", is_failure=False))
            interruption = current.interruption()
            if interruption is not None:
                if not interruption.is_failure:
                    return interruption, RunResult(WorkerState.STOPPED)
                failures = {rank: own.get(rank, one) for rank, one in interruption.failures.items()}
                return interruption, RunResult(WorkerState.FAILED, {}, failures)
            time.sleep(spec.monitor_interval)
        return None, result

    def _tell(self, current, failures):
        """Tells all machines of failures."""
        # A process that a signal ended is the cause of errors in the others.
        rank, first = min(failures.items(), key=lambda one: one[1].exitcode > 0)
        if first.exitcode > 0 and len(current.counts) > 1:
            # Another machine may have that process, and tells of it first.
            time.sleep(2 * self._worker_group.spec.monitor_interval)
        reason = f"rank {rank} failed with {first._cause()}"
        current.interrupt(Interruption(reason, is_failure=True, failures=failures))
