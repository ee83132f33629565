"""What `torch.cuda.comm` refuses without a GPU."""

import pytest

import rushlight as torch


def test_tensors_of_the_cpu_are_refused():
    with pytest.raises(AssertionError, match="expects all inputs to be on GPUs, but input 0 is on CPU"):
        torch.cuda.comm.reduce_add([torch.ones(1)], 0)
