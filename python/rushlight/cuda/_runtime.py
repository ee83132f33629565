"""Functions of the CUDA runtime (`torch.cuda.cudart`), and the errors that they report."""

from __future__ import annotations

from types import ModuleType

from rushlight import _C
from rushlight._set_module import set_module

from ._devices import index_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar


class cudaError(int):
    """What a function of the CUDA runtime returns: a number, which is 0 for `success`.

    >>> from rushlight.cuda._runtime import cudaError
    >>> cudaError.success == 0, cudaError(2)
    (True, <cudaError.???: 2>)
    """

    success: ClassVar[cudaError]

    @property
    def name(self) -> str:
        """``success``, or ``???`` for any other number."""
        return "???" if self else "success"

    @property
    def value(self) -> int:
        """The number."""
        return int(self)

    def __repr__(self) -> str:
        return f"<cudaError.{self.name}: {int(self)}>"

    def __str__(self) -> str:
        return f"cudaError.{self.name}"

    __format__ = object.__format__


cudaError.success = cudaError(0)


def cudaGetErrorString(error: cudaError) -> str:
    """The driver's sentence for an error.

    Raises:
        TypeError: it is not a `cudaError`.
        RuntimeError: there is no driver.
    """
    if not isinstance(error, cudaError):
        raise TypeError(
            "cudaGetErrorString(): incompatible function arguments. The following argument types are supported:\n"
            "    1. (arg0: torch._C._cudart.cudaError) -> str"
        )
    return _C._cudart_error_string(int(error))


def cudaHostRegister(ptr: int, size: int, flags: int) -> cudaError:
    """Locks pages of the host's memory, so that GPUs read and write them without a copy.

    Args:
        ptr: the address.
        size: the number of bytes.
        flags: those of ``cudaHostRegister``; 0 is usual.
    """
    return cudaError(_C._cudart_host_register(ptr, size, flags))


def cudaHostUnregister(ptr: int) -> cudaError:
    """Ends a `cudaHostRegister`."""
    return cudaError(_C._cudart_host_unregister(ptr))


def cudaProfilerStart() -> cudaError:
    """Lets a profiler that watches the program begin to collect."""
    return cudaError(_C._cudart_profile(True))


def cudaProfilerStop() -> cudaError:
    """Lets a profiler end."""
    return cudaError(_C._cudart_profile(False))


def cudaStreamCreate(ptr: int) -> cudaError:
    """Makes a stream, whose handle is written to an address."""
    return cudaError(_C._cudart_stream_create(ptr))


def cudaStreamDestroy(stream: int) -> cudaError:
    """Destroys a stream of `cudaStreamCreate`. No tensor may be in use on it any more."""
    return cudaError(_C._cudart_stream_destroy(stream))


def cudaMemGetInfo(device: int) -> tuple[int, int]:
    """The free and the whole memory of a GPU in bytes."""
    return _C._cuda_memory_info(index_of(device))


_cudart = ModuleType("torch._C._cudart", "libcudart.so bindings")
_cudart.__dict__.update({name: found for name, found in list(globals().items()) if name.startswith("cuda")})


def cudart() -> ModuleType:
    """The functions of the CUDA runtime that programs call: ``cudaHostRegister``, ``cudaHostUnregister``, ``cudaMemGetInfo``,
    ``cudaProfilerStart``, ``cudaProfilerStop``, ``cudaStreamCreate``, ``cudaStreamDestroy``, ``cudaGetErrorString``, and the numbers
    that they return, ``cudaError``. `check_error` makes exceptions of these.

    Raises:
        RuntimeError: there is no driver.
    """
    _C._cuda_init()
    return _cudart


#: The sentences of CUDA's runtime for errors that programs meet. It needs no driver for them, and has some that no driver knows.
_SENTENCES = {
    0: "no error",
    1: "invalid argument",
    2: "out of memory",
    3: "initialization error",
    4: "driver shutting down",
    9: "invalid configuration argument",
    12: "invalid pitch argument",
    13: "invalid device symbol",
    16: "invalid host pointer",
    17: "invalid device pointer",
    21: "invalid copy direction for memcpy",
    34: "CUDA driver is a stub library",
    35: "CUDA driver version is insufficient for CUDA runtime version",
    36: "API call is not supported in the installed CUDA driver",
    46: "CUDA-capable device(s) is/are busy or unavailable",
    98: "invalid device function",
    100: "no CUDA-capable device is detected",
    101: "invalid device ordinal",
    200: "device kernel image is invalid",
    201: "invalid device context",
    209: "no kernel image is available for execution on the device",
    214: "uncorrectable ECC error encountered",
    217: "peer access is not supported between these two devices",
    218: "a PTX JIT compilation failed",
    222: "the provided PTX was compiled with an unsupported toolchain.",
    301: "file not found",
    304: "OS call failed or operation not supported on this OS",
    400: "invalid resource handle",
    401: "the operation cannot be performed in the present state",
    500: "named symbol not found",
    600: "device not ready",
    700: "an illegal memory access was encountered",
    701: "too many resources requested for launch",
    702: "the launch timed out and was terminated",
    704: "peer access is already enabled",
    705: "peer access has not been enabled",
    709: "context is destroyed",
    710: "device-side assert triggered",
    712: "part or all of the requested memory range is already mapped",
    713: "pointer does not correspond to a registered memory region",
    714: "hardware stack error",
    715: "an illegal instruction was encountered",
    716: "misaligned address",
    717: "operation not supported on global/shared address space",
    718: "invalid program counter",
    719: "unspecified launch failure",
    720: "too many blocks in cooperative launch",
    800: "operation not permitted",
    801: "operation not supported",
    802: "system not yet initialized",
    803: "system has unsupported display driver / cuda driver combination",
    900: "operation not permitted when stream is capturing",
    901: "operation failed due to a previous error during capture",
    999: "unknown error",
}


class CudaError(RuntimeError):
    """An error that a function of CUDA reports.

    >>> torch.cuda.CudaError(2)
    CudaError('out of memory (2)')
    """

    def __init__(self, code: int) -> None:
        found = _SENTENCES.get(int(code))
        if found is None:
            found = _C._cudart_error_string(int(code)) if _C._cuda_device_count() > 0 else "unrecognized error code"
        super().__init__(f"{found} ({code})")


class DeferredCudaCallError(Exception):
    """A call that was put off until the driver was loaded has failed. rushlight does not raise it.

    >>> issubclass(torch.cuda.DeferredCudaCallError, Exception)
    True
    """


class cudaStatus:
    """Codes that functions of CUDA return.

    >>> torch.cuda.cudaStatus.SUCCESS
    0
    """

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


def check_error(res: int) -> None:
    """Raises a `CudaError` unless a function of CUDA has succeeded.

    Args:
        res: what it returned.

    >>> torch.cuda.check_error(torch.cuda.cudaStatus.SUCCESS)
    """
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


set_module("rushlight.cuda", CudaError, DeferredCudaCallError, cudaStatus, check_error, cudart)
