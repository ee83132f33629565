"""Window functions: end values, centre, and periodic windows."""

import pytest

import rushlight as torch
from rushlight.signal import windows

PLAIN = [name for name in windows.__all__ if name != "general_cosine"]


@pytest.mark.parametrize("name", PLAIN)
def test_both_sides_are_alike_and_a_period_is_one_longer_without_its_end(name):
    make = getattr(windows, name)
    symmetric = make(9, dtype=torch.float64)
    torch.testing.assert_close(symmetric, symmetric.flip(0))
    assert symmetric.argmax() == 4
    torch.testing.assert_close(make(8, sym=False, dtype=torch.float64), symmetric[:8])
    assert make(0).shape == (0,)
    assert make(1).tolist() == [1.0]


@pytest.mark.parametrize("name", PLAIN)
def test_what_cannot_be_is_refused(name):
    make = getattr(windows, name)
    with pytest.raises(ValueError, match=f"{name} requires non-negative window length, got M=-1"):
        make(-1)
    with pytest.raises(ValueError, match=f"{name} expects float32 or float64 dtypes, got: torch.int64"):
        make(3, dtype=torch.int64)
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        make(3, size=4)
    assert make(3, requires_grad=True).requires_grad
