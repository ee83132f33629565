"""What users reach is documented: each function and class says what it does, what it takes and how it is called.

Every example runs and prints what it says. (Those of operators are run in `tests/ops`.)
"""

import doctest
import importlib
import inspect
import pkgutil
import re
import types
from fnmatch import fnmatchcase

import pytest
from public_names import callables

import rushlight as torch

#: `__main__` is a program, the package that is `torch` to other programs is no module of its own, and some say what is gone.
PROGRAMS = ("rushlight.__main__", "rushlight._as_torch", "rushlight.legacy", "rushlight.utils.ffi")

#: Those that may go without an example, with the reason. The list may only become shorter.
WITHOUT_EXAMPLE = {
    "array_api.*": "the standard of the Python array API describes them",
    "return_types.*": "an operator returns them, and nobody makes them",
    "*Tensor": "the constructors of old, ten times the same",
    "nn.init.*[!_]": "the old names of functions with an underscore, which have one",
    "cpu.amp.*": "old names that warn",
    "cuda.amp.*": "old names that warn",
    "cuda.current_device": "needs a card",
    "cuda.get_device_name": "needs a card",
    "cuda.get_device_properties": "needs a card",
    "cuda.init": "needs a card",
    "cuda.set_device": "needs a card",
    "cuda.synchronize": "needs a card",
    "multiprocessing.Manager": "its process imports the program",
    "multiprocessing.Process": "its process imports the program",
    "multiprocessing.ProcessException": "the base of two that have one",
    "nn.RNNBase": "the base of three that have one",
}

#: Parameters that the classes of a family share, and that its base or its first member describes.
SHARED = {"device", "dtype", "last_epoch", "reduce", "reduction", "size_average", "validate_args"}

#: What a program of ten lines uses.
MOST_USED = (
    "Tensor tensor as_tensor from_numpy zeros rand save load no_grad manual_seed nn.Module nn.Linear nn.Conv2d "
    "nn.CrossEntropyLoss nn.Sequential optim.SGD optim.Adam utils.data.DataLoader utils.data.Dataset "
    "autograd.Function"
).split()

CALLABLES = {name.removeprefix("rushlight."): value for name, value in callables().items()}


def text_of(value):
    """The docstring of a class or function itself, not of what a class derives from."""
    return (vars(value).get("__doc__") if isinstance(value, type) else value.__doc__) or ""


def modules():
    yield torch.__name__
    for found in pkgutil.walk_packages(torch.__path__, torch.__name__ + ".", onerror=lambda name: None):
        if not found.name.startswith(PROGRAMS):
            yield found.name


@pytest.mark.parametrize("name", sorted(modules()))
def test_examples(name):
    module = importlib.import_module(name)
    # Names of `torch` itself are not users' names: its `float` is a dtype.
    names = {} if module is torch else vars(module)
    outcome = doctest.testmod(module, globs=dict(names), extraglobs={"torch": torch})
    assert outcome.failed == 0


def test_every_example_is_run():
    """Doctest looks where a thing says that it was made; what is nowhere there would never run."""
    finder = doctest.DocTestFinder()
    run = {one.docstring for name in modules() for one in finder.find(importlib.import_module(name)) if one.examples}
    run |= {text_of(row) for rows in torch._C._functions.values() for row in rows.values()}  # in `tests/ops`
    assert [name for name, value in CALLABLES.items() if ">>>" in text_of(value) and text_of(value) not in run] == []


def test_everything_is_documented():
    assert [name for name, value in CALLABLES.items() if not text_of(value).strip()] == []


def test_examples_do_not_become_fewer():
    without = {name for name, value in CALLABLES.items() if ">>>" not in text_of(value)}
    allowed = {name for name in CALLABLES if any(fnmatchcase(name, one) for one in WITHOUT_EXAMPLE)}
    assert sorted(without - allowed) == [], "these need an example"
    unused = [one for one in WITHOUT_EXAMPLE if not any(fnmatchcase(name, one) for name in without)]
    assert unused == [], "these have an example by now, and leave the list"


def test_methods_of_tensors_have_examples():
    """Those that are written in Python; the engine's own are rows, or say in a line what they give."""
    without = {
        name
        for name, method in vars(torch.Tensor).items()
        if isinstance(method, types.FunctionType) and not name.startswith("_") and ">>>" not in text_of(method)
    }
    assert without == {"cuda", "masked_copy_", "pin_memory", "storage"}, "and these only warn, or need a card"


def test_parameters_are_described():
    """Who describes parameters describes them all."""
    missing = []
    for name, value in CALLABLES.items():
        text = text_of(value)
        if "\nArgs:" not in inspect.cleandoc(text):
            continue
        try:
            parameters = inspect.signature(value).parameters.values()
        except (TypeError, ValueError):
            continue
        named = [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        missing += [
            f"{name}({one})"
            for one in named
            if one not in SHARED and not one.startswith("_") and not re.search(rf"\b{one}\b", text)
        ]
    assert missing == []


@pytest.mark.parametrize("name", MOST_USED)
def test_help_of_the_most_used_names(name):
    """`help` shows a first sentence on a line of its own, no line too wide, and an example."""
    value = torch
    for part in name.split("."):
        value = getattr(value, part)
    lines = inspect.getdoc(value).splitlines()
    assert lines[0].endswith((".", ":")) and len(lines) > 1 and lines[1] == ""
    assert max(map(len, lines)) <= 124 and any(line.lstrip().startswith(">>>") for line in lines)
