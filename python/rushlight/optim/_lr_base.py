"""`LRScheduler`, the base class of learning-rate schedules, with warnings about the order of calls."""

from __future__ import annotations

import functools
import weakref

import rushlight as torch
from rushlight._warnings import warn

from .optimizer import Optimizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available."
)


def copied(rate: Any) -> Any:
    return rate.clone() if isinstance(rate, torch.Tensor) else rate


def set_rate(group: dict[str, Any], rate: Any) -> None:
    """Sets a rate. If it is a tensor, it is changed in place, because captured graphs read it."""
    if isinstance(group["lr"], torch.Tensor):
        group["lr"].fill_(rate.item() if isinstance(rate, torch.Tensor) else rate)
    else:
        group["lr"] = rate


def for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per group, from a list of the right length or from one value for all.

    Raises:
        ValueError: the list has the wrong length.
    """
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(groups)]
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups "
            f"has {groups}."
        )
    return list(map(copied, value))


def require_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _noted(optimizer: Any) -> Any:
    """The step of an optimizer, which also records that it was called."""
    step, reference = type(optimizer).step, weakref.ref(optimizer)

    @functools.wraps(step)
    def noted(*args: Any, **kwargs: Any) -> Any:
        optimizer: Any = reference()
        optimizer._opt_called = True
        return step(optimizer, *args, **kwargs)

    noted.hooked = True  # type: ignore[attr-defined]
    return noted


class LRScheduler:
    """The base class of schedules. A subclass defines ``get_lr``, which returns the rates of epoch ``last_epoch``.

    Args:
        optimizer: the optimizer whose ``"lr"`` options are changed. The initial rates are stored as ``"initial_lr"``.
        last_epoch: the index of the last epoch; -1 starts from the beginning.

    Raises:
        TypeError: ``optimizer`` is not an `Optimizer`.
        KeyError: ``last_epoch`` is not -1 and a group has no ``"initial_lr"``.

    >>> class Harmonic(torch.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate / (1 + self.last_epoch) for rate in self.base_lrs]
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = Harmonic(optimizer)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    # Whether `step` needs a measured quantity.
    _by_metric: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        for place, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{place}] when resuming scheduler with "
                    "last_epoch >= 0.\nThis typically happens when:\n1. You're trying to resume training from a "
                    "checkpoint but haven't properly loaded the optimizer state\n2. You're using last_epoch >= 0 for "
                    "a fresh training run (not recommended)"
                )
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        if not getattr(optimizer, "_scheduled", False):
            # Steps before the first schedule was created do not count for the order of calls.
            optimizer._scheduled = True
            optimizer._opt_called = False
        if not getattr(optimizer.step, "hooked", False):
            # A class whose constructor does not call that of `Optimizer`: wrappers of libraries are of this kind.
            optimizer.step = _noted(optimizer)  # type: ignore[method-assign]
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """The state without the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the result of `state_dict`."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Computes the rates of epoch ``last_epoch`` from those of the previous epoch."""
        raise NotImplementedError

    def _rates(self) -> list[Any]:
        """The current rates, from which ``get_lr`` computes the next."""
        if not self._get_lr_called_within_step:
            warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
            )
        return [copied(group["lr"]) for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Advances to the next epoch (or a given one) and sets its rates."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING, UserWarning)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        """Sets the rates of the next epoch, or of a given one, without counting a step."""
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = getattr(self, "_get_closed_form_lr", self.get_lr)()
        finally:
            self._get_lr_called_within_step = False
        self._set_rates(rates)

    def _set_rates(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = [copied(group["lr"]) for group in self.optimizer.param_groups]

    def _check_order(self) -> None:
        advice = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
        if not getattr(self.optimizer.step, "hooked", False):
            warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. " + advice,
                UserWarning,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to "
                "do this will result in PyTorch skipping the first value of the learning rate schedule. " + advice,
                UserWarning,
            )
