"""How much memory there is, in words, for the report of a worker that died."""

from pathlib import Path

# What a control group calls its limit and what it uses, in the second version of them and in the first.
_NAMES = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
# The first version writes a number near this one where there is no limit.
_NO_LIMIT = 1 << 62


def memory_facts(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> list[str]:
    """Memory of the machine and of the control group, in words; empty where the system does not say."""
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
    """A number of bytes in words."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _own_groups(proc: Path, groups: Path):
    """The process's control group and those around it, innermost first, with the names of what they say."""
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
