"""What the tests of devices share."""

import pytest

import rushlight as torch


@pytest.fixture
def full_precision():
    """Convolutions of float32 are not rounded to TF32, so that they can be compared with the host's."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield
