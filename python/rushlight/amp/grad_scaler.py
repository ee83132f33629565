"""`GradScaler`: scales losses so that small gradients do not underflow, and skips steps with infinite gradients."""

from __future__ import annotations

from enum import Enum
from inspect import signature

import rushlight as torch
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor
    from rushlight.optim import Optimizer

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """The stage of an optimizer in the current iteration.

    >>> [state.name for state in torch.amp.grad_scaler.OptState]
    ['READY', 'UNSCALED', 'STEPPED']
    """

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses, unscales gradients, and decreases or increases the scale depending on infinities.

    Args:
        device: ``"cpu"`` or ``"cuda"``, which gives a warning and disables the scaler without a GPU.
        init_scale: the initial scale.
        growth_factor, growth_interval: the factor of increases, and the number of consecutive steps without infinity or
            NaN before each.
        backoff_factor: the factor after a step with infinity or NaN.
        enabled: False disables the scaler.

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
        if enabled and device == "cuda" and torch.cuda.device_count() == 0:
            warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._scale = float(init_scale)
        # Whether a loss was ever scaled. A step without a scaled loss is an error.
        self._scaled = False
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        # For each optimizer its stage, and whether its gradients are finite (None if it had no gradients).
        self._stages: dict[int, tuple[OptState, bool | None]] = {}

    def scale(self, outputs: Any) -> Any:
        """Multiplies a tensor, or all tensors of a list or tuple, by the scale."""
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
        """Divides the gradients of an optimizer by the scale, for example before clipping. Otherwise `step` does this."""
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
        """Divides the gradients. Returns whether all are finite, or None without gradients."""
        return self._divide_grads(optimizer, halves=False)

    def _divide_grads(self, optimizer: Optimizer, halves: bool) -> bool | None:
        finite: bool | None = None
        with torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if grad.dtype == torch.float16 and not halves:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    grad.mul_(1.0 / self._scale)
                    finite = finite is not False and _is_finite(grad)
        return finite

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Calls the optimizer's step, unless a gradient is infinite or NaN.

        An optimizer with the attribute ``_step_supports_amp_scaling`` does both itself: during its step it has the
        attributes ``grad_scale`` and ``found_inf``.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scaled("step")
        stage, _ = self._stages.get(id(optimizer), (OptState.READY, True))
        if stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._leave_to(optimizer, stage, args, kwargs)
        if stage is OptState.READY:
            self.unscale_(optimizer)
        _, finite = self._stages[id(optimizer)]
        if finite is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = optimizer.step(*args, **kwargs) if finite else None
        self._stages[id(optimizer)] = (OptState.STEPPED, finite)
        return result

    def _leave_to(self, optimizer: Any, stage: OptState, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the step of an optimizer that divides its gradients itself and skips infinite ones."""
        by_name = "grad_scaler" in signature(optimizer.step).parameters
        if by_name:
            warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the near "
                "future GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed optimizer and let "
                "the optimizer use them directly.",
                FutureWarning,
            )
            result = optimizer.step(*args, **kwargs, grad_scaler=self)
        else:
            if stage is OptState.READY:
                self._check_inf_per_device(optimizer)
            _, finite = self._stages[id(optimizer)]
            # A scale that the program has set is another factor of the gradients.
            factor = getattr(optimizer, "grad_scale", None)
            scale = self._get_scale_async()
            if stage is OptState.UNSCALED:
                optimizer.grad_scale = None
            else:
                optimizer.grad_scale = scale if factor is None else scale * factor
            optimizer.found_inf = torch.tensor(1.0 if finite is False else 0.0, device=self._device)
            result = optimizer.step(*args, **kwargs)
            del optimizer.grad_scale, optimizer.found_inf
        _, finite = self._stages.get(id(optimizer), (stage, None))
        self._stages[id(optimizer)] = (OptState.STEPPED, finite)
        return result

    def _get_scale_async(self) -> Tensor:
        """The scale as a tensor, for optimizers that divide their gradients themselves."""
        return torch.tensor(self._scale, device=self._device)

    def _check_inf_per_device(self, optimizer: Optimizer) -> dict[torch.device, Tensor]:
        """Notes whether the gradients of an optimizer are finite, without dividing them. By device, 1 if they are not."""
        grads = [
            parameter.grad
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        stage, _ = self._stages.get(id(optimizer), (OptState.READY, True))
        finite = all(_is_finite(grad) for grad in grads) if grads else None
        self._stages[id(optimizer)] = (stage, finite)
        return {grad.device: torch.tensor(0.0 if finite else 1.0) for grad in grads}

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Updates the scale for the next iteration, or sets it to a given value."""
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
            # The scale stays within the range of float32.
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
        """Whether the scaler is enabled."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale; 1 if the scaler is disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """The factor of increases."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets the factor of increases."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor of decreases."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets the factor of decreases."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The number of good steps before an increase."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets the number of good steps before an increase."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The state for `load_state_dict`; empty if the scaler is disabled."""
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
        """Loads the result of `state_dict`."""
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


def _is_finite(grad: Tensor) -> bool:
    return bool(torch.isfinite(grad._values() if grad.is_sparse else grad).all())


def __dir__() -> list[str]:
    return __all__
