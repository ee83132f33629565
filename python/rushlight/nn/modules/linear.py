"""Linear and bilinear layers."""

from __future__ import annotations

import math

import rushlight as torch

from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input unchanged. It accepts and ignores any arguments.

    >>> torch.nn.Identity(54, unused=True)(torch.tensor([1.0]))
    tensor([1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input


class Linear(Module):
    """``x @ weight.T + bias``.

    Args:
        in_features: the size of the input's last dimension.
        out_features: the size of the output's last dimension.
        bias: whether to add a learned bias.

    Shapes: input ``(*, in_features)``, output ``(*, out_features)``, weight ``(out_features, in_features)``.
    The input has the dtype of the weight. Initial values are uniform within ``1 / sqrt(in_features)``.

    Raises:
        RuntimeError: the input's last dimension is not ``in_features``, or the dtypes differ.

    >>> layer = torch.nn.Linear(20, 30)
    >>> layer(torch.zeros(128, 20)).shape
    torch.Size([128, 30])
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: torch.Tensor
    bias: torch.Tensor  # may be None, but torch's annotation is this one, and programs rely on it

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(torch.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialises weight and bias."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # Read directly from the registry, because an attribute of a module takes several times as long.
        own: dict[str, Any] = self._parameters
        try:
            weight, bias = own["weight"], own["bias"]
        except KeyError:
            # Weight normalisation and other tools replace parameters by computed attributes.
            weight, bias = self.weight, self.bias
        return F.linear(input, weight, bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of `MultiheadAttention`. torch has a separate class for it."""


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that takes ``in_features`` from the first input.

    Args:
        out_features: the size of the output's last dimension.
        bias: whether to add a learned bias.

    After the first call it is a `Linear`, with torch's initial weights.

    >>> layer = torch.nn.LazyLinear(30)
    >>> layer(torch.zeros(128, 20)).shape
    torch.Size([128, 30])
    >>> type(layer).__name__, layer.in_features
    ('Linear', 20)
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Initialises weight and bias, if they have sizes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: torch.Tensor) -> None:
        """Sets the sizes from the input and initialises the weights."""
        if not self.has_uninitialized_params():
            # A loaded state has already set the sizes.
            self.in_features = self.weight.shape[-1]
            return
        with torch.no_grad():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))  # type: ignore[attr-defined]
            if self.bias is not None:
                self.bias.materialize((self.out_features,))  # type: ignore[attr-defined]
            self.reset_parameters()


class Bilinear(Module):
    """``x1 @ weight[k] @ x2 + bias[k]`` for each feature ``k`` of the output.

    Args:
        in1_features, in2_features: the sizes of the inputs' last dimensions.
        out_features: the size of the output's last dimension.
        bias: whether to add a learned bias.

    Shapes: inputs ``(*, in1_features)`` and ``(*, in2_features)``, output ``(*, out_features)``, weight
    ``(out_features, in1_features, in2_features)``. Initial values are uniform within ``1 / sqrt(in1_features)``.

    Raises:
        ValueError: ``in1_features`` is not positive.
        RuntimeError: the sizes of the inputs are different.

    >>> torch.nn.Bilinear(20, 30, 40)(torch.zeros(128, 20), torch.zeros(128, 30)).shape
    torch.Size([128, 40])
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]
    in1_features: int
    in2_features: int
    out_features: int
    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(torch.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialises weight and bias."""
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={self.in1_features})")
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: torch.Tensor, input2: torch.Tensor) -> torch.Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
