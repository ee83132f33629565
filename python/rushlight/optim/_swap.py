"""Other parameters and states of an optimizer, for a block."""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor
    from rushlight.optim import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """An optimizer has other parameters and another state in the block, and its own ones again after it.

    Args:
        optimizer: the optimizer, with a state for each parameter.
        swapin_parameters: the parameters, in the order of the optimizer's.
        swapin_optim_state: a state as `Optimizer.state_dict` returns it.

    Raises:
        RuntimeError: the optimizer has no state yet, the number of parameters differs, or the state does not fit.

    >>> model, other = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
    >>> model(torch.ones(1)).backward()
    >>> optimizer.step()
    >>> state = optimizer.state_dict()
    >>> with torch.optim.swap_in_optimizer_params_and_state(optimizer, dict(other.named_parameters()), state):
    ...     optimizer.param_groups[0]["params"][0] is other.weight
    True
    >>> optimizer.param_groups[0]["params"][0] is model.weight
    True
    """
    needs = "swap_in_optimizer_params_and_state requires"
    if not optimizer.state:
        raise RuntimeError(f"{needs} initialized optimizer state.")
    states = swapin_optim_state.get("state")
    if not isinstance(states, dict):
        raise RuntimeError(
            f"{needs} swapin_optim_state['state'] to be a dict mapping packed parameter ids to per-param state dicts, got "
            f"{type(states).__name__}."
        )
    if len(swapin_parameters) != sum(len(group["params"]) for group in optimizer.param_groups):
        raise RuntimeError(f"{needs} the explicit parameter state to match optimizer.param_groups ordering.")
    groups, state = optimizer.param_groups, optimizer.state
    given = iter(swapin_parameters.values())
    try:
        optimizer.param_groups = [{**group, "params": [next(given) for _ in group["params"]]} for group in groups]
        optimizer.state = type(state)(dict)  # a dictionary with a default
        optimizer.load_state_dict(swapin_optim_state)
        yield
    finally:
        optimizer.param_groups, optimizer.state = groups, state
