"""What machines tell each other between the start of all processes and their end."""

import json
from dataclasses import dataclass, field

from rushlight.distributed.elastic.multiprocessing.errors import ProcessFailure


@dataclass
class Interruption:
    """Why the processes of all machines end before their work is done.

    Args:
        reason: a sentence.
        is_failure: whether something failed. Otherwise another machine came.
        failures: the `ProcessFailure` of ranks that failed.
    """

    reason: str
    is_failure: bool
    failures: dict[int, ProcessFailure] = field(default_factory=dict)


class Round:
    """One start of all processes, as this machine sees it.

    Args:
        info: the `RendezvousInfo`.
        count: the number of processes on this machine.
        attempt: the number of the start, if the rendezvous has none.
    """

    def __init__(self, info, count, attempt):
        self._store, self.node = info.store, info.rank
        if self.node == 0 and not self._store.check(["attempt"]):
            self._store.set("attempt", str(attempt))
        self._store.set(f"count/{self.node}", str(count))
        self.counts = [int(self._store.get(f"count/{other}")) for other in range(info.world_size)]
        self.number = int(self._store.get("attempt"))

    @property
    def first(self):
        """The rank of the first process on this machine."""
        return sum(self.counts[: self.node])

    def interrupt(self, interruption):
        """Tells all machines that their processes end, and why.

        The first reason stands, because the processes of a machine that ends fail those of the others.
        """
        failures = {
            rank: [one.local_rank, one.pid, one.exitcode, one.message, one.timestamp]
            for rank, one in interruption.failures.items()
        }
        self._store.compare_set("news", "", json.dumps([interruption.reason, interruption.is_failure, failures]))

    def interruption(self):
        """Why all processes end; None while they go on."""
        if not self._store.check(["news"]):
            return None
        reason, is_failure, listed = json.loads(self._store.get("news"))
        failures = {}
        for rank, (local_rank, pid, code, message, timestamp) in listed.items():
            failure = failures[int(rank)] = ProcessFailure(local_rank, pid, code, "")
            failure.message, failure.timestamp = message, timestamp
        return Interruption(reason, is_failure, failures)

    def finish(self):
        """Notes that the processes of this machine ended well."""
        self._store.set(f"done/{self.node}", "")

    def is_done(self, *nodes):
        """Whether the processes of these machines, by default of all, ended well."""
        return self._store.check([f"done/{node}" for node in nodes or range(len(self.counts))])
