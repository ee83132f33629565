"""What torchrun tells of its processes, for ``--event-log-handler``: torch's events, in torch's order."""

import json
import os
import socket
import sys
import time

from rushlight.distributed.elastic.events import Event, EventSource, get_logging_handler, record

_ERROR = {"message": "<NONE>", "errorTraits": {"category": "system_terminated_error", "retryability": "False"}}


class Events:
    """The events of one command.

    Args:
        options: its parsed options.
        name: the name of the job.

    Raises:
        ValueError: there is no such destination.
    """

    def __init__(self, options, name):
        try:
            get_logging_handler(options.event_log_handler)
        except KeyError:
            raise ValueError(
                f"--event-log-handler {options.event_log_handler} is unknown\n  Choose console or null."
            ) from None
        self._destination, self._began = options.event_log_handler, time.monotonic()
        backend = "c10d" if options.standalone else options.rdzv_backend
        self._job = {"run_id": name, "role": options.role, "hostname": socket.getfqdn(), "rdzv_backend": backend}
        self._program = os.path.basename(options.training_script if options.no_python else sys.executable)

    def of_launcher(self, state, begun=None, current=None, restarts=0, error=None):
        """Something that the launcher did: since when, in which round, and the traceback of what ended it."""
        took = None if begun is None else 1000 * (time.monotonic() - begun)
        self._record(state, EventSource.AGENT, current, restarts, {}, {"duration_ms": took, "raw_error": error})

    def of_process(self, state, current, local, pid, code=None, restarts=0):
        """The state of a process of a round: its place on this machine, and the exit code of one that failed."""
        rank, failed = current.first + local, state == "FAILED"
        more = {"local_rank": [local], "role_rank": [rank], "role_world_size": [sum(current.counts)]}
        more |= {"exit_code": [code], "worker_pid": [pid if failed else None]}
        own = {"global_rank": rank, "worker_id": str(pid), "raw_error": json.dumps(_ERROR) if failed else None}
        self._record(state, EventSource.WORKER, current, restarts, more, own)

    def _record(self, state, source, current, restarts, more, own):
        more = {
            "group_world_size": None if current is None else len(current.counts),
            "entry_point": self._program,
            **more,
        }
        places = {"global_rank": None, "group_rank": None if current is None else current.node, "worker_id": None}
        metadata = {
            "run_id": self._job["run_id"],
            **places,
            "role": self._job["role"],
            "hostname": self._job["hostname"],
            "state": state,
            "total_run_time": int(time.monotonic() - self._began),
            "rdzv_backend": self._job["rdzv_backend"],
            "raw_error": None,
            "metadata": json.dumps(more),
            "agent_restarts": restarts,
            "duration_ms": None,
        }
        record(Event(f"torchelastic.worker.status.{state}", source, 0, metadata | own), self._destination)
