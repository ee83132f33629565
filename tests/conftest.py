"""Options of the test run."""

import gc
import os
import signal
from pathlib import Path

import pytest
from ranks import ranks as ranks

# If the tests run in the background or without a terminal, these signals may be ignored in them and in all child processes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Hundreds of tests start interpreters. Without bytecode each would compile the modules that it imports again: half of the time of a
# short program. Whoever wants none beside the sources has it with the build.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(Path(__file__).parents[1] / "target/bytecode"))

try:
    from hypothesis import settings
except ImportError:  # only the property tests need it, and they are skipped
    settings = None
else:
    # The same examples every time, so that failures are reproducible; "nightly" generates new ones.
    settings.register_profile("default", max_examples=200, deadline=None, derandomize=True)
    settings.register_profile("nightly", max_examples=100_000, deadline=None)
    settings.load_profile("default")


def pytest_collection_finish():
    # The tests themselves are a large heap, and many of them ask the collector to look through all of it.
    gc.collect()
    gc.freeze()


def pytest_addoption(parser):
    parser.addoption("--thorough", action="store_true", help="every sample, dtype and repetition; takes long")


@pytest.fixture(scope="session")
def thorough(request):
    return request.config.getoption("--thorough")
