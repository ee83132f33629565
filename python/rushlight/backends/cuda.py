"""Settings of the CUDA libraries, which are not used."""

from __future__ import annotations

from contextlib import nullcontext

from rushlight import _C
from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any, NoReturn

    from rushlight import Tensor


def _refuse(name: str) -> NoReturn:
    _C._refuse_cuda()


__all__ = [
    *declare(
        globals(),
        "products and attention run on kernels of rushlight's own",
        """
        blas_workspace_size(size=None, backend=None)
        can_use_cudnn_attention(params, debug=False) = False
        can_use_efficient_attention(params, debug=False) = False
        can_use_flash_attention(params, debug=False) = False
        cublas_workspace_size(size=None)
        cublaslt_workspace_size(size=None)
        is_ck_sdpa_available() = False
        is_flash_attention_available() = False
        preferred_blas_library(backend=None) = 'default'
        preferred_rocm_fa_library(backend=None) = 'default'
        """,
    ),
    "SDPAParams",
    "allow_fp16_bf16_reduction_math_sdp",
    "cuBLASModule",
    "cuFFTPlanCache",
    "cuFFTPlanCacheManager",
    "cufft_plan_cache",
    "fp16_bf16_reduction_math_sdp_allowed",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_linalg_library",
    "sdp_kernel",
]


class cuBLASModule:
    """Settings for the precision of matrix products on GPUs."""

    allow_tf32: bool = False
    allow_fp16_reduced_precision_reduction: bool = True
    allow_bf16_reduced_precision_reduction: bool = True
    allow_fp16_accumulation: bool = False


matmul = cuBLASModule()
_kernels = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True, "reduced": False}


class SDPAParams:
    """The arguments of `scaled_dot_product_attention`, for the functions that tell whether a kernel can be used.

    >>> query = torch.ones(1, 1, 2, 2)
    >>> params = torch.backends.cuda.SDPAParams(query, query, query, None, 0.0, True, False)
    >>> params.is_causal, torch.backends.cuda.can_use_flash_attention(params)
    (True, False)
    """

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
        dropout: float,
        is_causal: bool,
        enable_gqa: bool,
    ) -> None:
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


class cuFFTPlanCache:
    """The cache of plans for Fourier transforms on one GPU: there is none.

    >>> torch.backends.cuda.cuFFTPlanCache(0).device_index
    0
    """

    def __init__(self, device_index: int) -> None:
        self.device_index = device_index

    @property
    def size(self) -> int:
        """The number of plans."""
        _C._refuse_cuda()

    @property
    def max_size(self) -> int:
        """The largest number of plans."""
        _C._refuse_cuda()

    def clear(self) -> None:
        """Removes all plans."""
        _C._refuse_cuda()


class cuFFTPlanCacheManager:
    """The caches of plans for Fourier transforms, by GPU: there are none.

    >>> try:
    ...     torch.backends.cuda.cufft_plan_cache[0]
    ... except RuntimeError as error:
    ...     print(error)
    cufft_plan_cache: expected 0 <= device index < 0, but got device with index 0
    """

    def __getitem__(self, device: Any) -> cuFFTPlanCache:
        index = getattr(device, "index", device)
        raise RuntimeError(f"cufft_plan_cache: expected 0 <= device index < 0, but got device with index {index}")

    @property
    def size(self) -> int:
        """The number of plans for the current GPU."""
        _C._refuse_cuda()

    @property
    def max_size(self) -> int:
        """The largest number of plans for the current GPU."""
        _C._refuse_cuda()

    def clear(self) -> None:
        """Removes all plans for the current GPU."""
        _C._refuse_cuda()


cufft_plan_cache = cuFFTPlanCacheManager()


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Whether the setting for sums of low precision in attention composed of operators is on.

    >>> torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    False
    """
    return _kernels["reduced"]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Sets the setting for sums of low precision in attention composed of operators. It has no effect.

    >>> torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)
    """
    _kernels["reduced"] = enabled


def is_built() -> bool:
    """Whether this build supports GPUs.

    >>> torch.backends.cuda.is_built()
    False
    """
    return False


def flash_sdp_enabled() -> bool:
    """Whether the setting for flash attention is on.

    >>> torch.backends.cuda.flash_sdp_enabled()
    True
    """
    return _kernels["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Sets the setting for flash attention. It has no effect.

    >>> torch.backends.cuda.enable_flash_sdp(True)
    """
    _kernels["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """Whether the setting for memory-efficient attention is on.

    >>> torch.backends.cuda.mem_efficient_sdp_enabled()
    True
    """
    return _kernels["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Sets the setting for memory-efficient attention. It has no effect.

    >>> torch.backends.cuda.enable_mem_efficient_sdp(True)
    """
    _kernels["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """Whether the setting for attention composed of operators is on.

    >>> torch.backends.cuda.math_sdp_enabled()
    True
    """
    return _kernels["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Sets the setting for attention composed of operators. It has no effect.

    >>> torch.backends.cuda.enable_math_sdp(True)
    """
    _kernels["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """Whether the setting for cuDNN's attention is on.

    >>> torch.backends.cuda.cudnn_sdp_enabled()
    True
    """
    return _kernels["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Sets the setting for cuDNN's attention. It has no effect.

    >>> torch.backends.cuda.enable_cudnn_sdp(True)
    """
    _kernels["cudnn"] = enabled


def sdp_kernel(*args: Any, **kwargs: Any) -> AbstractContextManager[None]:
    """Selects attention kernels inside a ``with`` block. There is only one.

    >>> with torch.backends.cuda.sdp_kernel(enable_flash=False):
    ...     pass
    """
    return nullcontext()


def preferred_linalg_library(backend: str | None = None) -> str:
    """The library for factorisations on GPUs. It has no effect.

    >>> torch.backends.cuda.preferred_linalg_library()
    'default'
    """
    return "default"


def __dir__() -> list[str]:
    return __all__
