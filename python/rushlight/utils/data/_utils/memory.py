"""Describes the available memory, for the report about a worker that has ended."""

from pathlib import Path

# The files with the limit and the usage of a control group, in versions 2 and 1.
_NAMES = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
# Version 1 has a number near this one if there is no limit.
_NO_LIMIT = 1 << 62


def memory_report(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> list[str]:
    """Describes the memory of the machine and of the control group. Empty if the system does not provide it."""
    facts = []
    for line in _read(proc / "meminfo").splitlines():
        name, _, amount = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            facts.append(f"{name} {size(int(amount.split()[0]) * 1024)}")
    for group, names in _own_groups(proc, groups):
        limit, used = (_read(group / name) for name in names)
        if limit.isdigit() and used.isdigit() and int(limit) < _NO_LIMIT:
            facts.append(f"the control group uses {size(int(used))} of {size(int(limit))}")
            break
    return facts


def size(count: int) -> str:
    """A number of bytes as text."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _own_groups(proc: Path, groups: Path):
    """The process's control group and its parents, innermost first, with the names of their files."""
    for line in _read(proc / "self/cgroup").splitlines():
        number, kinds, path = line.split(":", 2)
        if (number, kinds) == ("0", ""):
            root, names = groups, _NAMES[0]
        elif "memory" in kinds.split(","):
            root, names = groups / "memory", _NAMES[1]
        else:
            continue
        group = root / path.lstrip("/")
        while group != root:
            yield group, names
            group = group.parent
        yield root, names


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""
