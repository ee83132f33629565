"""What several areas need."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def fresh():
    """Runs a program in an interpreter of its own and gives what it printed."""

    def run(program, **environment):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run
