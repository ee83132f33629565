"""`torch.cuda.profiler`: what a profiler that watches the program collects."""

from __future__ import annotations

from contextlib import contextmanager

from ._runtime import check_error, cudart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["start", "stop", "profile"]


def start() -> None:
    """Lets the profiler begin to collect.

    Raises:
        RuntimeError: there is no driver.
        CudaError: the driver cannot begin.
    """
    check_error(cudart().cudaProfilerStart())


def stop() -> None:
    """Lets the profiler end; see `start`."""
    check_error(cudart().cudaProfilerStop())


@contextmanager
def profile() -> Iterator[None]:
    """Lets the profiler collect what runs in a ``with`` block; see `start`."""
    try:
        start()
        yield
    finally:
        stop()


def __dir__() -> list[str]:
    return __all__
