"""Settings of the libraries that torch uses for computation.

rushlight uses none of them. Settings that select among equivalent algorithms, or trade accuracy for speed, are accepted
and have no effect. Functions that report whether a library is available return False.
"""

from __future__ import annotations

from . import (
    cpu,
    cuda,
    cudnn,
    cusparselt,
    kleidiai,
    mha,
    miopen,
    mkl,
    mkldnn,
    mps,
    nnpack,
    openmp,
    opt_einsum,
    quantized,
    xnnpack,
)

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "cusparselt",
    "kleidiai",
    "mha",
    "miopen",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
    "quantized",
    "xnnpack",
]


def __dir__() -> list[str]:
    return __all__
