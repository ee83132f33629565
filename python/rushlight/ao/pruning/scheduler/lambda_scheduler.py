"""A schedule by functions."""

from __future__ import annotations

from .base_scheduler import BaseScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rushlight.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

    Factor = Callable[[int], float]

__all__ = ["LambdaSL"]


class LambdaSL(BaseScheduler):
    """Multiplies the first level of each weight by a function of the step.

    Args:
        sparsifier, last_epoch, verbose: as for `BaseScheduler`.
        sl_lambda: the function, or one for each weight.

    Raises:
        ValueError: there are not as many functions as weights.

    >>> sparsifier = torch.ao.pruning.WeightNormSparsifier(sparsity_level=0.5)
    >>> sparsifier.prepare(torch.nn.Linear(4, 4), [{"tensor_fqn": "weight"}])
    >>> scheduler = torch.ao.pruning.LambdaSL(sparsifier, lambda step: step / 2)
    >>> sparsifier.step()
    >>> scheduler.step()
    >>> scheduler.get_last_sl()
    [0.25]
    """

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        sl_lambda: Factor | Sequence[Factor],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        count = len(sparsifier.groups)
        self.sl_lambdas: list[Factor] = [sl_lambda] * count if callable(sl_lambda) else list(sl_lambda)
        if len(self.sl_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.sl_lambdas)}")
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        self._warn_outside_step()
        return [level * factor(self.last_epoch) for factor, level in zip(self.sl_lambdas, self.base_sl)]
