"""Settings of the CUDA libraries. Of these, cuBLASLt multiplies matrices where it is installed."""

from __future__ import annotations

from contextlib import contextmanager
from enum import IntEnum

import rushlight as torch
from rushlight import _C
from rushlight._unsupported import declare
from rushlight._warnings import warn
from rushlight.cuda._devices import number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from rushlight import Tensor


def _refuse(name: str) -> NoReturn:
    _C._refuse_cuda()


__all__ = [
    *declare(
        globals(),
        "attention runs on kernels of rushlight's own, and products on cuBLASLt or on one of them",
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
    "SDPBackend",
    "allow_fp16_bf16_reduction_math_sdp",
    "cuBLASModule",
    "cuFFTPlanCache",
    "cuFFTPlanCacheAttrContextProp",
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


#: For float16 and bfloat16: whether sums may be divided into parts that are rounded, and whether they may be divided.
_reductions = {"fp16": (True, True), "bf16": (True, True)}


def _set_reductions(dtype: str, value: bool | tuple[bool, ...] | list[bool]) -> None:
    name = f"allow_{dtype}_reduced_precision_reduction"
    if not isinstance(value, (bool, tuple, list)):
        raise TypeError(f"{name} expects a bool or a tuple/list of bools, but got {type(value)}")
    rounded, divided = (*((value,) if isinstance(value, bool) else value), True, True)[:2]
    for part, title in ((rounded, "allow_reduced_precision"), (divided, "allow_splitk")):
        if not isinstance(part, bool):
            raise TypeError(f"{name} expects a bool for {title}, but got {type(part)}")
    if rounded and not divided:
        raise RuntimeError("allow_splitk=False is not supported when reduced precision reductions are enabled")
    _reductions[dtype] = (rounded, divided)
    _C._cuda_allow_reductions(dtype == "bf16", rounded, divided)


class cuBLASModule:
    """Settings for the precision of matrix products on GPUs, by cuBLASLt.

    `allow_fp16_accumulation` has no effect: sums of float16 are computed in float32.

    >>> torch.backends.cuda.matmul.allow_tf32 = True
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.backends.cuda.matmul.allow_tf32 = False
    """

    _accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """Whether operands of float32 may be rounded to TF32, which has ten bits after the leading one."""
        return torch.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(value).__name__}")
        torch.set_float32_matmul_precision("high" if value else "highest")

    @property
    def allow_fp16_reduced_precision_reduction(self) -> bool:
        """Whether parts of sums may be rounded to float16. A pair also says whether sums may be divided at all."""
        return _reductions["fp16"][0]

    @allow_fp16_reduced_precision_reduction.setter
    def allow_fp16_reduced_precision_reduction(self, value: bool | tuple[bool, ...] | list[bool]) -> None:
        _set_reductions("fp16", value)

    @property
    def allow_bf16_reduced_precision_reduction(self) -> bool:
        """Whether parts of sums may be rounded to bfloat16. A pair also says whether sums may be divided at all."""
        return _reductions["bf16"][0]

    @allow_bf16_reduced_precision_reduction.setter
    def allow_bf16_reduced_precision_reduction(self, value: bool | tuple[bool, ...] | list[bool]) -> None:
        _set_reductions("bf16", value)

    @property
    def allow_fp16_accumulation(self) -> bool:
        """Whether the setting for sums in float16 is on. It has no effect."""
        return self._accumulation

    @allow_fp16_accumulation.setter
    def allow_fp16_accumulation(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"set_allow_fp16_accumulation_cublas expects a bool, but got {type(value).__name__}")
        self._accumulation = value


matmul = cuBLASModule()
_kernels = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True, "reduced": False}


