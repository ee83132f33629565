"""How many processors and how much memory this process may really use: affinity and control groups count."""

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def usable_cpus() -> int | None:
    """None when the system does not say."""
    try:
        count: int | None = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        count = os.cpu_count()
    quota = _cpu_quota()
    return count if count is None or quota is None else max(1, min(count, math.ceil(quota)))


def _cpu_quota() -> float | None:
    """The tightest limit, in processors, of the control groups this process is in (version 2)."""
    limits = []
    for group in _own_groups():
        quota, _, period = _read(group / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def memory_facts() -> list[str]:
    """Memory of the machine and of the control group, in words; empty where the system does not say."""
    facts = []
    for line in _read(Path("/proc/meminfo")).splitlines():
        name, _, amount = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            facts.append(f"{name} {size(int(amount.split()[0]) * 1024)}")
    for group in _own_groups():
        limit, used = _read(group / "memory.max"), _read(group / "memory.current")
        if limit.isdigit() and used.isdigit():
            facts.append(f"the control group uses {size(int(used))} of {size(int(limit))}")
            break
    return facts


def size(count: int) -> str:
    """A number of bytes in words."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _own_groups():
    """The process's control group and those around it, innermost first."""
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        if line.startswith("0::/"):
            group = _CGROUP / line[4:]
            while group != _CGROUP:
                yield group
                group = group.parent
    yield _CGROUP


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""
