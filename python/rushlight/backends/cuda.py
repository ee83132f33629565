"""Settings of CUDA's libraries, which are not used."""

from __future__ import annotations

from contextlib import nullcontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

__all__ = [
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


class _Products:
    """How products may be rounded on a card."""

    allow_tf32: bool = False
    allow_fp16_reduced_precision_reduction: bool = True
    allow_bf16_reduced_precision_reduction: bool = True
    allow_fp16_accumulation: bool = False


matmul = _Products()
_kernels = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Whether this build computes on cards.

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
    """Sets the setting for flash attention, which changes nothing.

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
    """Sets the setting for memory-efficient attention, which changes nothing.

    >>> torch.backends.cuda.enable_mem_efficient_sdp(True)
    """
    _kernels["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """Whether the setting for attention out of operators is on.

    >>> torch.backends.cuda.math_sdp_enabled()
    True
    """
    return _kernels["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Sets the setting for attention out of operators, which changes nothing.

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
    """Sets the setting for cuDNN's attention, which changes nothing.

    >>> torch.backends.cuda.enable_cudnn_sdp(True)
    """
    _kernels["cudnn"] = enabled


def sdp_kernel(*args: Any, **kwargs: Any) -> AbstractContextManager[None]:
    """Chooses among kernels of attention inside a ``with`` block; there is one for all.

    >>> with torch.backends.cuda.sdp_kernel(enable_flash=False):
    ...     pass
    """
    return nullcontext()


def preferred_linalg_library(backend: str | None = None) -> str:
    """The library for factorisations on a card, which none computes on.

    >>> torch.backends.cuda.preferred_linalg_library()
    'default'
    """
    return "default"


def __dir__() -> list[str]:
    return __all__
