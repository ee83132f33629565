"""Processes that mpiexec or srun has started: how many there are, which one this is, and where they meet."""

import atexit
import os
import socket
import stat

from rushlight.distributed.store import DistNetworkError, TCPStore

#: The variables of a rank and of the number of ranks: those of MPICH and Open MPI, whose processes run under mpiexec for certain.
_MPI = (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
#: Those of Slurm, which a batch script has as well, and every program that it starts.
_SLURM = (("SLURM_PROCID", "SLURM_NTASKS"),)


def place(rank=-1, world_size=-1):
    """The rank and the number of ranks, or None if no launcher tells, or Slurm does and the caller gives a place."""
    is_given = 0 <= rank < world_size
    for names in _MPI if is_given else _MPI + _SLURM:
        if all(os.environ.get(name, "").isdecimal() for name in names):
            own, size = (int(os.environ[name]) for name in names)
            return own, size
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


def keeps_texts():
    """Whether the launcher has left this process its end of a socket, as the mpiexec of MPICH does."""
    descriptor = os.environ.get("PMI_FD", "")
    try:
        return descriptor.isdecimal() and stat.S_ISSOCK(os.fstat(int(descriptor)).st_mode)
    except OSError:
        return False


def meet(rank, size, timeout, token):
    """A store of all ranks, at an address that rank 0 gives the launcher.

    Raises:
        ValueError: the launcher keeps no texts.
    """
    if not keeps_texts():
        raise ValueError(
            "Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR expected, but "
            "not set\n  Set MASTER_ADDR and MASTER_PORT, or start the program by the mpiexec of MPICH."
        )
    launcher = _launchers.get(os.getpid())
    if launcher is None:
        launcher = _launchers[os.getpid()] = _Launcher(int(os.environ["PMI_FD"]))
    if rank != 0:
        host, _, port = launcher.share(None).rpartition(":")
        return TCPStore(host, int(port), size, False, timeout, token=token)
    host = os.environ.get("PMI_HOSTNAME") or socket.gethostname()
    store = TCPStore(host, 0, size, True, timeout, wait_for_workers=False, token=token)
    launcher.share(f"{host}:{store.port}")
    return store
