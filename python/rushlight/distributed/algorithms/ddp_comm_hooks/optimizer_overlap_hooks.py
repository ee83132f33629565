"""Lets an optimizer step on the parameters of a bucket as soon as their gradients are averaged."""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__


class _OptimizerHookState:
    """The state of `_hook_then_optimizer`: an optimizer whose ``step_param(parameter, grad)`` changes one parameter."""

    def __init__(self, functional_optim, params=None):
        if not hasattr(functional_optim, "step_param"):
            raise ValueError(f"Class {type(functional_optim)} must implement method step_param.")
        self.functional_optimizer = functional_optim
        self.params_to_optimize = None if params is None else set(params)


def _hook_then_optimizer(hook, optimizer_state):
    """A hook that calls another one, and then the optimizer for each parameter of the bucket."""

    def hook_then_optimizer(hook_state, bucket):
        def step(done):
            value = done.value()
            bucket.set_buffer(value[0] if isinstance(value, list) else value)
            chosen = optimizer_state.params_to_optimize
            for parameter, grad in zip(bucket.parameters(), bucket.gradients()):
                if chosen is None or parameter in chosen:
                    optimizer_state.functional_optimizer.step_param(parameter, grad)
            return bucket.buffer()

        return hook(hook_state, bucket).then(step)

    return hook_then_optimizer
