"""Page-locked memory of other owners, by its address."""

from __future__ import annotations

from ._runtime import cudart


def pin_memory(data_ptr: int, size: int) -> None:
    """Locks memory of this process.

    Args:
        data_ptr: the address.
        size: the number of bytes.

    Raises:
        RuntimeError: the driver refuses, or there is no GPU.
    """
    # `cudaHostRegisterPortable`
    status = int(cudart().cudaHostRegister(data_ptr, size, 1))
    if status != 0:
        raise RuntimeError(
            f"Registering memory failed with cudaError: {status}. It's possible that this is an asynchronous error raised from a "
            "previous cuda operation. Consider launching with CUDA_LAUNCH_BLOCKING=1 to debug."
        )


def unpin_memory(data_ptr: int) -> None:
    """Ends `pin_memory`.

    Raises:
        AssertionError: the driver refuses.
    """
    status = int(cudart().cudaHostUnregister(data_ptr))
    if status != 0:
        raise AssertionError(f"Unpinning shared memory failed with error-code: {status}")
