"""The state of an optimizer, in parts like those of the model."""

import rushlight as torch
from rushlight.distributed.tensor import DTensor

from ._steps import Steps
from .default_planner import DefaultLoadPlanner, place
from .metadata import TensorStorageMetadata
from .state_dict_loader import _load

__all__ = ["load_sharded_optimizer_state_dict"]


def __dir__() -> list[str]:
    return __all__


def load_sharded_optimizer_state_dict(model_state_dict, optimizer_key, storage_reader, planner=None):
    """Loads the state of an optimizer from a checkpoint. States of the shape of their parameter get the parts that it has.

    Args:
        model_state_dict: the parameters by name, `DTensor`s if they are in parts.
        optimizer_key: the name of the optimizer in the checkpoint.
        storage_reader: a `StorageReader`.
        planner: a `LoadPlanner`.

    Returns:
        a dictionary with the state under `optimizer_key`.

    Raises:
        ValueError: the checkpoint does not tell the structure of its state.
        CheckpointException: a rank has failed; all ranks raise it.

    >>> import tempfile
    >>> dcp, model = torch.distributed.checkpoint, {"weight": torch.ones(2)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     state = {"model": model, "optimizer": {"state": {"weight": {"exp_avg": torch.ones(2)}}}}
    ...     _ = dcp.save(state, checkpoint_id=folder)
    ...     dcp.load_sharded_optimizer_state_dict(model, "optimizer", dcp.FileSystemReader(folder))
    {'optimizer': {'state': {'weight': {'exp_avg': tensor([1., 1.])}}}}
    """
    metadata = storage_reader.read_metadata()
    if not metadata.planner_data:
        raise ValueError("the checkpoint does not tell the structure of its state")
    state: dict = {}
    for name, entry in metadata.state_dict_metadata.items():
        path = metadata.planner_data[name]
        if path[0] == optimizer_key:
            is_tensor = isinstance(entry, TensorStorageMetadata)
            place(state, path, _empty(entry, path, model_state_dict) if is_tensor else None)
    _load(state, storage_reader, planner or DefaultLoadPlanner(), Steps())
    return state


def _empty(entry, path, model_state_dict):
    """A tensor of the size of an entry, in parts like the parameter to which it belongs."""
    parameter = next((model_state_dict[part] for part in path[1:] if part in model_state_dict), None)
    if isinstance(parameter, DTensor) and parameter.shape == entry.size:
        return torch.zeros_like(parameter, dtype=entry.properties.dtype, requires_grad=False)
    device = parameter.device if isinstance(parameter, torch.Tensor) else None
    return torch.empty(entry.size, dtype=entry.properties.dtype, device=device)
