"""`DataParallel`: modules that run on several GPUs of one machine. Without GPUs the module runs unchanged, as in torch."""

from __future__ import annotations

from itertools import chain

import rushlight as torch
from rushlight.nn.modules import Module

from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter_kwargs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DataParallel", "data_parallel"]


def _index(device: Any) -> int:
    """The number of a GPU."""
    return torch.cuda.current_device() if device is None else torch.cuda.device(device).idx


class DataParallel(Module):
    """Splits batches among GPUs: each runs a copy of the module on its part. On a machine without GPUs it only calls the module.

    The parameters must be on the first GPU. Gradients of the copies are added there, in the order of the GPUs.

    Args:
        module: the module to run. Its names in the state dictionary begin with ``module.``.
        device_ids: the GPUs, by default all.
        output_device: the device of the results, by default the first GPU.
        dim: the dimension along which a batch is split.

    Raises:
        RuntimeError: during a call, if a parameter is not on the first GPU.

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
        if not torch.cuda.is_available():
            return
        chosen = list(range(torch.cuda.device_count())) if device_ids is None else device_ids
        if not chosen:
            raise RuntimeError("no available devices were found")
        self.dim = dim
        self.device_ids = [_index(device) for device in chosen]
        target = self.device_ids[0] if output_device is None else output_device
        self.output_device = target if _is_cpu(target) else _index(target)
        self.src_device_obj = torch.device("cuda", self.device_ids[0])
        for device in self.device_ids:
            # Raises an error for one that does not exist.
            torch.cuda.get_device_properties(device)
        if len(self.device_ids) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        for tensor in chain(self.module.parameters(), self.module.buffers()):
            if tensor.device != self.src_device_obj:
                raise RuntimeError(
                    f"module must have its parameters and buffers on device {self.src_device_obj} (device_ids[0]) but found "
                    f"one of them on device: {tensor.device}"
                )
        return _run(self.module, inputs, kwargs, self.device_ids, self.output_device, self.dim)

    def replicate(self, module: Any, device_ids: Any) -> list[Any]:
        """Copies of a module; see `torch.nn.parallel.replicate`."""
        return replicate(module, device_ids, not torch.is_grad_enabled())

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        """The arguments of each copy; see `torch.nn.parallel.scatter`."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas: Any, inputs: Any, kwargs: Any) -> list[Any]:
        """The results of the copies; see `torch.nn.parallel.parallel_apply`."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """The joined results; see `torch.nn.parallel.gather`."""
        return gather(outputs, output_device, dim=self.dim)


def _is_cpu(device: Any) -> bool:
    return not isinstance(device, int) and torch.device(device).type == "cpu"


def _run(module: Any, inputs: Any, kwargs: Any, devices: list[int], target: Any, dim: int) -> Any:
    """Splits the arguments, runs copies of a module and joins their results."""
    places, names = scatter_kwargs(inputs, kwargs, devices, dim)
    if not places and not names:
        # A module without arguments runs on the first GPU alone.
        places, names = ((),), ({},)
    if len(devices) == 1:
        return module(*places[0], **names[0])
    count = len(places)
    replicas = replicate(module, devices[:count], not torch.is_grad_enabled())
    return gather(parallel_apply(replicas, places, names, devices[:count]), target, dim)


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
    if not torch.cuda.is_available():
        return module(*inputs, **(module_kwargs or {}))
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))


def __dir__() -> list[str]:
    return __all__
