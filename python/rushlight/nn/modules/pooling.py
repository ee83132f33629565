"""Pooling: reduces each window to one number."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003
from typing import Any

import rushlight as torch

from .. import functional as F
from .module import Module
from .utils import _pair, _single, _triple

__all__ = [
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
]


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    _pool: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: torch.Tensor) -> Any:
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The maximum of each window along one dimension. Arguments and errors as in `MaxPool2d`.

    Shapes: input ``(N, C, L)`` or ``(C, L)``.

    >>> torch.nn.MaxPool1d(3, stride=2)
    MaxPool1d(kernel_size=3, stride=2, padding=0, dilation=1, ceil_mode=False)
    """

    _pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The maximum of each window of an image.

    Args:
        kernel_size, stride, padding, dilation: one number, or one per dimension. The stride is the kernel size by
            default. The padding (with minus infinity) is at most half of the kernel size.
        return_indices: whether to return the indices of the maxima too.
        ceil_mode: whether windows may extend beyond the end of the input.

    Shapes: input ``(N, C, H, W)`` or ``(C, H, W)``. Any real dtype.

    Raises:
        RuntimeError: the input is smaller than a window, or the padding is larger than half of it.

    >>> torch.nn.MaxPool2d(2)(torch.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    _pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The maximum of each window of a volume. Arguments and errors as in `MaxPool2d`.

    Shapes: input ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> torch.nn.MaxPool3d(2)(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[7.]]]])
    """

    _pool = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(Module):
    _spread: Callable[[Any], tuple[int, ...]]
    _unpool: Callable[..., torch.Tensor]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        spread = type(self)._spread
        self.kernel_size = spread(kernel_size)
        self.stride = spread(stride if stride is not None else kernel_size)
        self.padding = spread(padding)

    def forward(self, input: torch.Tensor, indices: torch.Tensor, output_size: Any = None) -> torch.Tensor:
        return self._unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Inverts `MaxPool1d`: puts the maxima at their indices and zeros elsewhere. Arguments as in `MaxUnpool2d`.

    >>> pool = torch.nn.MaxPool1d(2, return_indices=True)
    >>> torch.nn.MaxUnpool1d(2)(*pool(torch.tensor([[1.0, 2.0, 4.0, 3.0]])))
    tensor([[0., 2., 4., 0.]])
    """

    _spread = staticmethod(_single)
    _unpool = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Inverts `MaxPool2d`: puts the maxima at their indices and zeros elsewhere.

    Args:
        kernel_size, stride, padding: those of the pooling.

    ``forward`` takes the maxima, their indices and, if several output sizes are possible, ``output_size``.

    Raises:
        ValueError: ``output_size`` is not a possible input size of this pooling.
        RuntimeError: an index is out of range.

    >>> pool = torch.nn.MaxPool2d(2, return_indices=True)
    >>> torch.nn.MaxUnpool2d(2)(*pool(torch.tensor([[[1.0, 2.0], [4.0, 3.0]]])))
    tensor([[[0., 0.],
             [4., 0.]]])
    """

    _spread = staticmethod(_pair)
    _unpool = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Inverts `MaxPool3d`: puts the maxima at their indices and zeros elsewhere. Arguments as in `MaxUnpool2d`.

    >>> pool = torch.nn.MaxPool3d(2, return_indices=True)
    >>> torch.nn.MaxUnpool3d(2)(*pool(torch.arange(8.0).reshape(1, 2, 2, 2))).sum()
    tensor(7.)
    """

    _spread = staticmethod(_triple)
    _unpool = staticmethod(F.max_unpool3d)


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def __init__(self, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window along one dimension. Arguments and errors as in `AvgPool2d`.

    Shapes: input ``(N, C, L)`` or ``(C, L)``.

    >>> torch.nn.AvgPool1d(2)(torch.tensor([[1.0, 2.0, 3.0, 5.0]]))
    tensor([[1.5000, 4.0000]])
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        stride = stride if stride is not None else kernel_size
        super().__init__(_single(kernel_size), _single(stride), _single(padding), ceil_mode, count_include_pad)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolOverridden(_AvgPoolNd):
    """Average pooling with the argument ``divisor_override``."""

    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]
    _pool: Callable[..., torch.Tensor]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolOverridden):
    """The mean of each window of an image.

    Args:
        kernel_size, stride, padding: one number, or one per dimension. The stride is the kernel size by default. The
            padding (with zeros) is at most half of the kernel size.
        ceil_mode: whether windows may extend beyond the end of the input.
        count_include_pad: whether to include the padding in the mean.
        divisor_override: a divisor that replaces the number of elements.

    Shapes: input ``(N, C, H, W)`` or ``(C, H, W)``. Floating point and int64.

    Raises:
        RuntimeError: the input is smaller than a window, the padding is larger than half of it, or the divisor is zero.

    >>> torch.nn.AvgPool2d(2)(torch.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """

    _pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolOverridden):
    """The mean of each window of a volume. Arguments and errors as in `AvgPool2d`.

    Shapes: input ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> torch.nn.AvgPool3d(2)(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[3.5000]]]])
    """

    _pool = staticmethod(F.avg_pool3d)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name, value in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, value)


