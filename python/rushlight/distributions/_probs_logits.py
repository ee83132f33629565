"""The base of distributions with a probability, given as ``probs`` or ``logits``."""

from __future__ import annotations

import rushlight as torch

from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ProbsLogits(Distribution):
    """The base of Bernoulli, binomial and other distributions, which converts between ``probs`` and ``logits``."""

    _param: torch.Tensor
    total_count: torch.Tensor

    @staticmethod
    def _refuse_unless_one(probs: Any, logits: Any) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")

    def _take_trials(self, total_count: Any, probs: Any, logits: Any) -> None:
        """Stores the probability and the number of trials with a common shape and dtype."""
        self._refuse_unless_one(probs, logits)
        if probs is not None:
            self.total_count, self._param = broadcast_all(total_count, probs)
            self.probs = self._param
        else:
            self.total_count, self._param = broadcast_all(total_count, logits)
            self.logits = self._param
        self.total_count = self.total_count.type_as(self._param)

    def _expanded(self, batch_shape: Any) -> dict[str, Any]:
        """The stored parameters, expanded to a larger shape."""
        stand, batch_shape = self.__dict__, torch.Size(batch_shape)
        given: dict[str, Any] = {name: stand[name].expand(batch_shape) for name in ("probs", "logits") if name in stand}
        given["_param"] = given["probs"] if "probs" in given else given["logits"]
        return given

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> torch.Tensor:
        """The log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> torch.Tensor:
        """The probabilities of one, or of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> torch.Size:
        """The shape of the parameter."""
        return self._param.size()
