"""Conversion between parameters and one vector."""

from __future__ import annotations

import rushlight as torch
from rushlight._text import typename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rushlight import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenates the elements of all parameters into one vector, with gradients.

    Raises:
        TypeError: the parameters are on different devices.

    >>> parameters_to_vector([torch.zeros(2), torch.ones(1, 1)])
    tensor([0., 0., 1.])
    """
    parameters = list(parameters)
    _check_one_device(parameters)
    return torch.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Makes each parameter a view of its part of a vector.

    Raises:
        TypeError: ``vec`` is not a tensor, or the parameters are on different devices.

    >>> weight = torch.zeros(2)
    >>> vector_to_parameters(torch.tensor([1.0, 2.0]), [weight])
    >>> weight
    tensor([1., 2.])
    """
    if not isinstance(vec, torch.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    parameters = list(parameters)
    _check_one_device(parameters)
    start = 0
    for parameter in parameters:
        size = parameter.numel()
        parameter.data = vec[start : start + size].view_as(parameter).data
        start += size


def _check_one_device(parameters: list[Tensor]) -> None:
    if len({parameter.device for parameter in parameters}) > 1:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
