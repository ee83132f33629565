"""The operators of `torch.fft`. The stub is generated."""

from rushlight._C import _functions

globals().update(_functions.get("fft", {}))
__all__ = sorted(_functions.get("fft", {}))  # noqa: PLE0605
