"""The standard's extension ``fft``: torch's functions with ``axis`` instead of ``dim``."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
_MANY = ["fftn", "ifftn", "rfftn", "irfftn"]

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq", *_ONE, *_MANY]


def _named(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"See ``torch.fft.{name}``."
    return function


def _one(name: str) -> Any:
    function = getattr(torch.fft, name)

    def wrapped(x: torch.Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> torch.Tensor:
        return function(x, n, axis, norm)

    return _named(wrapped, name)


def _many(name: str) -> Any:
    function = getattr(torch.fft, name)

    def wrapped(
        x: torch.Tensor,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> torch.Tensor:
        return function(x, s, axes, norm)

    return _named(wrapped, name)


globals().update({name: _one(name) for name in _ONE})
globals().update({name: _many(name) for name in _MANY})


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> torch.Tensor:
    """The frequencies of a transform of ``n`` numbers with spacing ``d``."""
    return torch.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> torch.Tensor:
    """The frequencies of a transform of ``n`` real numbers with spacing ``d``."""
    return torch.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: torch.Tensor, /, *, axes: int | Sequence[int] | None = None) -> torch.Tensor:
    """Moves the zero frequency to the middle."""
    return torch.fft.fftshift(x, axes)


def ifftshift(x: torch.Tensor, /, *, axes: int | Sequence[int] | None = None) -> torch.Tensor:
    """Moves the zero frequency to the beginning."""
    return torch.fft.ifftshift(x, axes)


def __dir__() -> list[str]:
    return __all__
