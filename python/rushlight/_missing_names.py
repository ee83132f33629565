"""Errors for names that do not exist. They suggest the nearest existing name, or an alternative."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
else:
    ModuleType = type(sys)


def closest_match(name: str, names: Iterable[str]) -> str | None:
    """The existing name that is closest to ``name``, or None."""

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
    """``name`` with its first two or more words abbreviated to initials: ``bce_with_logits``."""
    words = [word for word in name.lower().split("_") if word]
    heads = ("".join(word[0] for word in words[:count]) for count in range(2, len(words) + 1))
    return ["_".join((head, *words[count:])) for count, head in enumerate(heads, 2)]


_EAGER = "Nothing is compiled, and programs run eagerly: {}"

#: Names of torch that rushlight does not have, with the alternative to use.
REPLACEMENTS = {
    "torch.compile": _EAGER.format("leave the call out, or guard it with hasattr(torch, 'compile')."),
    "torch.compiler.compile": _EAGER.format("leave the call out."),
    "torch.legacy": "The port of Lua's torch was removed: use the modules of torch.nn and the optimizers of torch.optim.",
    "torch.utils.ffi": "Load C libraries with ctypes or cffi: tensor.data_ptr() is the address of the elements, and "
    "torch.utils.dlpack shares tensors without a copy.",
    # The release notes of torch 0.2 print it this way.
    "torch.utils.weight_norm": "Did you mean 'torch.nn.utils.weight_norm'?",
}


class MissingName(AttributeError):
    """An AttributeError that searches for the nearest name only when it is printed, so that ``hasattr`` stays fast."""

    instead: str | None = None
    names: Callable[[], Iterable[str]]

    def __str__(self) -> str:
        if self.instead is not None:
            return f"{self.args[0]}\n{self.instead}"
        near = closest_match(self.name or "", self.names())
        return self.args[0] if near is None else f"{self.args[0]}\nDid you mean '{near}'?"

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return AttributeError, (str(self),)


# Programs see and print an AttributeError.
MissingName.__module__, MissingName.__qualname__, MissingName.__name__ = "builtins", "AttributeError", "AttributeError"


def missing(sentence: str, name: str, names: Callable[[], Iterable[str]]) -> MissingName:
    """The error for a name that does not exist. ``names`` returns the existing names."""
    # `obj` is given so that the interpreter does not add its own suggestion.
    error = MissingName(sentence, name=name, obj=None)
    error.names = names
    return error


def missing_from(module: str, name: str, names: Callable[[], Iterable[str]]) -> MissingName:
    """The error for a name that a module does not have. ``module`` is torch's name for it."""
    error = missing(f"module '{module}' has no attribute {name!r}", name, names)
    error.instead = REPLACEMENTS.get(f"{module}.{name}")
    return error


class Package(ModuleType):
    """A package whose public modules report names that they do not have, as soon as they have loaded.

    Only packages have this class: attribute access is slower on modules whose class is not `ModuleType` itself.
    """

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds a module to its package by setting an attribute.
        if not (isinstance(value, ModuleType) and value.__name__ == f"{self.__package__}.{name}"):
            super().__setattr__(name, value)
            return
        # A name that the package gives to a function, as `nn.utils` does with `weight_norm`, stays that function when
        # the module is imported again under its name in torch.
        if isinstance(vars(self).get(name, value), ModuleType):
            super().__setattr__(name, value)
        if not name.startswith("_") or name in ("__config__", "__future__"):
            _install_package_class(value)


def _install_package_class(module: ModuleType) -> None:
    if hasattr(module, "__path__") and type(module) is ModuleType:
        module.__class__ = Package
        # Names that the module itself loaded before it was bound.
        for name, part in list(vars(module).items()):
            setattr(module, name, part)
    if "__getattr__" not in vars(module):
        module.__getattr__ = lambda name: _refuse(module, name)  # type: ignore[method-assign]


def _refuse(module: ModuleType, name: str) -> object:
    raise missing_from(module.__name__.replace("rushlight", "torch", 1), name, lambda: dir(module))


# The outermost package is being imported at this point.
sys.modules[__name__.partition(".")[0]].__class__ = Package
