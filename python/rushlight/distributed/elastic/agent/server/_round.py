"""What machines tell each other between the start of all processes and their end."""

import json

from rushlight.distributed.elastic.multiprocessing.errors import ProcessFailure


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

    def end(self, why, failures=None):
        """Tells all machines that their processes end, and which ranks failed.

        The first reason stands, because the processes of a machine that ends fail those of the others.
        """
        told = {
            rank: [one.local_rank, one.pid, one.exitcode, one.message, one.timestamp]
            for rank, one in (failures or {}).items()
        }
        self._store.compare_set("news", "", json.dumps([why, told]))

    def news(self):
        """Why all processes end, and the failures; None while they go on."""
        if not self._store.check(["news"]):
            return None
        why, told = json.loads(self._store.get("news"))
        failures = {}
        for rank, (local_rank, pid, code, message, timestamp) in told.items():
            failure = failures[int(rank)] = ProcessFailure(local_rank, pid, code, "")
            failure.message, failure.timestamp = message, timestamp
        return why, failures

    def finish(self):
        """Notes that the processes of this machine ended well."""
        self._store.set(f"done/{self.node}", "")

    def is_done(self, *nodes):
        """Whether the processes of these machines, by default of all, ended well."""
        return self._store.check([f"done/{node}" for node in nodes or range(len(self.counts))])
