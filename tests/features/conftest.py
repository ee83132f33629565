"""Fixtures for several areas."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def fresh():
    """Runs a program in a new interpreter and returns its output."""

    def run(program, **environment):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture
def grows(fresh):
    """The number of bytes by which a statement increases a program's peak memory, after set-up statements."""

    def measure(preparation, statement):
        program = f"""
import re, rushlight as torch
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
# The pages of the library that such a program touches are there before.
(torch.ones(8, 1, requires_grad=True) + torch.ones(1, 1000, requires_grad=True)).backward(torch.ones(8, 1000))
{preparation}
before = peak()
{statement}
print(peak() - before)
"""
        return int(fresh(program))

    return measure
