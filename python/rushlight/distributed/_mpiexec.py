"""Processes that mpiexec or srun has started: how many there are, which one this is, and where they meet."""

import atexit
import os
import socket

from rushlight.distributed.store import DistNetworkError, TCPStore

#: The variables of a rank and of the number of ranks: those of MPICH, Open MPI and Slurm.
_PLACES = (
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def place():
    """The rank and the number of ranks, or None if no launcher tells."""
    for names in _PLACES:
        if all(os.environ.get(name, "").isdecimal() for name in names):
            rank, size = (int(os.environ[name]) for name in names)
            return rank, size
    return None


class _Launcher:
    """The launcher's end of a socket. It keeps texts under names and knows when all ranks have come, in the PMI-1 protocol."""

    def __init__(self, descriptor):
        self._file = socket.socket(fileno=os.dup(descriptor)).makefile("rwb")
        self._count = 0
        self._ask("init pmi_version=1 pmi_subversion=1")
        self._space = self._ask("get_my_kvsname")["kvsname"]
        # The launcher takes a process that ends without a word for one that has failed.
        atexit.register(self._ask, "finalize")

    def _ask(self, text):
        self._file.write(f"cmd={text}\n".encode())
        self._file.flush()
        answer = self._file.readline().decode()
        if not answer:
            raise DistNetworkError("The launcher has closed its connection")
        return dict(word.partition("=")[::2] for word in answer.split())

    def share(self, text):
        """The text that rank 0 gives, on all ranks, which all call this."""
        self._count += 1
        key = f"rushlight-{self._count}"
        if text is not None:
            self._ask(f"put kvsname={self._space} key={key} value={text}")
        self._ask("barrier_in")
        return self._ask(f"get kvsname={self._space} key={key}")["value"]


_launchers: dict[int, _Launcher] = {}


def meet(rank, size, timeout, token):
    """A store of all ranks, at an address that rank 0 gives the launcher.

    Raises:
        ValueError: the launcher keeps no texts.
    """
    descriptor = os.environ.get("PMI_FD", "")
    if not descriptor.isdecimal():
        raise ValueError(
            "Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR expected, but "
            "not set\n  Set MASTER_ADDR and MASTER_PORT, or start the program by the mpiexec of MPICH."
        )
    launcher = _launchers.get(os.getpid())
    if launcher is None:
        launcher = _launchers[os.getpid()] = _Launcher(int(descriptor))
    if rank != 0:
        host, _, port = launcher.share(None).rpartition(":")
        return TCPStore(host, int(port), size, False, timeout, token=token)
    host = os.environ.get("PMI_HOSTNAME") or socket.gethostname()
    store = TCPStore(host, 0, size, True, timeout, wait_for_workers=False, token=token)
    launcher.share(f"{host}:{store.port}")
    return store
