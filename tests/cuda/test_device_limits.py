"""The greatest speeds of GPUs by their properties."""

from types import SimpleNamespace

import pytest
from soft_card import needs_soft_card, run

import rushlight as torch
from rushlight.cuda._device_limits import GPULimits


def test_limits_follow_from_the_properties(monkeypatch):
    # An H100 with 132 multiprocessors; the numbers are torch's for these properties.
    known = SimpleNamespace(
        major=9,
        minor=0,
        multi_processor_count=132,
        clock_rate=1980000,
        memory_bus_width=5120,
        memory_clock_rate=2619000,
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: known)
    limits = GPULimits(torch.device("cuda"))
    assert limits.get_tflops_per_second(torch.bfloat16) == limits.get_tflops_per_second(torch.float16) == 1070.53056
    assert limits.get_tflops_per_second(torch.float32, use_tensor_cores=False) == 66.90816
    assert limits.get_fma_per_cycle_per_sm_tensor_cores(torch.int8) == 4096
    assert limits.get_memory_bandwidth_Bps() == 3352320000000
    assert limits.get_shared_memory_bandwidth_Bps() == 33454080000000
    with pytest.raises(RuntimeError, match="^No data for sm_90 and torch.bfloat16.$"):
        limits.get_fma_per_cycle_per_sm_cuda_cores(torch.bfloat16)
    known.major = 7
    with pytest.raises(RuntimeError, match="^No data for sm_70 and torch.float32.$"):
        GPULimits(torch.device("cuda")).get_tflops_per_second(torch.float32)


@needs_soft_card
def test_the_driver_tells_the_clocks():
    run(
        """
known = torch.cuda.get_device_properties(0)
assert (known.clock_rate, known.memory_clock_rate, known.memory_bus_width) == (1980000, 2619000, 6144)
from rushlight.cuda._device_limits import GPULimits
limits = GPULimits(torch.device("cuda"))
assert limits.compute_capability == 90 and limits.get_memory_bandwidth_Bps() == 2 * 6144 // 8 * 2619000000
"""
    )
