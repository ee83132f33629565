"""An optimizer that averages the model every few steps."""

import warnings

from rushlight.optim.optimizer import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


def __dir__() -> list[str]:
    return __all__


class PostLocalSGDOptimizer(Optimizer):
    """Makes the steps of another optimizer, and then averages the parameters when it is time for it.

    Args:
        optim: the optimizer.
        averager: a `torch.distributed.algorithms.model_averaging.averagers.ModelAverager`.
    """

    def __init__(self, optim, averager):
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self):
        """The state of the optimizer."""
        return self.optim.state

    def __repr__(self):
        return repr(self.optim)

    def state_dict(self):
        """The state of the optimizer, and the step of the averager."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict):
        """Restores what `state_dict` returned. Without a step, averages begin again, with a warning."""
        self.optim.load_state_dict(state_dict)
        self.param_groups = self.optim.param_groups
        if "step" in state_dict:
            self.averager.step = state_dict["step"]
        else:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0."
            )
            self.averager.step = 0

    def step(self, closure=None):
        """Makes a step, and averages the parameters when it is time for it."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(params=self.param_groups)
        return loss

    def zero_grad(self, set_to_none=True):
        """Removes the gradients, or sets them to zero."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group):
        """Adds parameters with their options."""
        self.optim.add_param_group(param_group)
