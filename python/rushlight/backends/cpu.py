"""The instructions of the processor. torch chooses its kernels by them."""

from __future__ import annotations

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The widest vector instructions that this processor has and that torch has kernels for.

    Returns:
        ``"AVX512"``, ``"AVX2"``, or ``"DEFAULT"``.

    >>> torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
    True
    """
    from rushlight.cpu import get_capabilities

    found = get_capabilities()
    if all(found.get(f"avx512_{part}") for part in ("f", "vl", "bw", "dq")) and found.get("fma3"):
        return "AVX512"
    return "AVX2" if found.get("avx2") and found.get("fma3") else "DEFAULT"


def __dir__() -> list[str]:
    return __all__
