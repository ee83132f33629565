"""What schedules share: they set the fraction of zeros in the options of a sparsifier."""

from __future__ import annotations

import functools
import warnings
import weakref
from typing import Any

from rushlight.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BaseScheduler"]


class BaseScheduler:
    """Sets the ``sparsity_level`` of a sparsifier's weights in each `step`. Subclasses define `get_sl`.

    Args:
        sparsifier: the sparsifier, of a prepared model.
        last_epoch: the number of the last step.
        verbose: whether to print each level.

    Raises:
        TypeError: it is no sparsifier.

    >>> class Half(torch.ao.pruning.BaseScheduler):
    ...     def get_sl(self):
    ...         return [level / 2 for level in self.base_sl]
    >>> sparsifier = torch.ao.pruning.WeightNormSparsifier(sparsity_level=0.5)
    >>> sparsifier.prepare(torch.nn.Linear(4, 4), [{"tensor_fqn": "weight"}])
    >>> Half(sparsifier).get_last_sl()
    [0.25]
    """

    def __init__(self, sparsifier: BaseSparsifier, last_epoch: int = -1, verbose: bool = False) -> None:
        if not isinstance(sparsifier, BaseSparsifier):
            raise TypeError(f"{type(sparsifier).__name__} is not an instance of torch.ao.pruning.BaseSparsifier")
        self.sparsifier = sparsifier
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch = last_epoch
        steps: Any = sparsifier
        steps.step, steps._step_count = _counted(sparsifier.step), 0
        self._step_count = 0
        self.verbose = verbose
        self._get_sl_called_within_step = False
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the sparsifier."""
        return {name: value for name, value in self.__dict__.items() if name != "sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes the attributes of a state."""
        self.__dict__.update(state_dict)

    def get_last_sl(self) -> list[float]:
        """The levels that the last `step` has set."""
        return self._last_sl

    def get_sl(self) -> list[float]:
        """The levels for the step ``last_epoch``. It is called by `step`."""
        self._warn_outside_step()
        raise NotImplementedError

    def _warn_outside_step(self) -> None:
        if not self._get_sl_called_within_step:
            warnings.warn(
                "To get the last sparsity level computed by the scheduler, please use `get_last_sl()`.", stacklevel=3
            )

    def print_sl(self, is_verbose: bool, group: int, sl: float, epoch: int | None = None) -> None:
        """Prints the level of one weight."""
        if is_verbose:
            start = "Adjusting" if epoch is None else f"Epoch {epoch:5d}: adjusting"
            print(f"{start} sparsity level of group {group} to {sl:.4e}.")

    def __repr__(self) -> str:
        return f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"

    def step(self, epoch: int | None = None) -> None:
        """Sets the levels of the next step. The argument is only printed."""
        if self._step_count == 1:
            self._warn_of_order()
        self._step_count += 1
        self._get_sl_called_within_step = True
        try:
            self.last_epoch += 1
            levels = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        for number, (group, level) in enumerate(zip(self.sparsifier.groups, levels)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, number, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def _warn_of_order(self) -> None:
        sparsifier: Any = self.sparsifier
        if not hasattr(sparsifier.step, "_with_counter"):
            warnings.warn(
                "Seems like `sparsifier.step()` has been overridden after sparsity scheduler initialization. Please, make "
                "sure to call `sparsifier.step()` before `scheduler.step()`.",
                stacklevel=3,
            )
        elif sparsifier._step_count < 1:
            warnings.warn(
                "Detected call of `scheduler.step()` before `sparsifier.step()`. You have to make sure you run the "
                "sparsifier.step() BEFORE any calls to the scheduler.step().",
                stacklevel=3,
            )

    def _make_sure_a_list(self, var: Any) -> list[Any]:
        """One value for each weight."""
        count = len(self.sparsifier.groups)
        if not isinstance(var, (list, tuple)):
            return [var] * count
        if len(var) != count:
            raise ValueError(f"Expected variable of length {count}, but got {len(var)}")
        return list(var)


def _counted(step: Callable[..., None]) -> Callable[..., None]:
    """A sparsifier's `step` that counts its calls. It does not keep the sparsifier alive."""
    if hasattr(step, "_with_counter"):
        return step
    function, owner = step.__func__, weakref.ref(step.__self__)  # type: ignore[attr-defined] # it is a method

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> None:
        sparsifier: Any = owner()
        sparsifier._step_count += 1
        function(sparsifier, *args, **kwargs)

    counted._with_counter = True  # type: ignore[attr-defined]
    return counted
