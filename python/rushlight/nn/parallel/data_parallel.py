"""`DataParallel`: modules that run on several GPUs of one machine. Without GPUs the module runs unchanged, as in torch."""

from __future__ import annotations

from rushlight.nn.modules import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Splits batches among GPUs. On a machine without GPUs it only calls the module.

    Args:
        module: the module to run. Its names in the state dictionary begin with ``module.``.
        device_ids, output_device: GPUs. There are none.
        dim: the dimension along which a batch is split.

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
    """Applies `DataParallel` to one batch.

    >>> torch.nn.parallel.data_parallel(torch.nn.ReLU(), torch.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


def __dir__() -> list[str]:
    return __all__
