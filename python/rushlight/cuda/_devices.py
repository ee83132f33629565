"""Devices of `torch.cuda`: how many there are, which one is current, and their properties."""

from __future__ import annotations

from rushlight import _C, _utils
from rushlight._errors import AcceleratorError

from . import _observer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a GPU: a number, a `torch.device` or its name, or a `torch.cuda.device`.

    Args:
        device: the device.
        optional: whether None, and a device without a number, mean the current one.
        allow_cpu: whether the CPU is accepted, whose number is -1.

    Raises:
        ValueError: it is another device, or has no number.

    >>> torch.cuda._get_device_index("cuda:2")
    2
    """
    from ._contexts import device as context

    if isinstance(device, str):
        device = _C.device(device)
    if isinstance(device, _C.device) and device.type != "cuda" and not (allow_cpu and device.type == "cpu"):
        accepted = "a cuda or cpu device" if allow_cpu else "a cuda device"
        raise ValueError(f"Expected {accepted}, but got: {device}")
    if isinstance(device, context):
        return device.idx
    # What is no device at all does not mean the current one.
    optional = optional and (device is None or isinstance(device, _C.device))
    return _utils._get_device_index(device, optional, allow_cpu)


def number_of(device: Any) -> int:
    """The number of a device as the program has it, perhaps of one that does not exist; that of the current one for None."""
    return _C._cuda_current_device() if device is None else _get_device_index(device, optional=True)


def index_of(device: Any) -> int:
    """The number of a device for the engine. As in torch, negative numbers mean the current one.

    Raises:
        RuntimeError: no device can have this number.
    """
    number = number_of(device)
    if number < 0:
        return _C._cuda_current_device()
    _C.device("cuda", number)  # It refuses what no device can have.
    return number


def need_driver() -> None:
    """Raises AcceleratorError, with the reason, unless there is a GPU that can be used."""
    if _C._cuda_device_count() == 0:
        try:
            _C._cuda_current_device()
        except RuntimeError as reason:
            sentence = "CUDA error: CUDA driver version is insufficient for CUDA runtime version"
            raise AcceleratorError(f"{sentence}\n{reason}") from None


def device_count() -> int:
    """The number of GPUs that the driver reports.

    >>> torch.cuda.device_count() >= 0
    True
    """
    return _C._cuda_device_count()


def is_available() -> bool:
    """Whether there is a GPU with a driver.

    >>> torch.cuda.is_available() == (torch.cuda.device_count() > 0)
    True
    """
    return _C._cuda_device_count() > 0


def is_initialized() -> bool:
    """Whether a GPU is in use.

    >>> torch.cuda.is_initialized() in (True, False)
    True
    """
    return _C._cuda_is_initialized()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the GPU supports bfloat16.

    >>> torch.cuda.is_bf16_supported() in (True, False)
    True
    """
    return is_available() and (including_emulation or get_device_capability() >= (8, 0))


def is_tf32_supported() -> bool:
    """Whether the GPU can multiply `float32` rounded to ten bits after the leading one.

    >>> torch.cuda.is_tf32_supported() in (True, False)
    True
    """
    return is_available() and get_device_capability() >= (8, 0)


def get_arch_list() -> list[str]:
    """The architectures for which kernels can be compiled, as NVRTC lists them; none if it is not installed.

    >>> all(name.startswith("sm_") for name in torch.cuda.get_arch_list())
    True
    """
    return [f"sm_{number}" for number in _C._cuda_architectures()]


def get_gencode_flags() -> str:
    """The options of NVIDIA's compiler for the architectures of `get_arch_list`.

    >>> torch.cuda.get_gencode_flags().count("-gencode") == len(torch.cuda.get_arch_list())
    True
    """
    return " ".join(
        f"-gencode compute=compute_{number},code=sm_{number}" for number in (name[3:] for name in get_arch_list())
    )


