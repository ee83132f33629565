"""Modules over several cards of one machine. Without cards a module runs as it is, as in torch."""

from __future__ import annotations

from rushlight.nn.modules import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A module whose batch is divided among cards; on a machine without cards, a module that calls the other.

    Args:
        module: what runs; its names in the state dictionary begin with ``module.``.
        device_ids, output_device: cards, of which there are none.
        dim: the dimension along which a batch would be divided.

    >>> model = torch.nn.DataParallel(torch.nn.Linear(3, 2))
    >>> model(torch.zeros(4, 3)).shape, list(model.state_dict())
    (torch.Size([4, 2]), ['module.weight', 'module.bias'])
    """

    module: Module
    device_ids: list[int]

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """What `DataParallel` does to one batch.

    >>> torch.nn.parallel.data_parallel(torch.nn.ReLU(), torch.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


def __dir__() -> list[str]:
    return __all__
