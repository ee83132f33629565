"""`torch.signal.windows`: window functions.

A symmetric window (``sym=True``, the default) equals its reverse. A periodic window, for spectral analysis, is the
symmetric window with one more sample, without the last one.
"""

from __future__ import annotations

import math

import rushlight as torch
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _made(name: str, M: int, options: dict[str, Any], window: Callable[..., Tensor]) -> Tensor:
    """Checks the common arguments and creates a window. ``window`` gets a function that returns evenly spaced numbers."""
    unknown = options.keys() - {"dtype", "layout", "device", "requires_grad"}
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument '{min(unknown)}'")
    dtype, layout = options.get("dtype"), options.get("layout", torch.strided)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not torch.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype is not torch.float32 and dtype is not torch.float64:
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    device = options.get("device")

    def spaced(start: float, step: float) -> Tensor:
        return torch.linspace(start, start + (M - 1) * step, M, dtype=dtype, device=device)

    with torch.no_grad():
        made = torch.empty(0, dtype=dtype, device=device) if M == 0 else window(spaced)
    return _C._requiring_grad(made, options.get("requires_grad", False))


def _length(M: int, sym: bool) -> int:
    """The number of steps in one period."""
    return M - 1 if sym or M <= 1 else M


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """``exp(-abs(n - center) / tau)``. The centre is the middle; a periodic window may have another.

    Raises:
        ValueError: ``tau`` is not positive, or a symmetric window has a centre.

    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = _length(M, sym) / 2.0 if center is None else center
    return _made("exponential", M, options, lambda spaced: torch.exp(-spaced(-middle / tau, 1 / tau).abs()))


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Half a period of the sine function.

    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    step = math.pi / max(_length(M, sym) + 1, 1)
    return _made("cosine", M, options, lambda spaced: torch.sin(spaced(step / 2, step)))


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """``exp(-(n / std) ** 2 / 2)`` around the middle.

    Raises:
        ValueError: ``std`` is not positive.

    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    step = 1 / (std * math.sqrt(2))
    return _made("gaussian", M, options, lambda spaced: torch.exp(-(spaced(-_length(M, sym) / 2.0 * step, step) ** 2)))


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """The Kaiser window, ``i0(beta * sqrt(1 - t ** 2)) / i0(beta)`` for ``t`` from -1 to 1.

    Raises:
        ValueError: ``beta`` is negative.

    >>> torch.signal.windows.kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def window(spaced: Callable[[float, float], Tensor]) -> Tensor:
        if M == 1:
            return torch.ones_like(spaced(0, 0))
        places = spaced(-beta, 2 * beta / _length(M, sym)).clamp(max=beta)
        return torch.i0(torch.sqrt(beta * beta - places * places)) / torch.i0(torch.full_like(places[0], beta))

    return _made("kaiser", M, options, window)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """The Hamming window, a raised cosine with end value 0.08.

    >>> torch.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return _cosines("hamming", M, (0.54, 0.46), sym, options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """The Hann window, a raised cosine with end value zero.

    >>> torch.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return _cosines("hann", M, (0.5, 0.5), sym, options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """The Blackman window, a sum of three cosines with end values near zero.

    >>> torch.signal.windows.blackman(5)
    tensor([-1.4901e-08,  3.4000e-01,  1.0000e+00,  3.4000e-01, -1.4901e-08])
    """
    return _cosines("blackman", M, (0.42, 0.5, 0.08), sym, options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """The Bartlett window, a triangle.

    >>> torch.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """

    def window(spaced: Callable[[float, float], Tensor]) -> Tensor:
        return 1 - spaced(-1, 2 / _length(M, sym)).abs() if M > 1 else torch.ones_like(spaced(0, 0))

    return _made("bartlett", M, options, window)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """A sum of cosines with weights ``a`` and alternating signs.

    Raises:
        TypeError: ``a`` is not a list.
        ValueError: ``a`` is empty.

    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    return _cosines("general_cosine", M, a, sym, options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """The general Hamming window, ``alpha - (1 - alpha) * cos(t)``.

    >>> torch.signal.windows.general_hamming(3, alpha=0.5)
    tensor([0., 1., 0.])
    """
    return _cosines("general_hamming", M, (alpha, 1 - alpha), sym, options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """The Nuttall window, a sum of four cosines with minimal side lobes.

    >>> torch.signal.windows.nuttall(3)
    tensor([3.6280e-04, 1.0000e+00, 3.6280e-04])
    """
    return _cosines("nuttall", M, (0.3635819, 0.4891775, 0.1365995, 0.0106411), sym, options)


def _cosines(name: str, M: int, a: Iterable[float], sym: bool, options: dict[str, Any]) -> Tensor:
    if not hasattr(a, "__iter__"):
        raise TypeError("Coefficients must be a list/tuple")
    weights = tuple(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")

    def window(spaced: Callable[[float, float], Tensor]) -> Tensor:
        if M == 1:
            return torch.ones_like(spaced(0, 0))
        angles = spaced(0, 2 * math.pi / _length(M, sym))
        signed = torch.tensor([(-1) ** i * weight for i, weight in enumerate(weights)], dtype=angles.dtype)
        signed = signed.to(angles.device).unsqueeze(-1)
        degrees = torch.arange(len(weights), dtype=angles.dtype, device=angles.device).unsqueeze(-1)
        return (signed * torch.cos(degrees * angles)).sum(0)

    return _made(name, M, options, window)


def __dir__() -> list[str]:
    return __all__
