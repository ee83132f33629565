"""Optimizers that are given the gradients, in place of reading them from the parameters."""

import contextlib

import rushlight as torch

__all__ = ["as_functional_optim"]


def __dir__() -> list[str]:
    return __all__


class _Functional:
    """An optimizer whose steps take gradients. It is made of that of `rushlight.optim`, whose options it has."""

    _optimizer_class: type[torch.optim.Optimizer]

    def __init__(self, params, *args, _allow_empty_param_list=False, **kwargs):
        params = list(params)
        if not params and not _allow_empty_param_list:
            raise ValueError("optimizer got an empty parameter list")
        self._optimizer = self._optimizer_class([{"params": params}], *args, **kwargs)

    @property
    def state(self):
        """The states by parameter."""
        return self._optimizer.state

    @property
    def param_group(self):
        """The options and the parameters."""
        return self._optimizer.param_groups[0]

    def step(self, gradients):
        """Makes a step of all parameters. Those whose gradient is None stay as they are.

        Raises:
            ValueError: there are more or fewer gradients than parameters.
        """
        params = self.param_group["params"]
        if len(params) != len(gradients):
            raise ValueError(
                "the gradients passed in does not equal to the size of the parameters!"
                f"Params length: {len(params)}. Gradients length: {len(gradients)}"
            )
        with _gradients(params, gradients):
            self._optimizer.step()

    def step_param(self, param, grad):
        """Makes a step of one parameter, also of one that the optimizer has not seen before."""
        params, self.param_group["params"] = self.param_group["params"], [param]
        try:
            self.step([grad])
        finally:
            self.param_group["params"] = params


@contextlib.contextmanager
def _gradients(params, gradients):
    """Parameters have these gradients for a while."""
    before = [param.grad for param in params]
    try:
        for param, grad in zip(params, gradients):
            param.grad = None if grad is None else grad.detach()
        yield
    finally:
        for param, grad in zip(params, before):
            param.grad = grad


#: The functional form of each optimizer that has one.
functional_optim_map: dict[type, type] = {
    one: type(f"_Functional{one.__name__}", (_Functional,), {"_optimizer_class": one, "__module__": __name__})
    for one in (
        torch.optim.Adadelta,
        torch.optim.Adagrad,
        torch.optim.Adam,
        torch.optim.AdamW,
        torch.optim.Adamax,
        torch.optim.RMSprop,
        torch.optim.Rprop,
        torch.optim.SGD,
    )
}


def register_functional_optim(key, optim):
    """Adds the functional form of an optimizer, unless it has one. Its instances are made without parameters."""
    functional_optim_map.setdefault(key, optim)


def as_functional_optim(optim_cls, *args, **kwargs):
    """The functional form of an optimizer, whose `step_param(param, grad)` changes a parameter.

    Args:
        optim_cls: the class of the optimizer.
        args, kwargs: its options.

    Raises:
        ValueError: the optimizer has no functional form.

    >>> optimizer = torch.distributed.optim.as_functional_optim(torch.optim.SGD, lr=0.5)
    >>> parameter = torch.nn.Parameter(torch.ones(2))
    >>> optimizer.step_param(parameter, torch.ones(2))
    >>> parameter.tolist(), parameter.grad
    ([0.5, 0.5], None)
    """
    form = functional_optim_map.get(optim_cls)
    if form is None:
        raise ValueError(f"Optimizer {optim_cls} does not have a functional counterpart!")
    return form([], *args, **kwargs, _allow_empty_param_list=True)
