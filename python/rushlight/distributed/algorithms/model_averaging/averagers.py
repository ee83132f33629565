"""Averages models every few steps."""

import warnings
from abc import ABC, abstractmethod

from rushlight.distributed._groups import resolve

from . import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]


def __dir__() -> list[str]:
    return __all__


class ModelAverager(ABC):
    """The base of averagers, which count steps.

    Args:
        process_group: the ranks that average, by default all.
    """

    def __init__(self, process_group=None):
        self.process_group = resolve(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params):
        """Averages parameters, if it is time for it."""


class PeriodicModelAverager(ModelAverager):
    """Averages parameters every `period` steps, after a warm-up.

    Args:
        period: the number of steps between averages.
        warmup_steps: the number of steps before the first one.
        process_group: the ranks that average, by default all.

    Raises:
        ValueError: a number is too small.
    """

    def __init__(self, period, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(
                "When period is 1, no need to use model averaging because the communication cost of all-reducing "
                "parameters will be no less than the cost of all-reducing gradients by DistributedDataParallel in the "
                "backward pass. Therefore, only DistributedDataParallel should be used for this case."
            )
        self.warmup_steps, self.period = warmup_steps, period

    def average_parameters(self, params):
        """Averages those of the parameters that have gradients, if it is time, and counts a step."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
