"""Which of the program's own names a checkpoint may use.

The program allows names with `rushlight.serialization.add_safe_globals`. Names of some modules stay forbidden, because their
functions run commands. The engine decides everything else: `rust/io/src/pickle/policy.rs` lists the names that are allowed
without the program's consent, and the limits on sizes.
"""

_BLOCKED_MODULES = ("sys", "os", "posix", "nt")

#: The library's classes and functions that a checkpoint may use once the module that defines them is loaded.
OWN: list = []


def blocked_module(name: str) -> str | None:
    """The module of a name, if nothing may open that module to checkpoints."""
    module, dot, _ = name.partition(".")
    return module if dot and module in _BLOCKED_MODULES else None


def safe_names(allowed: list) -> dict:
    """The names that a checkpoint may use, and their objects.

    Args:
        allowed: functions, classes, and pairs of an object and its name, as in `add_safe_globals`.
    """
    names = {}
    for entry in (*OWN, *allowed):
        if isinstance(entry, tuple):
            names[entry[1]] = entry[0]
            continue
        name = f"{entry.__module__}.{entry.__qualname__}"
        names[name] = entry
        if name.startswith("rushlight."):
            names["torch" + name[len("rushlight") :]] = entry
    return {name: entry for name, entry in names.items() if blocked_module(name) is None}
