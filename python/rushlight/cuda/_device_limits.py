"""`torch.cuda._device_limits`: the greatest speeds that a GPU can have by its data sheet, at its highest clock."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["GPULimits"]

#: Multiplications with additions that a multiprocessor ends in a cycle, by compute capability and dtype: without tensor cores, and with.
_CORES = {
    80: {torch.float16: 256, torch.float32: 64, torch.float64: 32},
    90: {torch.float16: 64, torch.float32: 128, torch.float64: 64},
    100: {torch.float16: 256, torch.float32: 128, torch.float64: 64},
}
_TENSOR_CORES = {
    80: {torch.int8: 2048, torch.float16: 1024, torch.float32: 512, torch.float64: 64},
    90: {torch.int8: 4096, torch.float16: 2048, torch.float32: 1024, torch.float64: 128},
    100: {torch.int8: 8192, torch.float16: 4096, torch.float32: 2048},
}
#: The bytes that a multiprocessor reads from shared memory in a cycle: 4 for each thread of a warp.
_SHARED_BYTES = 128


class GPULimits:
    """The speeds of a GPU.

    Args:
        target_device: the GPU.

    >>> if torch.cuda.is_available():
    ...     from rushlight.cuda._device_limits import GPULimits
    ...     assert GPULimits(torch.device("cuda")).get_memory_bandwidth_Bps() > 0
    """

    def __init__(self, target_device: Any) -> None:
        self.device_properties = torch.cuda.get_device_properties(target_device)
        self.compute_capability = self.device_properties.major * 10 + self.device_properties.minor

    def _known(self, table: dict[int, dict[torch.dtype, int]], key: torch.dtype, data_type: torch.dtype) -> int:
        found = table.get(self.compute_capability, {}).get(key)
        if found is None:
            raise RuntimeError(f"No data for sm_{self.compute_capability} and {data_type}.")
        return found

    def get_fma_per_cycle_per_sm_cuda_cores(self, data_type: torch.dtype) -> int:
        """The multiplications with additions of a multiprocessor in a cycle, without tensor cores.

        Raises:
            RuntimeError: they are not known for the GPU and the dtype.
        """
        return self._known(_CORES, data_type, data_type)

    def get_fma_per_cycle_per_sm_tensor_cores(self, data_type: torch.dtype) -> int:
        """The same with tensor cores."""
        # Both dtypes of 16 bits are as fast.
        key = torch.float16 if data_type is torch.bfloat16 else data_type
        return self._known(_TENSOR_CORES, key, data_type)

    def get_tflops_per_second(self, data_type: torch.dtype, use_tensor_cores: bool = True) -> float:
        """The floating point operations of the GPU in a second, in units of 10^12. A multiplication with an addition is two."""
        if use_tensor_cores:
            each = self.get_fma_per_cycle_per_sm_tensor_cores(data_type)
        else:
            each = self.get_fma_per_cycle_per_sm_cuda_cores(data_type)
        known = self.device_properties
        return known.multi_processor_count * each * 2 * known.clock_rate / 1e9

    def get_memory_bandwidth_Bps(self) -> int:
        """The bytes that the GPU's memory moves in a second: twice the width of its bus in a cycle."""
        known = self.device_properties
        return int(2 * known.memory_bus_width / 8) * known.memory_clock_rate * 1000

    def get_shared_memory_bandwidth_Bps(self) -> int:
        """The bytes that all multiprocessors read from their shared memory in a second."""
        known = self.device_properties
        return known.multi_processor_count * _SHARED_BYTES * known.clock_rate * 1000
