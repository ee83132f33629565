"""How busy, warm and full GPUs are, from NVIDIA's management library, which the driver brings."""

from __future__ import annotations

from rushlight import _C
from rushlight._set_module import set_module

from ._devices import index_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _ask(question: str, device: Any) -> int:
    if not _C._nvml_is_available():
        raise ModuleNotFoundError(
            "nvidia-ml-py does not seem to be installed or it can't be imported.\n"
            "  rushlight needs no package for this, only libnvidia-ml.so.1, which NVIDIA's driver installs."
        )
    return _C._nvml_ask(index_of(device), question)


def utilization(device: Any = None) -> int:
    """The percentage of the last moments in which kernels ran on a GPU.

    Args:
        device: the GPU, by default the current one.

    Raises:
        ModuleNotFoundError: NVIDIA's management library is not installed.
    """
    return _ask("utilization", device)


def memory_usage(device: Any = None) -> int:
    """The percentage of the last moments in which the memory of a GPU was read or written; see `utilization`."""
    return _ask("memory_usage", device)


def temperature(device: Any = None) -> int:
    """The temperature of a GPU in degrees Celsius; see `utilization`."""
    return _ask("temperature", device)


def power_draw(device: Any = None) -> int:
    """The power that a GPU takes in milliwatts; see `utilization`."""
    return _ask("power_draw", device)


def clock_rate(device: Any = None) -> int:
    """The clock of a GPU's multiprocessors in megahertz; see `utilization`."""
    return _ask("clock_rate", device)


def device_memory_used(device: Any = None) -> int:
    """The bytes of a GPU's memory that all processes use; see `utilization`."""
    return _ask("device_memory_used", device)


def list_gpu_processes(device: Any = None) -> str:
    """The processes that compute on a GPU, with the memory that they use, as a text.

    >>> isinstance(torch.cuda.list_gpu_processes(), str)
    True
    """
    if not _C._nvml_is_available():
        return "pynvml module not found, please install nvidia-ml-py"
    index = index_of(device)
    lines = [
        f"process {number:>10d} uses {nbytes / (1 << 20):>12.3f} MB GPU memory"
        for number, nbytes in _C._nvml_processes(index)
    ]
    return "\n".join([f"GPU:{index}", *(lines or ["no processes are running"])])


set_module(
    "rushlight.cuda",
    utilization,
    memory_usage,
    temperature,
    power_draw,
    clock_rate,
    device_memory_used,
    list_gpu_processes,
)
