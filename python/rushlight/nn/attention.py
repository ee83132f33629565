"""Which kernel `scaled_dot_product_attention` takes: there is one for all choices."""

from __future__ import annotations

from contextlib import contextmanager
from enum import IntEnum

from rushlight.backends import cuda

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """The kernels that torch chooses among.

    >>> torch.nn.attention.SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_SWITCHES = {
    SDPBackend.MATH: (cuda.math_sdp_enabled, cuda.enable_math_sdp),
    SDPBackend.FLASH_ATTENTION: (cuda.flash_sdp_enabled, cuda.enable_flash_sdp),
    SDPBackend.EFFICIENT_ATTENTION: (cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp),
    SDPBackend.CUDNN_ATTENTION: (cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp),
}


@contextmanager
def sdpa_kernel(backends: Sequence[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[None]:
    """Inside, the settings of `backends.cuda` name these kernels; attention computes as ever.

    Raises:
        AssertionError: anything but members of `SDPBackend`.

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


def __dir__() -> list[str]:
    return __all__
