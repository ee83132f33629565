"""Averages of a model's weights during training, with their schedule and batch statistics."""

from __future__ import annotations

import math
from copy import deepcopy
from itertools import chain

import rushlight as torch
from rushlight import Tensor
from rushlight.nn import Module
from rushlight.nn.modules.batchnorm import _BatchNorm

from ._lr_base import LRScheduler, for_each_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from .optimizer import Optimizer

__all__ = [
    "AveragedModel",
    "SWALR",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A function for `AveragedModel`: ``decay * average + (1 - decay) * current``.

    Raises:
        ValueError: ``decay`` is not between 0 and 1.

    >>> get_ema_avg_fn(0.75)(torch.tensor(4.0), torch.tensor(8.0), 1)
    tensor(5.)
    """
    _check_decay(decay)

    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with torch.no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A function for `AveragedModel`: the equal mean of all weights.

    >>> get_swa_avg_fn()(torch.tensor(4.0), torch.tensor(8.0), 1)
    tensor(6.)
    """

    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with torch.no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]:
    """`get_ema_avg_fn` for lists of tensors, in place.

    Raises:
        ValueError: ``decay`` is not between 0 and 1.

    >>> averages = [torch.zeros(1)]
    >>> torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)(averages, [torch.ones(1)], 1)
    >>> averages
    [tensor([0.2500])]
    """
    return _for_lists(get_ema_avg_fn(decay), lambda count: 1 - decay)


def get_swa_multi_avg_fn() -> Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]:
    """`get_swa_avg_fn` for lists of tensors, in place.

    >>> averages = [torch.zeros(1)]
    >>> torch.optim.swa_utils.get_swa_multi_avg_fn()(averages, [torch.ones(1)], torch.tensor(1))
    >>> averages
    [tensor([0.5000])]
    """
    return _for_lists(get_swa_avg_fn(), lambda count: 1 / (count + 1))


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _for_lists(
    one: Callable[[Tensor, Tensor, Any], Tensor], share: Callable[[float], float]
) -> Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]:
    def update(averages: Sequence[Tensor], currents: Sequence[Tensor], num_averaged: Any) -> None:
        with torch.no_grad():
            for average, current in zip(averages, currents, strict=True):
                if average.is_floating_point() or average.is_complex():
                    average.lerp_(current, share(float(num_averaged)))
                else:
                    average.copy_(one(average, current, num_averaged))

    return update


class AveragedModel(Module):
    """A copy of a model whose weights are averages over training (Izmailov et al. 2018).

    Args:
        model: the model to copy.
        device: the device of the copy.
        avg_fn: computes a new average from the old one, the current weight and the number of averages.
        multi_avg_fn: the same for lists, in place.
        use_buffers: whether buffers are averaged too, instead of copied.

    Raises:
        AssertionError: both functions are given.

    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> average = AveragedModel(model)
    >>> for value in (2.0, 4.0):
    ...     _ = torch.nn.init.constant_(model.weight, value)
    ...     average.update_parameters(model)
    >>> average.module.weight.item()
    3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
        multi_avg_fn: Callable[[Sequence[Tensor], Sequence[Tensor], Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=torch.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Updates the average with the weights of a model."""
        averages, currents = (
            list(chain(module.parameters(), module.buffers() if self.use_buffers else ()))
            for module in (self.module, model)
        )
        averages = [average.detach() for average in averages]
        currents = [current.detach().to(average.device) for average, current in zip(averages, currents)]
        if self.n_averaged == 0:
            for average, current in zip(averages, currents):
                average.copy_(current)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(averages, currents, self.n_averaged)
        elif self.avg_fn is not None:
            for average, current in zip(averages, currents):
                average.copy_(self.avg_fn(average, current, self.n_averaged))
        else:
            get_swa_multi_avg_fn()(averages, currents, self.n_averaged)
        if not self.use_buffers:
            for own, buffer in zip(self.module.buffers(), model.buffers(), strict=True):
                own.detach().copy_(buffer.detach())
        self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recomputes the running statistics of a model's batch normalisations, as means over the batches of a loader.

    >>> model = torch.nn.BatchNorm1d(1)
    >>> update_bn([torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [7.0]])], model)
    >>> model.running_mean
    tensor([4.])
    """
    momenta = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None
    with torch.no_grad():
        for batch in loader:
            input = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(input if device is None else input.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the rate from its current value to ``swa_lr`` in ``anneal_epochs`` epochs, and keeps it there.

    Args:
        swa_lr: the final rate, one for all groups, or one per group.
        anneal_strategy: ``"cos"`` or ``"linear"``.

    Raises:
        ValueError: the strategy is unknown, or the number of epochs is negative.

    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = SWALR(optimizer, swa_lr=0.5, anneal_epochs=2)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(optimizer.param_groups, for_each_group("swa_lr", optimizer, swa_lr)):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """The weight of the final rate at a step."""
        way = max(0, min(1, step / max(1, self.anneal_epochs)))
        return way if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * way)) / 2

    def get_lr(self) -> list[Any]:
        rates = self._rates()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        result = []
        for rate, group in zip(rates, self.optimizer.param_groups):
            final = group["swa_lr"]
            start = final if before == 1 else (rate - before * final) / (1 - before)
            result.append(final * now + start * (1 - now))
        return result


def __dir__() -> list[str]:
    return __all__
