"""The public names that are reachable from `torch`, as `dir` lists them."""

import importlib
import types

import rushlight as torch


def modules():
    """Every module that is reachable through modules, by name."""
    found = {}
    waiting = [torch.__name__]
    while waiting:
        name = waiting.pop()
        module = found[name] = importlib.import_module(name)
        names = torch._SUBMODULES if module is torch else [part for part in dir(module) if not part.startswith("_")]
        for part in names:
            below = getattr(module, part)
            if (
                isinstance(below, types.ModuleType)
                and below.__name__ == f"{name}.{part}"
                and below.__name__ not in found
            ):
                waiting.append(below.__name__)
    return found


def callables():
    """Every public function and class of this package, under its first name."""
    found = {}
    for name, module in sorted(modules().items()):
        for part in dir(module):
            value = getattr(module, part)
            ours = (getattr(value, "__module__", None) or "rushlight").startswith("rushlight")
            if not part.startswith("_") and callable(value) and ours:
                found.setdefault(id(value), (f"{name}.{part}", value))
    return dict(found.values())
