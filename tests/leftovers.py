"""What tests look for after they have run: processes and named memory. Other tests run at the same time in other processes."""

import os
from pathlib import Path


def programs():
    """The folders in ``/proc`` of programs that this process, or tests without pytest-xdist, may have started."""
    return [entry for entry in Path("/proc").glob("[0-9]*") if not _is_of_another(entry)]


def named_memory():
    """The files in ``/dev/shm``, without those that programs of tests in other processes use: MPICH makes some."""
    names = set(os.listdir("/dev/shm"))
    for entry in Path("/proc").glob("[0-9]*") if names else ():
        if _is_of_another(entry):
            try:
                used = (entry / "maps").read_text()
            except OSError:
                continue
            names = {name for name in names if f"/dev/shm/{name}" not in used}
    return names


def _is_of_another(entry):
    """Whether a program was started by another process of pytest-xdist."""
    try:
        variables = (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    own = f"PYTEST_XDIST_WORKER={os.environ.get('PYTEST_XDIST_WORKER')}".encode()
    return any(one.startswith(b"PYTEST_XDIST_WORKER=") and one != own for one in variables)
