"""Schedules that consist of other schedules, in sequence or simultaneously. They are part of `lr_scheduler`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence  # noqa: TC003

from ._lr_base import LRScheduler, copied, set_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .optimizer import Optimizer


class _CompositeScheduler(LRScheduler):
    """The base of schedules made of others. It makes no first step, because the others have made theirs."""

    _schedulers: Sequence[LRScheduler]

    def _check_number(self, what: str) -> None:
        if len(self._schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler{what}, but got no scheduler.")

    def _check_each(self, optimizer: Optimizer) -> None:
        name = type(self).__name__
        for place, schedule in enumerate(self._schedulers):
            if not hasattr(schedule, "optimizer"):
                raise TypeError(f"{name} at index {place} should have `optimizer` as its attribute.")
            if getattr(schedule, "_by_metric", False):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {place} in the given schedulers sequence."
                )
            if optimizer != schedule.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(schedule).__name__} at index {place} has {schedule.optimizer}, which is different from "
                    f"{type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """The state without the optimizer, with the states of the schedules."""
        state = super().state_dict()
        # Their states are last, as in torch's files.
        del state["_schedulers"]
        state["_schedulers"] = [schedule.state_dict() for schedule in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the result of `state_dict`."""
        state = dict(state_dict)
        for schedule, own in zip(self._schedulers, state.pop("_schedulers")):
            schedule.load_state_dict(own)
        super().load_state_dict(state)


class SequentialLR(_CompositeScheduler):
    """Runs schedules one after the other. At each milestone the next one begins.

    Args:
        schedulers: schedules of the same optimizer.
        milestones: the epochs at which the next schedule begins; one fewer than there are schedules.

    Raises:
        ValueError: there are no schedules, one belongs to another optimizer or needs a measured quantity, or the number
            of milestones is wrong.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> first = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=9)
    >>> second = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    >>> schedule = SequentialLR(optimizer, [first, second], milestones=[1])
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        self._schedulers = schedulers
        self._check_number("")
        self._check_each(optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # All schedules have made their first step. Its effect on the rates and the epochs is undone.
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Undoes the first step of all schedules, including nested ones."""
        schedule = self if sched is None else sched
        if hasattr(schedule, "_schedulers"):
            for inner in schedule._schedulers:
                self.recursive_undo(inner)
        elif hasattr(schedule, "last_epoch"):
            schedule.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Advances to the next epoch."""
        self.last_epoch += 1
        place = bisect_right(self._milestones, self.last_epoch)
        schedule = self._schedulers[place]
        if place > 0 and self._milestones[place - 1] == self.last_epoch:
            schedule._update_lr(0)
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()


class ChainedScheduler(_CompositeScheduler):
    """Runs several schedules simultaneously.

    Raises:
        ValueError: there are no schedules, or one belongs to another optimizer or needs a measured quantity.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> halving = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    >>> schedule = ChainedScheduler([halving, torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)])
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._schedulers = schedulers
        self._check_number(" to be chained")
        self.optimizer = optimizer or schedulers[0].optimizer
        self._check_each(self.optimizer)
        self._note_rates()

    def _note_rates(self) -> None:
        self._last_lr = [copied(group["lr"]) for group in self._schedulers[-1].optimizer.param_groups]

    def step(self) -> None:  # type: ignore[override]
        """Advances to the next epoch."""
        for schedule in self._schedulers:
            schedule.step()
        self._note_rates()
