"""`torch.masked`: reductions that leave elements out."""

import numpy as np

import rushlight as torch


def test_complex_numbers_can_be_left_out_of_a_logarithm_of_sums():
    x = torch.tensor([1 + 2j, 5 - 1j, 0.5j])
    mask = torch.tensor([True, False, True])
    wanted = np.log(np.exp(1 + 2j) + np.exp(0.5j))
    assert np.allclose(torch.masked.logsumexp(x, 0, mask=mask).numpy(), wanted)
    assert torch.masked.logsumexp(torch.tensor([1, 2, 3]), 0, mask=mask).isfinite()
