"""Checks that a test of the loader leaves no process."""

import gc
import time

import pytest
from loaders import children


@pytest.fixture
def no_process_is_left():
    yield
    gc.collect()  # `pytest.raises` keeps the frames of the caught exception
    deadline = time.monotonic() + 60
    while (left := children()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left
