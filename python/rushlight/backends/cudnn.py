"""Settings of cuDNN, which computes convolutions and recurrent networks on GPUs where it is installed."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType

import rushlight as torch
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rushlight import Tensor

__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "deterministic",
    "enabled",
    "flags",
    "is_acceptable",
    "is_available",
    "set_flags",
    "version",
]


enabled: bool
benchmark: bool
benchmark_limit: int
deterministic: bool
allow_tf32: bool


class _Cudnn(ModuleType):
    """The module, whose settings are checked when they are set."""

    _enabled = True
    _benchmark = False
    _benchmark_limit = 10
    _deterministic = False
    _allow_tf32 = True

    def _switch(self, name: str, value: bool, title: str) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"{title} expects a bool, but got {type(value).__name__}")
        setattr(self, f"_{name}", value)
        _C._cudnn_set(name, value)

    @property
    def enabled(self) -> bool:
        """Whether cuDNN computes convolutions and recurrent networks, if it can."""
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._switch("enabled", value, "set_enabled_cudnn")

    @property
    def benchmark(self) -> bool:
        """Whether the first convolution of a geometry measures all algorithms."""
        return self._benchmark

    @benchmark.setter
    def benchmark(self, value: bool) -> None:
        self._switch("benchmark", value, "set_benchmark_cudnn")

    @property
    def benchmark_limit(self) -> int:
        """How many algorithms are measured. It has no effect: all are."""
        return self._benchmark_limit

    @benchmark_limit.setter
    def benchmark_limit(self, value: int) -> None:
        if not isinstance(value, int):
            raise RuntimeError(f"set_benchmark_limit_cudnn expects an int, but got {type(value).__name__}")
        self._benchmark_limit = value

    @property
    def deterministic(self) -> bool:
        """Whether equal calls give equal bits. cuDNN computes no recurrent networks then."""
        return self._deterministic

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        self._switch("deterministic", value, "set_deterministic_cudnn")

    @property
    def allow_tf32(self) -> bool:
        """Whether convolutions and recurrent networks of float32 may round their operands to TF32."""
        return self._allow_tf32

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        # torch's sentence names the other library.
        self._switch("allow_tf32", value, "set_allow_tf32_cublas")


_settings = sys.modules[__name__]
_settings.__class__ = _Cudnn


def is_available() -> bool:
    """Whether cuDNN is installed.

    >>> torch.backends.cudnn.is_available() == (torch.backends.cudnn.version() is not None)
    True
    """
    return version() is not None


def version() -> int | None:
    """The version of cuDNN, such as 92801 for 9.28.1, or None.

    >>> version = torch.backends.cudnn.version()
    >>> version is None or version >= 90000
    True
    """
    return _C._cudnn_version()


def is_acceptable(tensor: Tensor) -> bool:
    """Whether cuDNN takes a tensor: one of floats on a GPU, while cuDNN is installed and enabled.

    >>> torch.backends.cudnn.is_acceptable(torch.zeros(1))
    False
    """
    dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    return _settings.enabled and tensor.device.type == "cuda" and tensor.dtype in dtypes and is_available()


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[bool, bool, int, bool, bool]:
    """Changes the given settings. Returns the old values of all settings.

    >>> torch.backends.cudnn.set_flags(_benchmark=False)
    (True, False, 10, False, True)
    """
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    before = tuple(getattr(_settings, name) for name in names)
    for name, value in zip(names, given):
        if value is not None:
            setattr(_settings, name, value)
    return before


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Changes settings inside a ``with`` block.

    >>> with torch.backends.cudnn.flags(benchmark=True):
    ...     torch.backends.cudnn.benchmark
    True
    """
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)


def __dir__() -> list[str]:
    return __all__
