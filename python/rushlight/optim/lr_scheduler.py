"""Learning-rate schedules.

A schedule computes the next rate from the current one, so that several schedules can act on one optimizer. If there is
a formula for any epoch, it is in ``_get_closed_form_lr``.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter

from rushlight._constructors import name_constructor
from rushlight._set_module import set_public_module
from rushlight._warnings import warn

from ._lr_base import EPOCH_DEPRECATION_WARNING, LRScheduler, copied, require_optimizer, set_rate
from ._lr_chains import ChainedScheduler, SequentialLR
from ._lr_cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from .optimizer import Optimizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

set_public_module(globals())


class _LRScheduler(LRScheduler):
    """The old name of `LRScheduler`, from which older programs derive their schedules."""


class _ByFunctions(LRScheduler):
    """The base of schedules by functions of the epoch, one per group."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name_constructor(cls)

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != groups:
                raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """The state without the optimizer and the functions."""
        state = super().state_dict()
        functions = state.pop("lr_lambdas")
        state["lr_lambdas"] = [
            None if hasattr(function, "__code__") else function.__dict__.copy() for function in functions
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the result of `state_dict`. Functions do not change."""
        state = dict(state_dict)
        for function, own in zip(self.lr_lambdas, state.pop("lr_lambdas")):
            if own is not None:
                function.__dict__.update(own)
        super().load_state_dict(state)


class LambdaLR(_ByFunctions):
    """The initial rate times a function of the epoch.

    Args:
        lr_lambda: a function, or a list with one per group. Objects with ``__call__`` are saved by their ``__dict__``;
            functions are not saved.

    Raises:
        ValueError: the list does not have one function per group.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        self._rates()
        return [base * function(self.last_epoch) for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_ByFunctions):
    """Multiplies the current rate by a function of the epoch. Argument and errors as in `LambdaLR`.

    Raises:
        TypeError: an argument is not callable.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        for function in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        if self._is_initial:
            return rates
        return [rate * function(self.last_epoch) for function, rate in zip(self.lr_lambdas, rates, strict=True)]


class StepLR(LRScheduler):
    """Multiplies the rate by ``gamma`` every ``step_size`` epochs.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = StepLR(optimizer, step_size=1, gamma=0.25)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return rates
        return [rate * self.gamma for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies the rate by ``gamma`` at each of the given epochs.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = MultiStepLR(optimizer, milestones=[1, 30], gamma=0.25)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        if self.last_epoch not in self.milestones:
            return rates
        return [rate * self.gamma ** self.milestones[self.last_epoch] for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies the rate by ``gamma`` in every epoch.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        return rates if self._is_initial else [rate * self.gamma for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Multiplies the initial rate by a factor from ``start_factor`` to ``end_factor``, in ``total_iters`` epochs.

    Raises:
        ValueError: a factor is greater than 1, the start is not positive, or the end is negative.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in rates]
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        change = self.end_factor - self.start_factor
        factor = 1.0 + change / (self.total_iters * self.start_factor + (self.last_epoch - 1) * change)
        return [rate * factor for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        change = self.end_factor - self.start_factor
        factor = self.start_factor + change * min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * factor for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiplies the initial rate by ``factor`` for ``total_iters`` epochs.

    Raises:
        ValueError: the factor is not between 0 and 1.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> ConstantLR(optimizer, factor=0.5, total_iters=2).get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in rates]
        if self.last_epoch == self.total_iters:
            return [rate * (1.0 / self.factor) for rate in rates]
        return rates

    def _get_closed_form_lr(self) -> list[Any]:
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Multiplies the initial rate by ``(1 - epoch / total_iters) ** power``, and by zero after ``total_iters`` epochs.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = PolynomialLR(optimizer, total_iters=2, power=2.0)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        epoch, total = self.last_epoch, self.total_iters
        if self._is_initial or epoch > total:
            return rates
        factor = ((1.0 - epoch / total) / (1.0 - (epoch - 1) / total)) ** self.power
        return [rate * factor for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """The rate follows half a cosine to ``eta_min`` in ``T_max`` epochs, and back (Loshchilov 2016).

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        epoch, period, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return rates
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - period) % (2 * period) == 0:
            # The epoch before was at the minimum, where the ratio below is undefined.
            rise = (1 - math.cos(math.pi / period)) / 2
            return [rate + (base - low) * rise for base, rate in zip(self.base_lrs, rates, strict=True)]
        ratio = (1 + math.cos(math.pi * epoch / period)) / (1 + math.cos(math.pi * (epoch - 1) / period))
        return [ratio * (rate - low) + low for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        low = self.eta_min
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [low + (base - low) * height / 2 for base in self.base_lrs]


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by ``factor`` when a measured quantity has stopped improving.

    Args:
        mode: ``"min"`` if smaller is better, ``"max"`` if larger is.
        patience: the number of epochs without improvement that are allowed.
        threshold, threshold_mode: the required improvement: a fraction of the best value (``"rel"``) or a difference
            (``"abs"``).
        cooldown: the number of epochs after a reduction that are not counted.
        min_lr: the lowest rate, one for all groups, or one per group.
        eps: smaller reductions are skipped.

    Raises:
        ValueError: ``factor`` is not less than 1, a mode is unknown, or the number of lowest rates is wrong.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    >>> for loss in (3.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.5]
    """

    _by_metric = True

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        require_optimizer(optimizer)
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        self.default_min_lr: float | None
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != groups:
                raise ValueError(f"expected {groups} min_lrs, got {len(min_lr)}")
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * groups
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = [copied(group["lr"]) for group in optimizer.param_groups]
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are currently not counted."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float, best: float) -> bool:
        is_relative, threshold = self.threshold_mode == "rel", self.threshold
        if self.mode == "min":
            return value < (best * (1.0 - threshold) if is_relative else best - threshold)
        return value > (best * (threshold + 1.0) if is_relative else best + threshold)

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Counts an epoch with its measured quantity, and reduces the rates if necessary."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warn(EPOCH_DEPRECATION_WARNING, UserWarning)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = [copied(group["lr"]) for group in self.optimizer.param_groups]

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                set_rate(group, new)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the result of `state_dict`."""
        super().load_state_dict(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)


def __dir__() -> list[str]:
    return __all__
