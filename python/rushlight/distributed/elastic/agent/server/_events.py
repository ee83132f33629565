"""What an agent tells of its processes, for ``--event-log-handler``: torch's events, in torch's order."""

import json
import socket
import time

from rushlight.distributed.elastic.events import Event, EventSource, get_logging_handler, record

_ERROR = {"message": "<NONE>", "errorTraits": {"category": "system_terminated_error", "retryability": "False"}}


class Events:
    """The events of one agent.

    Args:
        spec: its `WorkerSpec`.

    Raises:
        ValueError: there is no such destination.
    """

    def __init__(self, spec):
        try:
            get_logging_handler(spec.event_log_handler)
        except KeyError:
            raise ValueError(
                f"--event-log-handler {spec.event_log_handler} is unknown\n  Choose console or null."
            ) from None
        self._destination, self._began = spec.event_log_handler, time.monotonic()
        self._spec, self._host, self._program = spec, socket.getfqdn(), spec.get_entrypoint_name()

    def of_launcher(self, state, begun=None, current=None, restarts=0, error=None):
        """Something that the agent did: since when, in which round, and the traceback of what ended it."""
        took = None if begun is None else 1000 * (time.monotonic() - begun)
        self._record(state, EventSource.AGENT, current, restarts, {}, {"duration_ms": took, "raw_error": error})

    def of_process(self, state, current, worker, code=None, restarts=0):
        """The state of a `Worker` of a round, and the exit code of one that failed."""
        failed = state == "FAILED"
        more = {
            "local_rank": [worker.local_rank],
            "role_rank": [worker.role_rank],
            "role_world_size": [worker.role_world_size],
            "exit_code": [code],
            "worker_pid": [worker.id if failed else None],
        }
        error = json.dumps(_ERROR) if failed else None
        own = {"global_rank": worker.global_rank, "worker_id": str(worker.id), "raw_error": error}
        self._record(state, EventSource.WORKER, current, restarts, more, own)

    def of_end(self, failed, group, current, failures, restarts):
        """How each process of a `WorkerGroup` has ended."""
        for worker in group.workers:
            failure = failures.get(worker.global_rank)
            state = "SUCCEEDED" if not failed else "TERMINATED" if failure is None else "FAILED"
            self.of_process(state, current, worker, failure and failure.exitcode, restarts)
        self.of_launcher("SUCCEEDED", current=current, restarts=restarts)

    def of_timer(self, what, request, current, restarts):
        """What a `FileTimerServer` did, and the `FileTimerRequest` for which it did it, or None."""
        more = {"watchdog_event": what}
        if request is not None:
            more |= {
                "worker_pid": str(request.worker_pid),
                "scope_id": request.scope_id,
                "expiration_time": str(request.expiration_time),
                "signal": str(request.signal),
            }
        self._record("RUNNING", EventSource.AGENT, current, restarts, more, {}, what)

    def _record(self, state, source, current, restarts, more, own, name=None):
        handler = self._spec.rdzv_handler
        more = {
            "group_world_size": None if current is None else len(current.counts),
            "entry_point": self._program,
            **more,
        }
        metadata = {
            "run_id": handler.get_run_id(),
            "global_rank": None,
            "group_rank": None if current is None else current.node,
            "worker_id": None,
            "role": self._spec.role,
            "hostname": self._host,
            "state": state,
            "total_run_time": int(time.monotonic() - self._began),
            "rdzv_backend": handler.get_backend(),
            "raw_error": None,
            "metadata": json.dumps(more),
            "agent_restarts": restarts,
            "duration_ms": None,
        }
        name = name or f"torchelastic.worker.status.{state}"
        record(Event(name, source, 0, metadata | own), self._destination)
