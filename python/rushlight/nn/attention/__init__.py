"""Selects the kernel of `scaled_dot_product_attention`. rushlight has one kernel for all choices."""

from __future__ import annotations

from contextlib import contextmanager

from rushlight._loading import load as _load
from rushlight._missing_names import missing_from
from rushlight._set_module import set_module as _set_module
from rushlight.backends import cuda
from rushlight.backends.cuda import SDPBackend

from ._registry import (
    activate_flash_attention_impl,
    current_flash_attention_impl,
    list_flash_attention_impls,
    register_flash_attention_impl,
    restore_flash_attention_impl,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS",
    "SDPBackend",
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
    "sdpa_kernel",
]

#: Whether attention warns where torch uses no fused kernel. It has no effect.
WARN_FOR_UNFUSED_KERNELS = False

_set_module(
    "rushlight.nn.attention",
    SDPBackend,
    activate_flash_attention_impl,
    current_flash_attention_impl,
    list_flash_attention_impls,
    register_flash_attention_impl,
    restore_flash_attention_impl,
)


_SWITCHES = {
    SDPBackend.MATH: (cuda.math_sdp_enabled, cuda.enable_math_sdp),
    SDPBackend.FLASH_ATTENTION: (cuda.flash_sdp_enabled, cuda.enable_flash_sdp),
    SDPBackend.EFFICIENT_ATTENTION: (cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp),
    SDPBackend.CUDNN_ATTENTION: (cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp),
}


@contextmanager
def sdpa_kernel(backends: Sequence[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[None]:
    """Selects kernels inside the block. Only the settings of `backends.cuda` change; attention computes the same.

    Raises:
        AssertionError: an argument is not a member of `SDPBackend`.

    >>> with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
    ...     torch.backends.cuda.flash_sdp_enabled()
    False
    """
    if not isinstance(backends, (SDPBackend, list)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    before = [(switch, enabled()) for enabled, switch in _SWITCHES.values()]
    for backend, (_, switch) in _SWITCHES.items():
        switch(backend in chosen)
    try:
        yield
    finally:
        for switch, enabled in before:
            switch(enabled)


def __getattr__(name: str) -> object:
    if name in ("bias", "flex_attention"):
        return _load(f"{__name__}.{name}")
    raise missing_from("torch.nn.attention", name, __dir__)


def __dir__() -> list[str]:
    # `bias` is left out: its class overrides a function, so that all calls of a program that loads it cost more.
    return [*__all__, "flex_attention"]