class _FractionalMaxPoolNd(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _space: int
    _spread: Callable[[Any], tuple[Any, ...]]
    _pool: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        spread = type(self)._spread
        self.kernel_size = spread(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = spread(output_size) if output_size is not None else None
        self.output_ratio = spread(output_ratio) if output_ratio is not None else None
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < self.output_ratio[dim] < 1 for dim in range(self._space)):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: torch.Tensor) -> Any:
        return self._pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The maxima of windows at random positions, which allow any output size (Graham 2014).

    Args:
        kernel_size: the size of the windows, one number, or one per dimension.
        output_size, output_ratio: the size of the output, or its ratio to that of the input. One of them is given.
        return_indices: whether to return the indices of the maxima too.

    Shapes: input ``(N, C, H, W)`` or ``(C, H, W)``.

    Raises:
        ValueError: neither or both of size and ratio are given, or a ratio is outside of (0, 1).

    >>> torch.nn.FractionalMaxPool2d(2, output_ratio=0.5)(torch.zeros(1, 6, 8)).shape
    torch.Size([1, 3, 4])
    """

    _space = 2
    _spread = staticmethod(_pair)
    _pool = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """`FractionalMaxPool2d` for volumes ``(N, C, D, H, W)`` or ``(C, D, H, W)``. Same arguments and errors.

    >>> torch.nn.FractionalMaxPool3d(2, output_size=3)(torch.zeros(1, 6, 7, 8)).shape
    torch.Size([1, 3, 3, 3])
    """

    _space = 3
    _spread = staticmethod(_triple)
    _pool = staticmethod(F.fractional_max_pool3d)

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: torch.Tensor | None = None,
    ) -> None:
        if not all(size > 0 for size in _triple(kernel_size)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        super().__init__(kernel_size, output_size, output_ratio, return_indices, _random_samples)


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    norm_type: float
    ceil_mode: bool
    _pool: Callable[..., torch.Tensor]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The norm of each window along one dimension. Arguments as in `LPPool2d`.

    >>> torch.nn.LPPool1d(2, 2)(torch.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    _pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """The norm of each window of an image: ``sum(x ** norm_type) ** (1 / norm_type)``.

    Args:
        norm_type: the power.
        kernel_size, stride: one number, or one per dimension. The stride is the kernel size by default.
        ceil_mode: whether windows may extend beyond the end of the input.

    Shapes: input ``(N, C, H, W)`` or ``(C, H, W)``, floating point.

    >>> torch.nn.LPPool2d(2, (1, 2))(torch.tensor([[[3.0, 4.0]]]))
    tensor([[[5.]]])
    """

    _pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """The norm of each window of a volume. Arguments as in `LPPool2d`.

    >>> torch.nn.LPPool3d(1, 2)(torch.ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """

    _pool = staticmethod(F.lp_pool3d)


class _AdaptivePoolNd(Module):
    __constants__ = ["output_size"]
    _pool: Callable[..., Any]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: torch.Tensor) -> Any:
        return self._pool(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveMaxPoolNd(_AdaptivePoolNd):
    __constants__ = ["output_size", "return_indices"]
    return_indices: bool

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: torch.Tensor) -> Any:
        return self._pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Max pooling of sequences to a given output size. Arguments as in `AdaptiveMaxPool2d`.

    >>> torch.nn.AdaptiveMaxPool1d(2)(torch.tensor([[1.0, 2.0, 5.0, 3.0]]))
    tensor([[2., 5.]])
    """

    _pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Max pooling of images to a given output size.

    Args:
        output_size: one number, or one per dimension; ``None`` keeps a dimension.
        return_indices: whether to return the indices of the maxima too.

    Shapes: input ``(N, C, H, W)`` or ``(C, H, W)``; any real dtype.

    >>> torch.nn.AdaptiveMaxPool2d((1, None))(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[2., 3.]]])
    """

    _pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Max pooling of volumes to a given output size. Arguments as in `AdaptiveMaxPool2d`.

    >>> torch.nn.AdaptiveMaxPool3d(1)(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[7.]]]])
    """

    _pool = staticmethod(F.adaptive_max_pool3d)


class AdaptiveAvgPool1d(_AdaptivePoolNd):
    """Average pooling of sequences to a given output size. Argument as in `AdaptiveAvgPool2d`.

    >>> torch.nn.AdaptiveAvgPool1d(2)(torch.tensor([[1.0, 2.0, 5.0, 3.0]]))
    tensor([[1.5000, 4.0000]])
    """

    _pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptivePoolNd):
    """Average pooling of images to a given output size.

    Args:
        output_size: one number, or one per dimension; ``None`` keeps a dimension.

    Shapes: input ``(N, C, H, W)`` or ``(C, H, W)``, floating point.

    >>> torch.nn.AdaptiveAvgPool2d((1, None))(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[1., 2.]]])
    """

    _pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptivePoolNd):
    """Average pooling of volumes to a given output size. Argument as in `AdaptiveAvgPool2d`.

    >>> torch.nn.AdaptiveAvgPool3d(1)(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[3.5000]]]])
    """

    _pool = staticmethod(F.adaptive_avg_pool3d)
