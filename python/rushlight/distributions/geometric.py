"""The geometric distribution."""

from __future__ import annotations

import rushlight as torch

from . import constraints
from ._probs_logits import ProbsLogits
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Geometric"]


class Geometric(ProbsLogits):
    """The number of failures before the first success: k with probability ``(1 - probs)**k * probs``, starting at 0.

    (`torch.Tensor.geometric_` includes the success, starting at 1.)

    Args:
        probs: the probability of success, in (0, 1]. Alternatively:
        logits: its log-odds.

    Raises:
        ValueError: both or neither of ``probs`` and ``logits`` are given, or a probability is outside of (0, 1].

    >>> geometric = torch.distributions.Geometric(torch.tensor([0.25, 1.0]))
    >>> geometric.mean, geometric.sample((3,)).shape
    (tensor([3., 0.]), torch.Size([3, 2]))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._refuse_unless_one(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
        self._param = self.logits if probs is None else self.probs
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None:
            positive = self.probs > 0
            if not positive.all():
                raise ValueError(
                    f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of "
                    f"distribution {self!r} to be positive but found invalid values:\n{self.probs.data[~positive]}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return self._expand_into(Geometric, _instance, batch_shape, **self._expanded(batch_shape))

    @property
    def mean(self) -> torch.Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> torch.Tensor:
        return torch.zeros_like(self.probs)

    @property
    def variance(self) -> torch.Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        with torch.no_grad():
            drawn = self.probs.new(self._extended_shape(sample_shape))
            drawn.uniform_(torch.finfo(self.probs.dtype).tiny, 1)  # not zero, whose logarithm is infinite
            return (drawn.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone(memory_format=torch.contiguous_format)
        # If success is certain, this avoids the product of zero and minus infinity.
        probs[(probs == 1) & (value == 0)] = 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> torch.Tensor:
        one = torch.nn.functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return one / self.probs
