"""Errors for names that do not exist, which propose the nearest one that does, or say what to do without."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
else:
    ModuleType = type(sys)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The existing name that ``name`` was most likely meant to be, or None."""

    def folded(word: str) -> str:
        return word.replace("_", "").lower()

    pool = [word for word in names if name.startswith("_") or not word.startswith("_")]
    for word in pool:
        if folded(word) == folded(name):
            return word
    from difflib import get_close_matches

    found = get_close_matches(name, pool, 1, 0.75)
    if found:
        return found[0]
    return next((word for word in pool if name.lower() in _abbreviations(word)), None)


def _abbreviations(name: str) -> list[str]:
    """``name`` with two or more of its first words as their initials: ``bce_with_logits``."""
    words = [word for word in name.lower().split("_") if word]
    heads = ("".join(word[0] for word in words[:count]) for count in range(2, len(words) + 1))
    return ["_".join((head, *words[count:])) for count, head in enumerate(heads, 2)]


_EAGER = "Nothing is compiled, and programs run eagerly as they are written: {}"

#: What programs use of torch and will look for in vain, and what they do instead.
INSTEAD = {
    "torch.compile": _EAGER.format("leave the call out, or guard it with hasattr(torch, 'compile')."),
    "torch.compiler.compile": _EAGER.format("leave the call out."),
    "torch.export": _EAGER.format("save a module's state_dict with torch.save."),
    "torch.fx": _EAGER.format("there are no graphs of them to change. Hooks of modules see every call."),
    "torch.hub": "Nothing is downloaded: load a state_dict with torch.load, or torch.safetensors.",
    "torch.legacy": "The port of Lua's torch is gone: torch.nn and torch.optim have its modules and optimizers.",
    "torch.library": "Operators of one's own are functions, or torch.autograd.Function where they have gradients of their own.",
    "torch.onnx": _EAGER.format("there are no graphs of them to export."),
    "torch.utils.ffi": "Libraries in C are loaded by ctypes or cffi: tensor.data_ptr() is where a tensor's elements lie, and "
    "torch.utils.dlpack hands tensors over without a copy.",
    # The release notes of 0.2 print it so.
    "torch.utils.weight_norm": "Did you mean 'torch.nn.utils.weight_norm'?",
}


class MissingName(AttributeError):
    """An AttributeError that looks for the nearest name only when it is printed, so that ``hasattr`` stays cheap."""

    instead: str | None = None
    names: Callable[[], Iterable[str]]

    def __str__(self) -> str:
        if self.instead is not None:
            return f"{self.args[0]}\n{self.instead}"
        near = nearest(self.name or "", self.names())
        return self.args[0] if near is None else f"{self.args[0]}\nDid you mean '{near}'?"

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return AttributeError, (str(self),)


# What programs see and print is an AttributeError.
MissingName.__module__, MissingName.__qualname__, MissingName.__name__ = "builtins", "AttributeError", "AttributeError"


def missing(sentence: str, name: str, names: Callable[[], Iterable[str]]) -> MissingName:
    """The error for a name that does not exist; ``names`` tells which do."""
    # `obj` is given so that the interpreter does not add a second proposal of its own.
    error = MissingName(sentence, name=name, obj=None)
    error.names = names
    return error


def missing_from(module: str, name: str, names: Callable[[], Iterable[str]]) -> MissingName:
    """The error for a name that a module does not have; ``module`` as torch calls it."""
    error = missing(f"module '{module}' has no attribute {name!r}", name, names)
    error.instead = INSTEAD.get(f"{module}.{name}")
    return error


class Package(ModuleType):
    """A package whose public modules answer for the names that they do not have, as soon as they have loaded.

    The class is that of packages alone: a module of another class than Python's own is read more slowly.
    """

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        # So the import system binds a module to its package.
        if isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}" and not name.startswith("_"):
            _let_answer(value)


def _let_answer(module: ModuleType) -> None:
    if hasattr(module, "__path__") and type(module) is ModuleType:
        module.__class__ = Package
        # What it loaded itself, before it was bound.
        for name, part in list(vars(module).items()):
            setattr(module, name, part)
    if "__getattr__" not in vars(module):
        module.__getattr__ = lambda name: _refuse(module, name)  # type: ignore[method-assign]


def _refuse(module: ModuleType, name: str) -> object:
    raise missing_from(module.__name__.replace("rushlight", "torch", 1), name, lambda: dir(module))


# The outermost package is being imported just now.
sys.modules[__name__.partition(".")[0]].__class__ = Package
