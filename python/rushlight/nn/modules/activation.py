"""Elementwise activations."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor as Tensor
from rushlight._set_module import set_public_module
from rushlight._warnings import warn

from .. import functional as F
from .. import init as _init
from ..parameter import Parameter
from ._multihead import MultiheadAttention
from ._softmax import LogSoftmax, Softmax, Softmax2d, Softmin
from .module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]

set_public_module(globals())


class _InPlace(Module):
    """The base of activations that can write the result into their input."""

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def _listed(self, *names: str) -> str:
        parts = [f"{name}={getattr(self, name)}" for name in names]
        return ", ".join(parts + ["inplace=True"] * bool(self.inplace))

    def extra_repr(self) -> str:
        return self._listed()


class ReLU(_InPlace):
    """``max(x, 0)``, element by element; any shape, any real dtype.

    Args:
        inplace: whether to write the result into the input.

    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.relu(input, self.inplace)


class SELU(_InPlace):
    """`ELU` with scales that preserve mean and variance across layers (Klambauer et al. 2017); floating point.

    >>> torch.nn.SELU()(torch.tensor([-1.0, 0.0]))
    tensor([-1.1113,  0.0000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.selu(input, self.inplace)


class SiLU(_InPlace):
    """``x * sigmoid(x)``, also called swish; any shape, floating point or complex.

    >>> torch.nn.SiLU()(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7311])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """``x * tanh(softplus(x))`` (Misra 2019); any shape, floating point.

    >>> torch.nn.Mish()(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8651])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.mish(input, self.inplace)


class Hardsigmoid(_InPlace):
    """A piecewise linear sigmoid, ``clamp(x / 6 + 1 / 2, 0, 1)``; any shape, floating point.

    >>> torch.nn.Hardsigmoid()(torch.tensor([-3.0, 0.0, 3.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """``x * hardsigmoid(x)`` (Howard et al. 2019); any shape, floating point.

    >>> torch.nn.Hardswish()(torch.tensor([-3.0, 0.0, 3.0]))
    tensor([-0., 0., 3.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Threshold(_InPlace):
    """``x`` where it is greater than ``threshold``, ``value`` elsewhere; any shape, any real dtype.

    >>> torch.nn.Threshold(1.0, -5.0)(torch.tensor([0.5, 2.0]))
    tensor([-5.,  2.])
    """

    __constants__ = ["threshold", "value", "inplace"]
    threshold: float
    value: float

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return self._listed("threshold", "value")


class Hardtanh(_InPlace):
    """``clamp(x, min_val, max_val)``; any shape, any real dtype.

    ``min_value`` and ``max_value`` are deprecated names; they give a warning.

    Raises:
        AssertionError: ``max_val`` is not greater than ``min_val``.

    >>> torch.nn.Hardtanh(-2.0, 2.0)(torch.tensor([-3.0, 1.0]))
    tensor([-2.,  1.])
    """

    __constants__ = ["min_val", "max_val", "inplace"]
    min_val: float
    max_val: float

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        if min_value is not None:
            _warn_of_old_name("min")
            min_val = min_value
        if max_value is not None:
            _warn_of_old_name("max")
            max_val = max_value
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return self._listed("min_val", "max_val")


def _warn_of_old_name(side: str) -> None:
    warn(f"keyword argument `{side}_value` is deprecated and renamed to `{side}_val`", FutureWarning)


class ReLU6(Hardtanh):
    """``min(max(x, 0), 6)``; any shape, any real dtype.

    >>> torch.nn.ReLU6()(torch.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return self._listed()


class ELU(_InPlace):
    """``x``, or ``alpha * (exp(x) - 1)`` where it is negative (Clevert et al. 2015); any shape, floating point.

    >>> torch.nn.ELU()(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    __constants__ = ["alpha", "inplace"]
    alpha: float

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return self._listed("alpha")


class CELU(ELU):
    """``x``, or ``alpha * (exp(x / alpha) - 1)`` where it is negative (Barron 2017); any shape, floating point.

    >>> torch.nn.CELU(2.0)(torch.tensor([-1.0, 2.0]))
    tensor([-0.7869,  2.0000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_InPlace):
    """``x``, or ``negative_slope * x`` where it is negative; any shape, floating point.

    >>> torch.nn.LeakyReLU(0.5)(torch.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    __constants__ = ["inplace", "negative_slope"]
    negative_slope: float

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return self._listed("negative_slope")


class RReLU(_InPlace):
    """A `LeakyReLU` with a random slope for each element in training, and with the mean of the bounds otherwise.

    Args:
        lower, upper: the bounds of the slope for negative elements.
        inplace: whether to write the result into the input.

    Any shape, floating point (Xu et al. 2015).

    >>> torch.nn.RReLU(0.25, 0.75).eval()(torch.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    __constants__ = ["lower", "upper", "inplace"]
    lower: float
    upper: float

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return self._listed("lower", "upper")


class PReLU(Module):
    """A `LeakyReLU` with learned slopes: one for all elements, or one per channel.

    Args:
        num_parameters: 1, or the size of the input's dimension 1.
        init: the initial value of the slopes.

    Shapes: input ``(*)`` or ``(N, C, *)``, weight ``(num_parameters)`` of the same floating point dtype.

    >>> torch.nn.PReLU()(torch.tensor([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    __constants__ = ["num_parameters"]
    num_parameters: int
    weight: torch.Tensor

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(torch.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the slopes to the initial value."""
        _init.constant_(self.weight, self.init)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class GELU(Module):
    """``x * Phi(x)`` with the normal distribution function Phi; any shape, floating point.

    Args:
        approximate: ``"none"``, or ``"tanh"`` for the approximation by tanh.

    Raises:
        RuntimeError: ``approximate`` has another value.

    >>> torch.nn.GELU()(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """

    __constants__ = ["approximate"]
    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """The first half along ``dim`` times the sigmoid of the second (Dauphin et al. 2016); floating point.

    Shapes: input ``(*, 2 n, *)``, output ``(*, n, *)``.

    Raises:
        RuntimeError: the size of the dimension is odd.

    >>> torch.nn.GLU()(torch.tensor([4.0, 0.0]))
    tensor([2.])
    """

    __constants__ = ["dim"]
    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _Shrink(Module):
    """The base of the two shrinkage functions, with the amount of shrinkage."""

    __constants__ = ["lambd"]
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """``x``, or zero where its magnitude is at most ``lambd``; any shape, floating point.

    >>> torch.nn.Hardshrink()(torch.tensor([0.25, -1.0]))
    tensor([ 0., -1.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """``x`` moved towards zero by ``lambd``; any shape, floating point.

    Raises:
        RuntimeError: ``lambd`` is negative.

    >>> torch.nn.Softshrink()(torch.tensor([0.25, -1.0]))
    tensor([ 0.0000, -0.5000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softshrink(input, self.lambd)


class Softplus(Module):
    """A smooth `ReLU`, ``log(1 + exp(beta * x)) / beta``; linear where ``beta * x`` is greater than ``threshold``.

    Any shape, floating point.

    >>> torch.nn.Softplus()(torch.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.0000])
    """

    __constants__ = ["beta", "threshold"]
    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``, element by element; any shape, floating point or complex.

    >>> torch.nn.Sigmoid()(torch.tensor([0.0]))
    tensor([0.5000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(input)


class LogSigmoid(Module):
    """The logarithm of the sigmoid, computed without underflow; any shape, floating point.

    >>> torch.nn.LogSigmoid()(torch.tensor([0.0, -200.0]))
    tensor([  -0.6931, -200.0000])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.logsigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent, element by element; any shape, floating point or complex.

    >>> torch.nn.Tanh()(torch.tensor([0.0]))
    tensor([0.])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.tanh(input)


class Tanhshrink(Module):
    """``x - tanh(x)``; any shape, floating point or complex.

    >>> torch.nn.Tanhshrink()(torch.tensor([1.0]))
    tensor([0.2384])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.tanhshrink(input)


class Softsign(Module):
    """``x / (1 + |x|)``; any shape, floating point or complex.

    >>> torch.nn.Softsign()(torch.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softsign(input)
