"""The base of exponential families, whose entropy follows from the log normalizer."""

from __future__ import annotations

import rushlight as torch

from .distribution import Distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution with density ``exp(<t(x), theta> - F(theta) + k(x))``.

    A subclass defines ``_natural_params`` (theta), ``_log_normalizer`` (F) and ``_mean_carrier_measure`` (the mean of
    k). The entropy is computed by differentiating F (Nielsen, Nock 2010).

    >>> isinstance(torch.distributions.Normal(0.0, 1.0), torch.distributions.ExponentialFamily)
    True
    """

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    @property
    def _natural_params(self) -> tuple[torch.Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def entropy(self) -> torch.Tensor:
        """The log normalizer's Bregman divergence from zero."""
        result = -self._mean_carrier_measure
        parameters = [parameter.detach().requires_grad_() for parameter in self._natural_params]
        normalizer = self._log_normalizer(*parameters)
        gradients = torch.autograd.grad(normalizer.sum(), parameters, create_graph=True)
        result += normalizer
        for parameter, gradient in zip(parameters, gradients):
            result -= (parameter * gradient).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
