"""`GradScaler`: losses are multiplied so that small gradients do not vanish in half precision, and steps with infinities skipped."""

from __future__ import annotations

from enum import Enum

import rushlight as torch
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor
    from rushlight.optim import Optimizer

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """How far an optimizer is in this iteration.

    >>> [state.name for state in torch.amp.grad_scaler.OptState]
    ['READY', 'UNSCALED', 'STEPPED']
    """

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses, unscales gradients, and chooses the factor: it falls after infinities and grows after many good steps.

    Args:
        device: ``"cpu"``; for ``"cuda"`` it warns and does nothing, as in torch without a card.
        init_scale: the first factor.
        growth_factor, growth_interval: how much it grows, after how many steps without an infinity or NaN in a row.
        backoff_factor: what it is multiplied with after one.
        enabled: whether it does anything.

    >>> weight = torch.ones(1, requires_grad=True)
    >>> optimizer, scaler = torch.optim.SGD([weight], lr=0.5), torch.amp.GradScaler("cpu")
    >>> scaler.scale((weight * 3).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight.item(), scaler.get_scale()
    (-0.5, 65536.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda":
            warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._scale = float(init_scale)
        # Whether a loss was ever scaled: a step without one is a slip.
        self._scaled = False
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        # For each optimizer how far it is, and whether its gradients are finite; None while it had no gradients.
        self._stages: dict[int, tuple[OptState, bool | None]] = {}

    def scale(self, outputs: Any) -> Any:
        """A tensor, or all tensors of a list or tuple, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, torch.Tensor):
            self._scaled = True
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(output) for output in outputs)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divides the gradients of an optimizer's parameters by the factor, for clipping and the like; `step` else does it."""
        if not self._enabled:
            return
        self._check_scaled("unscale_")
        stage, _ = self._stages.get(id(optimizer), (OptState.READY, True))
        if stage is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        self._stages[id(optimizer)] = (OptState.UNSCALED, self._divide(optimizer))

    def _check_scaled(self, name: str) -> None:
        if not self._scaled:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use scaler.scale(loss or "
                "outputs) earlier in the iteration."
            )

    def _divide(self, optimizer: Optimizer) -> bool | None:
        """Whether all gradients are finite, after the division; None without gradients."""
        finite: bool | None = None
        with torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if grad.dtype == torch.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    grad.mul_(1.0 / self._scale)
                    elements = grad._values() if grad.is_sparse else grad
                    finite = finite is not False and bool(torch.isfinite(elements).all())
        return finite

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Lets the optimizer step, unless a gradient is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scaled("step")
        stage, _ = self._stages.get(id(optimizer), (OptState.READY, True))
        if stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage is OptState.READY:
            self.unscale_(optimizer)
        _, finite = self._stages[id(optimizer)]
        if finite is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = optimizer.step(*args, **kwargs) if finite else None
        self._stages[id(optimizer)] = (OptState.STEPPED, finite)
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Chooses the factor for the next iteration, or takes the one that is given."""
        if not self._enabled:
            return
        self._check_scaled("update")
        if new_scale is not None:
            self._scale = self._given(new_scale)
        else:
            found = [finite for _, finite in self._stages.values() if finite is not None]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._choose(all(found))
        self._stages.clear()

    def _choose(self, finite: bool) -> None:
        if not finite:
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = self._scale * self._growth_factor
            # Not past what float32 holds.
            self._scale = grown if grown <= torch.finfo(torch.float32).max else self._scale
            self._growth_tracker = 0

    def _given(self, new_scale: Any) -> float:
        if isinstance(new_scale, float):
            return new_scale
        if not isinstance(new_scale, torch.Tensor) or new_scale.numel() != 1 or new_scale.requires_grad:
            raise AssertionError(
                "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                "requires_grad=False."
            )
        return new_scale.item()

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def get_scale(self) -> float:
        """The factor; one if it does nothing."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By how much the factor grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets by how much the factor grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By how much the factor falls."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets by how much the factor falls."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many good steps the factor grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes; empty if it does nothing."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what `state_dict` gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]

    def __getstate__(self) -> dict[str, Any]:
        if self._stages:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
        return vars(self).copy()


def __dir__() -> list[str]:
    return __all__
