"""Normalisation within a sample: over its last dimensions, groups of channels, or neighbouring channels."""

from __future__ import annotations

import rushlight as torch

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """Divides each channel by a power of the mean square of its neighbours (Krizhevsky et al. 2012).

    ``x / (k + alpha / size * sum(x ** 2)) ** beta``, the sum over ``size`` neighbouring channels.

    Shapes: input ``(N, C, *)``, floating point.

    Raises:
        ValueError: the input has fewer than three dimensions.

    >>> torch.nn.LocalResponseNorm(1, alpha=3.0, beta=0.5)(torch.ones(1, 1, 1))
    tensor([[[0.5000]]])
    """

    __constants__ = ["size", "alpha", "beta", "k"]
    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """An older form of `LocalResponseNorm` for images ``(N, C, H, W)``. An even window has one more channel before.

    >>> torch.nn.CrossMapLRN2d(1, alpha=3.0, beta=0.5)(torch.ones(1, 1, 1, 1))
    tensor([[[[0.5000]]]])
    """

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = (self.size - 1) // 2
        squares = input * input
        sums = F.pad(squares, (0, 0, 0, 0, reach, reach)).unfold(1, 2 * reach + 1, 1).sum(-1)
        if input.size(1) > reach + 1:
            # In torch, the first channel is never removed from the running sum.
            sums = torch.cat([sums[:, : reach + 1], sums[:, reach + 1 :] + squares[:, :1]], 1)
        return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class _LastDimsNorm(Module):
    """The base of normalisations over the last dimensions."""

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    elementwise_affine: bool
    weight: torch.Tensor

    def __init__(
        self, normalized_shape: int | Sequence[int], elementwise_affine: bool, device: Any, dtype: Any
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.elementwise_affine = elementwise_affine
        self._learn("weight", elementwise_affine, device, dtype)

    def _learn(self, name: str, wanted: bool, device: Any, dtype: Any) -> None:
        own = Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
        self.register_parameter(name, own)


class LayerNorm(_LastDimsNorm):
    """Normalises over the last dimensions of each sample (Ba et al. 2016).

    ``(x - mean) / sqrt(var + eps) * weight + bias``, with a weight and a bias for each element of those dimensions.

    Args:
        normalized_shape: the sizes of those dimensions, or the size of the last.
        eps: added to the variance.
        elementwise_affine: whether to learn weight and bias.
        bias: whether to learn the bias.

    Shapes: input ``(*, *normalized_shape)``, floating point.

    Raises:
        RuntimeError: the last sizes of the input differ.

    >>> torch.nn.LayerNorm(2, elementwise_affine=False)(torch.tensor([[1.0, 3.0]]))
    tensor([[-1.0000,  1.0000]])
    """

    eps: float
    bias: torch.Tensor

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, elementwise_affine, device, dtype)
        self.eps = eps
        self._learn("bias", elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to one and the bias to zero."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(_LastDimsNorm):
    """Divides by the root of the mean square over the last dimensions (Zhang and Sennrich 2019), times a weight.

    Args:
        normalized_shape: the sizes of those dimensions, or the size of the last.
        eps: added to the mean square; by default the dtype's machine epsilon.
        elementwise_affine: whether to learn the weight.

    Shapes: input ``(*, *normalized_shape)``, floating point.

    Raises:
        RuntimeError: the last sizes of the input differ.

    >>> torch.nn.RMSNorm(2, elementwise_affine=False)(torch.tensor([[3.0, 3.0]]))
    tensor([[1., 1.]])
    """

    eps: float | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, elementwise_affine, device, dtype)
        self.eps = eps
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to one."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalises groups of channels of each sample (Wu and He 2018), with one scale and one shift per channel.

    Args:
        num_groups: the number of groups. It must divide ``num_channels``.
        num_channels: the number of channels C.
        eps: added to the variance.
        affine: whether to learn scale and shift.
        bias: whether to learn the shift.

    Shapes: input ``(N, C, *)``, floating point.

    Raises:
        ValueError: ``num_groups`` does not divide ``num_channels``.
        RuntimeError: the input has the wrong number of channels.

    >>> torch.nn.GroupNorm(1, 2, affine=False)(torch.tensor([[1.0, 3.0]]))
    tensor([[-1.0000,  1.0000]])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]
    num_groups: int
    num_channels: int
    eps: float
    affine: bool
    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            own = Parameter(torch.empty(num_channels, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, own)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the scale to one and the shift to zero."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
