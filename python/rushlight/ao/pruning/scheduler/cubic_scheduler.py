"""A schedule that approaches a level ever more slowly."""

from __future__ import annotations

from .base_scheduler import BaseScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["CubicSL"]


class CubicSL(BaseScheduler):
    """Raises the level of each weight from a first one to that of the sparsifier, as ``1 - (1 - t)**3``.

    All arguments after the sparsifier may be lists with one value for each weight.

    Args:
        sparsifier, last_epoch, verbose: as for `BaseScheduler`.
        init_sl: the first level.
        init_t: the step at which it begins to rise.
        delta_t, total_t: the level is reached after their product of steps.
        initially_zero: whether the level is 0 before `init_t`.

    Raises:
        ValueError: a list has not as many values as there are weights.

    >>> sparsifier = torch.ao.pruning.WeightNormSparsifier(sparsity_level=0.8)
    >>> sparsifier.prepare(torch.nn.Linear(4, 4), [{"tensor_fqn": "weight"}])
    >>> scheduler = torch.ao.pruning.CubicSL(sparsifier, delta_t=1, total_t=2)
    >>> levels = []
    >>> for _ in range(3):
    ...     levels += scheduler.get_last_sl()
    ...     sparsifier.step()
    ...     scheduler.step()
    >>> [round(level, 4) for level in levels]
    [0.0, 0.7, 0.8]
    """

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        init_sl: Any = 0.0,
        init_t: Any = 0,
        delta_t: Any = 10,
        total_t: Any = 100,
        initially_zero: Any = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.sparsifier = sparsifier
        self.init_sl = self._make_sure_a_list(init_sl)
        self.init_t = self._make_sure_a_list(init_t)
        self.delta_t = self._make_sure_a_list(delta_t)
        self.total_t = self._make_sure_a_list(total_t)
        self.initially_zero = self._make_sure_a_list(initially_zero)
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(
        s_0: float, s_f: float, t: int, t_0: int, dt: float, n: float, initially_zero: bool = False
    ) -> float:
        """The level at step `t`, on the way from ``s_0`` to ``s_f`` in ``dt * n`` steps from step ``t_0`` on."""
        if initially_zero and t < t_0:
            return 0
        left = 1 - (t - t_0) / (dt * n)
        return max(s_0, min(s_f, s_f + (s_0 - s_f) * left**3))

    def get_sl(self) -> list[float]:
        self._warn_outside_step()
        options = zip(self.init_sl, self.base_sl, self.init_t, self.delta_t, self.total_t, self.initially_zero)
        return [
            self.sparsity_compute_fn(first, last, self.last_epoch, start, step, count, zero)
            for first, last, start, step, count, zero in options
        ]
