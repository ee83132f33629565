"""Questions about Triton, the compiler of kernels for GPUs, which rushlight does not use."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "there are no kernels in Triton",
        """
        has_triton() = False
        has_triton_package() = False
        has_triton_experimental_host_tma() = False
        has_triton_stable_tma_api() = False
        has_triton_tensor_descriptor_host_tma() = False
        has_triton_tma() = False
        has_triton_tma_device() = False
        has_datacenter_blackwell_tma_device() = False
        triton_backend triton_hash_with_backend
        """,
    ),
]


def get_triton_version(fallback: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """The version of Triton, if it is there: always ``fallback``.

    >>> from rushlight.utils._triton import get_triton_version
    >>> get_triton_version((1, 0))
    (1, 0)
    """
    return fallback


__all__ += ["get_triton_version"]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
