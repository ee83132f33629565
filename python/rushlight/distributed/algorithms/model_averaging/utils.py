"""Averages of parameters."""

import rushlight as torch
from rushlight.distributed import _collectives
from rushlight.distributed._groups import resolve

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def __dir__() -> list[str]:
    return __all__


def average_parameters(params, process_group=None):
    """Replaces parameters by their averages over all ranks."""
    group = resolve(process_group)
    params = [parameter.detach() for parameter in params]
    if not params:
        return
    with torch.no_grad():
        flat = torch.cat([parameter.reshape(-1) for parameter in params])
        _collectives.all_reduce(flat.div_(group.size()), group=group)
        for parameter, part in zip(params, flat.split([parameter.numel() for parameter in params])):
            parameter.copy_(part.view(parameter.shape))


def get_params_to_average(params):
    """The parameters that have gradients, of an iterable of parameters or of an optimizer's groups."""
    found = []
    for one in params:
        found += [p for p in (one["params"] if isinstance(one, dict) else [one]) if p.grad is not None]
    return found


def average_parameters_or_parameter_groups(params, process_group):
    """Averages those of the parameters that have gradients."""
    average_parameters(get_params_to_average(params), process_group)
