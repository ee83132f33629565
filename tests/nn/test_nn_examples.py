"""Every example in the docstrings of `nn` and `optim` runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import rushlight as torch


def modules():
    for package in (torch.nn, torch.optim):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            yield found.name
    yield torch.__name__ + ".utils.hooks"


@pytest.mark.parametrize("name", sorted(modules()))
def test_examples(name):
    module = importlib.import_module(name)
    outcome = doctest.testmod(module, extraglobs={"torch": torch})
    assert outcome.failed == 0
