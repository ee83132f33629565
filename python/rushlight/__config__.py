"""`torch.__config__`: how this build was made, and what it runs on."""

from __future__ import annotations

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The build and the processor, as text with a line for each fact.

    >>> print(torch.__config__.show().splitlines()[0])
    rushlight built with:
    """
    from rushlight import __version__, backends

    facts = [
        f"Version: {__version__}",
        "Engine: Rust",
        f"CUDA: {'enabled' if backends.cuda.is_built() else 'disabled'}",
        "Libraries for computation (MKL, oneDNN, OpenMP): none",
    ]
    return "rushlight built with:\n" + "".join(f"  - {fact}\n" for fact in facts)


def parallel_info() -> str:
    """The number of threads, and the settings that determine it, as text.

    >>> print(torch.__config__.parallel_info().splitlines()[1].strip().partition(" : ")[0])
    get_num_threads()
    """
    import os

    import rushlight as torch

    lines = [
        "Threads:",
        f"\tget_num_threads() : {torch.get_num_threads()}",
        f"\tget_num_interop_threads() : {torch.get_num_interop_threads()}",
        f"\tprocessors : {os.cpu_count()}",
        "Environment variables:",
        *(f"\t{name} : {os.environ.get(name, '[not set]')}" for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")),
    ]
    return "\n".join(lines) + "\n"


def __dir__() -> list[str]:
    return __all__
