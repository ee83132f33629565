"""Which CPUs a process uses, so that they are near its GPU: ``--numa-binding`` of torchrun.

A node is a part of the memory with the CPUs that reach it fastest, a socket a package of CPUs with one or several nodes.
"""

import os
import uuid
import warnings
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rushlight import cuda

__all__ = ["AffinityMode", "NumaOptions"]


def __dir__() -> list[str]:
    return __all__


_SYSTEM, _DEVICES = Path("/sys/devices/system"), Path("/sys/bus/pci/devices")
_GPUS = Path("/proc/driver/nvidia/gpus")


class AffinityMode(str, Enum):  # noqa: UP042 - its text is "AffinityMode.NODE", as in torch
    """The CPUs of a process.

    NODE: those of its GPU's node. SOCKET: those of the node's socket. EXCLUSIVE: a part of the node's cores, which no other process
    has. CORE_COMPLEX: cores of the node that share their last cache, in turn for each GPU.

    >>> torch.numa.binding.AffinityMode("core-complex")
    <AffinityMode.CORE_COMPLEX: 'core-complex'>
    """

    NODE = "node"
    SOCKET = "socket"
    EXCLUSIVE = "exclusive"
    CORE_COMPLEX = "core-complex"


@dataclass(frozen=True)
class NumaOptions:
    """How processes are bound to CPUs.

    Args:
        affinity_mode: an `AffinityMode`.
        should_fall_back_if_binding_fails: warn in place of an error if the CPUs cannot be found.

    >>> NumaOptions = torch.numa.binding.NumaOptions
    >>> NumaOptions(torch.numa.binding.AffinityMode.NODE).should_fall_back_if_binding_fails
    False
    """

    affinity_mode: AffinityMode
    should_fall_back_if_binding_fails: bool = False


def cpus_for(options, gpu):
    """The CPUs for the process of a GPU; None if they cannot be found and need not.

    Raises:
        RuntimeError: they cannot be found.
    """
    find = {
        AffinityMode.NODE: _of_node,
        AffinityMode.SOCKET: _of_socket,
        AffinityMode.EXCLUSIVE: _exclusive,
        AffinityMode.CORE_COMPLEX: _core_complex,
    }[options.affinity_mode]
    try:
        found = find(gpu)
        if not found:
            raise RuntimeError(f"this process may use no CPU near GPU {gpu}")
        return found
    except (OSError, ValueError, RuntimeError) as error:
        if not options.should_fall_back_if_binding_fails:
            raise
        warnings.warn(f"the process of GPU {gpu} is not bound to CPUs: {error}", stacklevel=2)
        return None


def _numbers(path):
    """The numbers of a list such as ``0-3,8``."""
    found = set()
    for part in path.read_text().strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _node(gpu):
    identity = str(uuid.UUID(bytes=cuda.get_device_properties(gpu).uuid))
    for folder in sorted(_GPUS.glob("*")):
        if identity in (folder / "information").read_text():
            # A machine with one node may say -1.
            return max(0, int((_DEVICES / folder.name.lower() / "numa_node").read_text()))
    raise RuntimeError(f"GPU {gpu} is not one of those in {_GPUS}")


def _of_node(gpu):
    return _numbers(_SYSTEM / "node" / f"node{_node(gpu)}" / "cpulist") & os.sched_getaffinity(0)


def _about(cpu, name):
    return _SYSTEM / "cpu" / f"cpu{cpu}" / name


def _of_socket(gpu):
    def socket(cpu):
        return _about(cpu, "topology/physical_package_id").read_text()

    own = {socket(cpu) for cpu in _of_node(gpu)}
    return {cpu for cpu in os.sched_getaffinity(0) if socket(cpu) in own}


def _groups(cpus, sharing):
    """CPUs that share something, in the order of their least numbers."""
    return sorted({tuple(sorted(_numbers(sharing(cpu)) & cpus)) for cpu in cpus})


def _place(gpu):
    """The place of a GPU among those of its node, and their number."""
    own = _node(gpu)
    others = [other for other in range(cuda.device_count()) if _node(other) == own]
    return others.index(gpu), len(others)


def _exclusive(gpu):
    place, count = _place(gpu)
    cores = _groups(_of_node(gpu), lambda cpu: _about(cpu, "topology/core_cpus_list"))
    if len(cores) < count:
        raise RuntimeError(f"the node of GPU {gpu} has {len(cores)} cores for {count} GPUs")
    each, more = divmod(len(cores), count)
    first = place * each + min(place, more)
    return {cpu for core in cores[first : first + each + (place < more)] for cpu in core}


def _core_complex(gpu):
    def last_cache(cpu):
        caches = _about(cpu, "cache").glob("index*")
        return max(caches, key=lambda cache: int((cache / "level").read_text())) / "shared_cpu_list"

    complexes = sorted(_groups(_of_node(gpu), last_cache), key=len, reverse=True)
    return set(complexes[_place(gpu)[0] % len(complexes)]) if complexes else set()