class SDPBackend(IntEnum):
    """The kernels of torch.

    >>> torch.nn.attention.SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


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


class cuFFTPlanCacheAttrContextProp:
    """An attribute of the plans of one GPU: functions of its index read and set it. A sentence in place of `setter` is the error.

    >>> class Plans:
    ...     device_index = 2
    ...     size = torch.backends.cuda.cuFFTPlanCacheAttrContextProp(lambda index: index + 1, "size is read-only")
    >>> Plans().size
    3
    """

    def __init__(self, getter: Callable[[int], int], setter: Callable[[int, int], None] | str) -> None:
        self.getter, self.setter = getter, setter

    def __get__(self, obj: Any, objtype: type | None = None) -> int:
        return self.getter(obj.device_index)

    def __set__(self, obj: Any, val: int) -> None:
        if isinstance(self.setter, str):
            raise RuntimeError(self.setter)
        self.setter(obj.device_index, val)


def _limit_plans(device_index: int, count: int) -> None:
    if count < 0:
        raise RuntimeError(f"cuFFT plan cache size must be non-negative, but got {count}")
    _C._cuda_limit_plans(device_index, count)


class cuFFTPlanCache:
    """The plans for Fourier transforms on one GPU, which cuFFT makes for each shape and which are kept.

    >>> torch.backends.cuda.cuFFTPlanCache(0).device_index
    0
    """

    #: The number of plans.
    size = cuFFTPlanCacheAttrContextProp(
        lambda index: _C._cuda_plans(index)[0],
        ".size is a read-only property showing the number of plans currently in the cache. "
        "To change the cache capacity, set cufft_plan_cache.max_size.",
    )
    #: The largest number of plans, 4096 at first. Those that were not used for the longest time are removed.
    max_size = cuFFTPlanCacheAttrContextProp(lambda index: _C._cuda_plans(index)[1], _limit_plans)

    def __init__(self, device_index: int) -> None:
        self.device_index = device_index

    def clear(self) -> None:
        """Removes all plans."""
        _C._cuda_clear_plans(self.device_index)


class cuFFTPlanCacheManager:
    """The plans for Fourier transforms of each GPU, by index; its own attributes are those of the current GPU.

    >>> try:
    ...     torch.backends.cuda.cufft_plan_cache[1000]
    ... except RuntimeError as error:
    ...     print(str(error).split(":")[0])
    cufft_plan_cache
    """

    def __getitem__(self, device: Any) -> cuFFTPlanCache:
        index = number_of(device)
        count = torch.cuda.device_count()
        if not 0 <= index < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}, but got device with index {index}"
            )
        return cuFFTPlanCache(index)

    @property
    def size(self) -> int:
        """The number of plans for the current GPU."""
        return self[None].size

    @size.setter
    def size(self, value: int) -> None:
        self[None].size = value

    @property
    def max_size(self) -> int:
        """The largest number of plans for the current GPU."""
        return self[None].max_size

    @max_size.setter
    def max_size(self, value: int) -> None:
        self[None].max_size = value

    def clear(self) -> None:
        """Removes all plans for the current GPU."""
        self[None].clear()


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
    """Whether this build supports GPUs: always. `torch.cuda.is_available` tells whether there is one.

    >>> torch.backends.cuda.is_built()
    True
    """
    return True


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


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """Deprecated form of `torch.nn.attention.sdpa_kernel`. Gives a FutureWarning.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"), torch.backends.cuda.sdp_kernel(enable_flash=False):
    ...     torch.backends.cuda.flash_sdp_enabled()
    False
    """
    from rushlight.nn.attention import SDPBackend, sdpa_kernel

    warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. Please see "
        "`torch.nn.attention.sdpa_kernel()` for the new context manager, with updated signature.",
        FutureWarning,
    )
    wanted = {
        SDPBackend.FLASH_ATTENTION: enable_flash,
        SDPBackend.EFFICIENT_ATTENTION: enable_mem_efficient,
        SDPBackend.MATH: enable_math,
        SDPBackend.CUDNN_ATTENTION: enable_cudnn,
    }
    with sdpa_kernel([backend for backend, is_wanted in wanted.items() if is_wanted]):
        yield


def preferred_linalg_library(backend: str | None = None) -> str:
    """The library for factorisations on GPUs. It has no effect.

    >>> torch.backends.cuda.preferred_linalg_library()
    'default'
    """
    return "default"


def __dir__() -> list[str]:
    return __all__
