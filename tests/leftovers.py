"""What tests look for after they have run: processes and named memory. Other tests run at the same time in other processes."""

import os
from pathlib import Path


def processes():
    """The folders in ``/proc`` of all processes."""
    return list(Path("/proc").glob("[0-9]*"))


def programs():
    """The folders of programs that this process, or tests without pytest-xdist, may have started."""
    return [entry for entry in processes() if not _is_of_another(entry)]


def members(group):
    """The running processes of a group."""
    found = []
    for entry in processes():
        try:
            state, _, its_group, *_ = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(entry.name))
    return found


def named_memory():
    """The files in ``/dev/shm``, without those that programs of tests in other processes use: MPICH makes some."""
    names = set(os.listdir("/dev/shm"))
    return unused(names, filter(_is_of_another, processes() if names else ()))


def unused(names, entries):
    """Those of the names in ``/dev/shm`` that none of these processes uses."""
    for entry in entries:
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
