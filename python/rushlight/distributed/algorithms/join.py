"""Loops over different numbers of batches (`torch.distributed.algorithms.join`).

A rank that has no more batches takes part in the calls of the others until all are done.
"""

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import rushlight as torch
from rushlight.distributed import _collectives

__all__ = ["JoinHook", "Joinable", "Join"]


def __dir__() -> list[str]:
    return __all__


class _JoinConfig(NamedTuple):
    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class JoinHook:
    """What a rank without batches does in place of an iteration of the others (`main_hook`), and once all are done (`post_hook`)."""

    def main_hook(self):
        """Makes the collective calls of one iteration, in their order."""

    def post_hook(self, is_last_joiner):
        """Is called once. `is_last_joiner` tells whether this rank was among the last with batches."""


class Joinable(ABC):
    """A class whose objects `Join` knows. It calls ``Join.notify_join_context(self)`` before its collective calls."""

    _join_config = _JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook. `kwargs` are those of `Join`."""

    @property
    @abstractmethod
    def join_device(self) -> torch.device:
        """The device of its collective calls."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group of its collective calls."""


class Join:
    """A context around a loop whose number of iterations differs between ranks.

    Args:
        joinables: the objects that make collective calls in an iteration, in the order of the calls.
        enable: whether to do anything.
        throw_on_early_termination: raise an error on all ranks once one of them has no more batches.
        kwargs: given to the hooks of all objects.

    Raises:
        ValueError: there is no object, or they have different groups.
        RuntimeError: a rank is done, and `throw_on_early_termination` is set.
    """

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ):
        if len(joinables) == 0:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable, self._throws = enable, throw_on_early_termination
        for number, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, number == 0)
        groups = {id(joinable.join_process_group) for joinable in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._group, self._device = joinables[0].join_process_group, joinables[0].join_device
        self._rank = self._group.rank()

    def __enter__(self):
        """Begins."""

    def __exit__(self, kind, value, traceback):
        """Takes part in the calls of the ranks that have more batches."""
        if not self._enable or kind:
            return
        last, iterations = True, 0
        while True:
            left = self._count(torch.zeros(1, device=self._device))
            if left == 0:
                break
            if self._throws:
                _collectives.all_reduce(torch.ones(1, device=self._device), group=self._group)
                raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            last, iterations = False, iterations + 1
            if iterations == 1000:
                warnings.warn(
                    "Detected uneven input skew of greater than 1000. This means that rank "
                    f"{self._rank} has at least 1000 fewer inputs than other currently-active ranks. "
                    "This level of skew could lead to performance degradation during training."
                )
        for hook in self._hooks:
            hook.post_hook(last)

    def _count(self, own):
        """The number of ranks that have more batches."""
        _collectives.all_reduce(own, group=self._group)
        return own.item()

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tells ranks without batches that an iteration begins. Returns a `Work`, or None if there is nobody to tell.

        Raises:
            RuntimeError: a rank has no more batches, and `throw_on_early_termination` is set.
        """
        config = joinable._join_config
        if not config.is_first_joinable or not config.enable:
            return None
        group, device = joinable.join_process_group, joinable.join_device
        work = _collectives.all_reduce(torch.ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            done = torch.zeros(1, device=device)
            _collectives.all_reduce(done, group=group)
            if done.item():
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return work
