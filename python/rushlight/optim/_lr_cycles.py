"""Cyclic schedules: triangular cycles, one cycle, cosines with restarts. They are part of `lr_scheduler`."""

from __future__ import annotations

import math

from ._lr_base import LRScheduler, copied, for_each_group, require_optimizer, set_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .optimizer import Optimizer


class _WithMomentum(LRScheduler):
    """The base of schedules that change the momentum (or Adam's first beta) in the opposite direction to the rate."""

    cycle_momentum: bool
    use_beta1: bool

    def _begin_momentum(self, base: Any, most: Any, last_epoch: int) -> tuple[list[Any], list[Any]]:
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        lowest = for_each_group("base_momentum", optimizer, base)
        highest = for_each_group("max_momentum", optimizer, most)
        if last_epoch == -1:
            for low, high, group in zip(lowest, highest, optimizer.param_groups):
                self._set_momentum(group, copied(high))
                group["max_momentum"] = copied(high)
                group["base_momentum"] = copied(low)
        return lowest, highest

    def _set_momentum(self, group: dict[str, Any], momentum: Any) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_WithMomentum):
    """The rate alternates linearly between two bounds (Smith 2015). Call ``step`` after each batch.

    Args:
        base_lr, max_lr: the bounds, one for all groups, or one per group.
        step_size_up, step_size_down: the numbers of increasing and decreasing steps; equal by default.
        mode: the amplitude of the cycles: ``"triangular"`` is constant, ``"triangular2"`` halves in each cycle,
            ``"exp_range"`` is ``gamma ** step``.
        scale_fn, scale_mode: a function that replaces the mode, of the cycle or of the step (``"iterations"``).
        cycle_momentum, base_momentum, max_momentum: whether the momentum changes in the opposite direction, and its
            bounds.

    Raises:
        TypeError: ``optimizer`` is not an `Optimizer`.
        ValueError: the mode is unknown, there is not one bound per group, or the optimizer has no momentum.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = CyclicLR(optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = for_each_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups):
                set_rate(group, rate)
        self.max_lrs = for_each_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._begin_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The amplitude of a cycle, or at a step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        self._rates()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        share = 1.0 + self.last_epoch / self.total_size - cycle
        up = self.step_ratio
        height = share / up if share <= up else (share - 1) / (up - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """The state without the optimizer and functions. Objects with ``__call__`` are saved by their ``__dict__``."""
        state = super().state_dict()
        function = state.pop("_scale_fn_custom")
        kept = function is not None and not hasattr(function, "__code__")
        state["_scale_fn_custom"] = function.__dict__.copy() if kept else None
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the result of `state_dict`. Functions do not change."""
        state = dict(state_dict)
        own = state.pop("_scale_fn_custom")
        if own is not None:
            self._scale_fn_custom.__dict__.update(own)
        super().load_state_dict(state)


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rate follows half a cosine down to ``eta_min``, repeatedly (Loshchilov and Hutter 2016).

    Args:
        T_0: the number of epochs of the first decrease.
        T_mult: the factor by which each decrease is longer than the one before.

    ``step`` accepts fractions of epochs.

    Raises:
        ValueError: ``T_0`` or ``T_mult`` is not a positive integer, or an epoch is negative.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._rates()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advances to the next epoch, or to a given epoch."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set_rates(rates)

    def _go_to(self, epoch: float) -> None:
        """The restart period of an epoch, and the position in it."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            falls = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**falls - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**falls


class OneCycleLR(_WithMomentum):
    """The rate increases to ``max_lr`` and decreases to almost zero (Smith and Topin 2017). Call ``step`` after each batch.

    Args:
        max_lr: the highest rate, one for all groups, or one per group.
        total_steps, epochs, steps_per_epoch: the number of steps; either the first, or both of the others.
        pct_start: the share of the steps in which the rate increases.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum, base_momentum, max_momentum: whether the momentum changes in the opposite direction, and its
            bounds.
        div_factor, final_div_factor: the first rate is ``max_lr / div_factor``, the last is ``first /
            final_div_factor``.
        three_phase: whether to decrease to the first rate in as many steps as the increase, and then to the last rate.

    Raises:
        TypeError: ``optimizer`` is not an `Optimizer`.
        ValueError: an argument is out of range, there are more steps than given, or the optimizer has no momentum.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = OneCycleLR(optimizer, max_lr=1.0, total_steps=10, anneal_strategy="linear")
    >>> optimizer.step(); schedule.step(); [round(rate, 2) for rate in schedule.get_last_lr()]
    [0.52]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _steps(total_steps, epochs, steps_per_epoch)
        rise = float(pct_start * self.total_steps) - 1
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        end = self.total_steps - 1
        up = _phase(rise, "initial_lr", "max_lr")
        if three_phase:
            fall = float(2 * pct_start * self.total_steps) - 2
            self._schedule_phases = [
                up,
                _phase(fall, "max_lr", "initial_lr"),
                _phase(end, "initial_lr", "min_lr", flat=True),
            ]
        else:
            self._schedule_phases = [up, _phase(end, "max_lr", "min_lr")]
        self._anneal_func_type = anneal_strategy
        for group, most in zip(optimizer.param_groups, for_each_group("max_lr", optimizer, max_lr)):
            if last_epoch == -1:
                group["initial_lr"] = most / div_factor
                group["max_lr"] = most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[Any]:
        self._rates()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        share = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momentum = self._between(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                self._set_momentum(group, momentum)
        return rates


def _phase(end: float, start_lr: str, end_lr: str, flat: bool = False) -> dict[str, Any]:
    """A phase up to a step. The momentum changes in the opposite direction to the rate, or stays at its maximum."""
    rises = end_lr == "max_lr"
    return {
        "end_step": end,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": "max_momentum" if rises or flat else "base_momentum",
        "end_momentum": "base_momentum" if rises else "max_momentum",
    }


def _steps(total: int | None, epochs: int | None, per_epoch: int | None) -> int:
    if total is not None:
        if total <= 0 or not isinstance(total, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total}")
        return total
    if epochs is None or per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", per_epoch)):
        if value <= 0 or not isinstance(value, int):
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * per_epoch
