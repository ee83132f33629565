"""Loading: every rank reads the parts that it has."""

from ._steps import Steps
from .default_planner import DefaultLoadPlanner
from .filesystem import FileSystemReader
from .stateful import Stateful

__all__ = ["load", "load_state_dict"]


def __dir__() -> list[str]:
    return __all__


def load(
    state_dict,
    *,
    checkpoint_id=None,
    storage_reader=None,
    planner=None,
    process_group=None,
    no_dist=False,
):
    """Loads a checkpoint into a state. Tensors are overwritten in place, other objects are replaced.

    Numbers of ranks and parts of tensors may differ from those at saving. Nothing in the checkpoint is executed.

    Args:
        state_dict: a state like the one that was saved. Objects with a `load_state_dict` method get their part.
        checkpoint_id: a folder.
        storage_reader: in place of a folder, a `StorageReader`.
        planner: a `LoadPlanner`.
        process_group: the ranks that load, by default all.
        no_dist: this process alone loads.

    Raises:
        CheckpointException: a rank has failed; all ranks raise it.
    """
    if storage_reader is None:
        if checkpoint_id is None:
            raise RuntimeError("`checkpoint_id` must be specificed if storage_reader and storage_writer are None.")
        storage_reader = FileSystemReader(checkpoint_id)
    storage_reader.reset(checkpoint_id)
    states = {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}
    _load(states, storage_reader, planner or DefaultLoadPlanner(), Steps(process_group, no_dist))
    for key, value in states.items():
        if key in state_dict and isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(value)
        else:
            state_dict[key] = value


def _load(state, reader, planner, steps):
    def local():
        metadata = reader.read_metadata()
        planner.set_up_planner(state, metadata, steps.is_first)
        reader.set_up_storage_reader(metadata, steps.is_first)
        return reader.prepare_local_plan(planner.create_local_plan())

    plans = steps.every("plan", local)
    final = steps.first("plan", lambda: reader.prepare_global_plan(planner.create_global_plan(plans)))
    steps.every("read", lambda: reader.read_data(planner.finish_plan(final[steps.rank]), planner).wait())


def _load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """Fills a state whose values do not load themselves. The rank of the coordinator has no effect."""
    _load(state_dict, storage_reader, planner or DefaultLoadPlanner(), Steps(process_group, no_dist))


def load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """The old form of `load`."""
    return load(
        state_dict, storage_reader=storage_reader, planner=planner, process_group=process_group, no_dist=no_dist
    )
