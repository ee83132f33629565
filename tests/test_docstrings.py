"""Every example in the docstrings of the package runs and prints what it says. (Those of operators: `tests/ops`.)"""

import doctest
import importlib
import pkgutil

import pytest

import rushlight as torch

#: `__main__` is a program, and the package that is `torch` to other programs is no module of its own.
PROGRAMS = ("rushlight.__main__", "rushlight._as_torch")


def modules():
    for found in pkgutil.walk_packages(torch.__path__, torch.__name__ + ".", onerror=lambda name: None):
        if not found.name.startswith(PROGRAMS):
            yield found.name


@pytest.mark.parametrize("name", sorted(modules()))
def test_examples(name):
    module = importlib.import_module(name)
    outcome = doctest.testmod(module, extraglobs={"torch": torch})
    assert outcome.failed == 0
