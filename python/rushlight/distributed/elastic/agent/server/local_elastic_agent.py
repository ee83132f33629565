"""The agent whose workers are processes of this machine."""

import contextlib
import os
import signal
import tempfile
import uuid
from string import Template

from rushlight.distributed.elastic import timer
from rushlight.distributed.elastic.multiprocessing import start_processes

from .api import RunResult, SimpleElasticAgent, WorkerState

__all__ = ["LocalElasticAgent"]

_TIMER_FILE = "TORCHELASTIC_TIMER_FILE"
#: Seconds between looks at the timers.
_TIMER_INTERVAL = 0.1


def __dir__() -> list[str]:
    return __all__


class LocalElasticAgent(SimpleElasticAgent):
    """Starts the workers of a machine as processes, and watches them.

    If the variable ``TORCHELASTIC_ENABLE_FILE_TIMER`` is 1, it has a `FileTimerServer`, whose pipe is ``TORCHELASTIC_TIMER_FILE`` or a new
    one. Workers find its path in that variable.

    Args:
        spec: a `WorkerSpec`.
        logs_specs: where output goes, a `LogsSpecs`.
        start_method: how processes of a function start: ``"spawn"``, ``"fork"`` or ``"forkserver"``.
        exit_barrier_timeout: accepted.
        log_line_prefix_template: what stands before lines on the terminal, such as ``"[${role_name} ${rank} ${local_rank}]:"``.
        shutdown_timeout: the seconds that processes have to end.

    >>> elastic = torch.distributed.elastic
    >>> parameters = elastic.rendezvous.RendezvousParameters("c10d", "localhost:0", "job", min_nodes=1, max_nodes=1)
    >>> handler = elastic.rendezvous.registry.get_rendezvous_handler(parameters)
    >>> spec = elastic.agent.server.WorkerSpec("trainer", 2, handler, entrypoint=pow, args=(2, 3))
    >>> logs = elastic.multiprocessing.DefaultLogsSpecs()
    >>> agent = elastic.agent.server.local_elastic_agent.LocalElasticAgent(spec, logs, "fork")
    >>> agent.run().return_values
    {0: 8, 1: 8}
    """

    def __init__(
        self,
        spec,
        logs_specs,
        start_method="spawn",
        exit_barrier_timeout=300,
        log_line_prefix_template=None,
        shutdown_timeout=30,
    ):
        super().__init__(spec, exit_barrier_timeout, shutdown_timeout)
        self._logs_specs, self._start_method = logs_specs, start_method
        self._prefix, self._context, self._timer_file = log_line_prefix_template, None, os.getenv(_TIMER_FILE)

    def run(self, role="default"):
        """Runs the workers to their end, as `SimpleElasticAgent` does."""
        with self._watchdog():
            return super().run(role)

    @contextlib.contextmanager
    def _watchdog(self):
        if os.getenv("TORCHELASTIC_ENABLE_FILE_TIMER") != "1":
            yield
            return
        if self._timer_file is None:
            self._timer_file = os.path.join(tempfile.gettempdir(), f"watchdog_timer_{uuid.uuid4()}")
        job = self._worker_group.spec.rdzv_handler.get_run_id()
        server = timer.FileTimerServer(self._timer_file, job, _TIMER_INTERVAL, log_event=self._tell_of_timer)
        server.start()
        try:
            yield
        finally:
            server.stop()

    def _tell_of_timer(self, what, request):
        self._events.of_timer(what, request, self._round, self._restarts)

    def _environment(self, group, worker):
        spec, local = group.spec, worker.local_rank
        own = {
            "RANK": str(worker.global_rank),
            "LOCAL_RANK": "0" if spec.virtual_local_rank else str(local),
            "GROUP_RANK": str(group.group_rank),
            "ROLE_RANK": str(worker.role_rank),
            "ROLE_NAME": spec.role,
            "WORLD_SIZE": str(worker.world_size),
            "LOCAL_WORLD_SIZE": str(spec.local_world_size),
            "ROLE_WORLD_SIZE": str(worker.role_world_size),
            "GROUP_WORLD_SIZE": str(group.group_world_size),
            "MASTER_ADDR": group.master_addr,
            "MASTER_PORT": str(group.master_port),
            "TORCHELASTIC_RUN_ID": spec.rdzv_handler.get_run_id(),
            "TORCHELASTIC_RESTART_COUNT": str(self._round.number),
            "TORCHELASTIC_MAX_RESTARTS": str(spec.max_restarts),
            "TORCHELASTIC_USE_AGENT_STORE": str(spec.rdzv_handler.use_agent_store),
        }
        if self._timer_file is not None:
            own[_TIMER_FILE] = self._timer_file
        if spec.virtual_local_rank:
            seen = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
            own["CUDA_VISIBLE_DEVICES"] = seen[local] if local < len(seen) else str(local)
        if spec.local_world_size > 1 and "OMP_NUM_THREADS" not in os.environ:
            own["OMP_NUM_THREADS"] = "1"
        return own

    def _start_workers(self, worker_group):
        spec, workers = worker_group.spec, worker_group.workers
        prefixes = None
        if self._prefix is not None:
            prefixes = {
                one.local_rank: Template(self._prefix).safe_substitute(
                    role_name=spec.role, rank=one.global_rank, local_rank=one.local_rank
                )
                for one in workers
            }
        self._context = start_processes(
            name=spec.role,
            entrypoint=spec.entrypoint,
            args={one.local_rank: tuple(spec.args) for one in workers},
            envs={one.local_rank: self._environment(worker_group, one) for one in workers},
            logs_specs=self._logs_specs,
            log_line_prefixes=prefixes,
            start_method=self._start_method,
            numa_options=spec.numa_options,
            duplicate_stdout_filters=spec.duplicate_stdout_filters,
            duplicate_stderr_filters=spec.duplicate_stderr_filters,
        )
        return self._context.pids()

    def _stop_workers(self, worker_group, death_sig=signal.SIGTERM):
        if self._context is not None:
            self._context.close(death_sig, self._shutdown_timeout)

    def _monitor_workers(self, worker_group):
        result = self._context._poll()
        if result is None:
            return RunResult(WorkerState.HEALTHY)
        state = WorkerState.FAILED if result.is_failed() else WorkerState.SUCCEEDED
        return RunResult(state, result.return_values, result.failures)
