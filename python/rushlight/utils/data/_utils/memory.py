"""How much memory there is, in words, for the report of a worker that died."""

from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


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
