"""Settings of the libraries that compute in torch.

None of them computes here. Settings that only choose among ways to the same numbers, or trade exactness for speed, are
accepted and change nothing; questions whether such a library is there are answered with no.
"""

from __future__ import annotations

from . import cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


def __dir__() -> list[str]:
    return __all__