_SYNC_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Sets what happens when a call waits for a GPU: a copy to the CPU, `item`, or the check of an index.

    Args:
        debug_mode: ``"default"`` or 0 for nothing, ``"warn"`` or 1 for a warning, ``"error"`` or 2 for a RuntimeError.

    Raises:
        RuntimeError: the mode is something else, or there is no GPU.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_sync_debug_mode("warn")
    ...     torch.cuda.set_sync_debug_mode("default")
    """
    _C._cuda_init()
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _SYNC_MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected 0,1,2")
    _C._cuda_set_sync_debug_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """What `set_sync_debug_mode` has set, as a number.

    Raises:
        RuntimeError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.get_sync_debug_mode() == 0
    """
    _C._cuda_init()
    return _C._cuda_get_sync_debug_mode()


def _library_handle(solver: bool, package: str) -> int:
    _C._cuda_init()
    handle = _C._cuda_library_handle(solver)
    if handle is None:
        raise RuntimeError(f"the library is not installed\n  pip install {package}")
    return handle


def current_blas_handle() -> int:
    """The handle of cuBLAS for the current stream, for other libraries. It has cuBLAS's own settings.

    Raises:
        RuntimeError: there is no GPU, or cuBLAS is not installed.
    """
    return _library_handle(False, "nvidia-cublas")


def current_solver_handle() -> int:
    """The handle of cuSOLVER for the current stream, for other libraries.

    Raises:
        RuntimeError: there is no GPU, or cuSOLVER is not installed.
    """
    return _library_handle(True, "nvidia-cusolver")


def init() -> None:
    """Initialises the driver, which otherwise happens when a GPU is first used.

    Raises:
        RuntimeError: there is no driver, or the process was forked from one that had initialised it.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.init()
    ...     assert torch.cuda.is_initialized()
    """
    _C._cuda_init()


#: Calls that wait for a driver, and where each was made. Without a GPU they are never run.
_queued_calls: list[tuple[Callable[[], object], list[str]]] = []


def _lazy_call(callable: Callable[[], object], **kwargs: Any) -> None:
    """Calls a function that needs a GPU, if there is one.

    >>> torch.cuda._lazy_call(torch.cuda.synchronize)
    """
    if device_count() > 0:
        callable()
    else:
        from traceback import format_stack

        _queued_calls.append((callable, format_stack()))


def current_device() -> int:
    """The number of this thread's current GPU, on which ``device="cuda"`` places tensors.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.current_device() >= 0
    """
    return _C._cuda_current_device()


def set_device(device: Any) -> None:
    """Makes a GPU current in this thread. A negative number has no effect.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_device(0)
    ...     assert torch.cuda.current_device() == 0
    """
    _exchange_device(number_of(device))


def _exchange_device(device: int) -> int:
    """Makes a GPU current; returns the one before. A negative number has no effect and returns -1.

    >>> torch.cuda._exchange_device(-1)
    -1
    """
    return -1 if device < 0 else _C._cuda_set_device(index_of(device))


def synchronize(device: Any = None) -> None:
    """Waits until all work that was enqueued on a GPU has run.

    >>> if torch.cuda.is_available():
    ...     x = torch.ones(3, device="cuda") * 2
    ...     torch.cuda.synchronize()
    """
    _C._cuda_synchronize(index_of(device))
    if _observer.observer is not None:
        _observer.observer.device_synchronized()


class _CudaDeviceProperties:
    """What `get_device_properties` returns: the properties of a GPU as attributes."""

    def __init__(self, properties: dict[str, Any]) -> None:
        self.__dict__.update(properties)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __repr__(self) -> str:
        known = self.__dict__
        return (
            f"_CudaDeviceProperties(name='{known['name']}', major={known['major']}, minor={known['minor']}, "
            f"total_memory={known['total_memory'] >> 20}MB, multi_processor_count={known['multi_processor_count']})"
        )


def existing(device: Any, what: str = "device") -> int:
    """The number of a device, which has to exist."""
    _C._cuda_init()
    index = number_of(device)
    if not 0 <= index < device_count():
        raise AssertionError(f"Invalid {what} id")
    return index


def get_device_properties(device: Any = None) -> _CudaDeviceProperties:
    """The properties of a GPU: its name, memory, capability, and the sizes of its parts.

    Raises:
        AssertionError: there is no such GPU.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.get_device_properties(0).total_memory > 0
    """
    return _CudaDeviceProperties(_C._cuda_properties(existing(device)))


def get_device_name(device: Any = None) -> str:
    """The name of a GPU.

    >>> if torch.cuda.is_available():
    ...     assert isinstance(torch.cuda.get_device_name(), str)
    """
    return str(_C._cuda_properties(existing(device))["name"])


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The major and the minor number of a GPU's compute capability.

    >>> if torch.cuda.is_available():
    ...     assert len(torch.cuda.get_device_capability()) == 2
    """
    known = _C._cuda_properties(existing(device))
    return known["major"], known["minor"]
