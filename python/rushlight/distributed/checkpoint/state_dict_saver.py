"""Saving: every rank writes its parts."""

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any

import rushlight as torch
from rushlight.distributed import _groups

from ._steps import Steps
from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .staging import AsyncStager, BlockingAsyncStager
from .stateful import Stateful

__all__ = ["save", "async_save", "save_state_dict", "AsyncCheckpointerType", "AsyncSaveResponse"]


def __dir__() -> list[str]:
    return __all__


class AsyncCheckpointerType(Enum):
    """Who writes in the background: a thread. A process is replaced by a thread."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """The two ends of a saving whose copy is made in the background, too.

    Args:
        staging_completion: a `concurrent.futures.Future`, which ends when the copy exists. The state may be changed then.
        upload_completion: one of the metadata, which ends when all is written.
    """

    staging_completion: Future[None]
    upload_completion: Future[Any]


def save(
    state_dict,
    *,
    checkpoint_id=None,
    storage_writer=None,
    planner=None,
    process_group=None,
    no_dist=False,
    use_collectives=True,
):
    """Saves a state of all ranks. Each part of a tensor is written once, by a rank that has it.

    Args:
        state_dict: a dictionary of tensors, `DTensor`s, objects, dictionaries of them, and objects with a `state_dict`
            method. Plain tensors are taken for copies that all ranks have.
        checkpoint_id: a folder.
        storage_writer: in place of a folder, a `StorageWriter`.
        planner: a `SavePlanner`.
        process_group: the ranks that save, by default all.
        no_dist: this process alone saves.
        use_collectives: accepted.

    Returns:
        the metadata of the checkpoint.

    Raises:
        CheckpointException: a rank has failed; all ranks raise it.
        RuntimeError: there is no folder.

    >>> import tempfile
    >>> dcp, weight = torch.distributed.checkpoint, torch.arange(3.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dcp.save({"model": {"weight": weight}, "epoch": 3}, checkpoint_id=folder)
    ...     state = {"model": {"weight": torch.zeros(3)}, "epoch": 0}
    ...     dcp.load(state, checkpoint_id=folder)
    >>> state
    {'model': {'weight': tensor([0., 1., 2.])}, 'epoch': 3}
    """
    writer = _writer(storage_writer, checkpoint_id)
    writer.reset(checkpoint_id)
    return _save(_states(state_dict), writer, planner or DefaultSavePlanner(), Steps(process_group, no_dist))


def _writer(writer, checkpoint_id):
    if writer is not None:
        return writer
    if checkpoint_id is None:
        raise RuntimeError("`checkpoint_id` must be specificed if storage_reader and storage_writer are None.")
    return FileSystemWriter(checkpoint_id)


def _states(state_dict):
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}


def _save(state, writer, planner, steps):
    def local():
        meta = writer.storage_meta()
        planner.set_up_planner(state, meta, steps.is_first)
        writer.set_up_storage_writer(steps.is_first)
        return writer.prepare_local_plan(planner.create_local_plan())

    plans = steps.every("plan", local)

    def whole():
        final, metadata = planner.create_global_plan(plans)
        return writer.prepare_global_plan(final), metadata

    final, metadata = steps.first("plan", whole)

    def write():
        return writer.write_data(planner.finish_plan(final[steps.rank]), planner).wait()

    results = steps.every("write", write)

    def finish():
        writer.finish(metadata, results)
        return metadata

    return steps.first("finish", finish)


def async_save(
    state_dict,
    *,
    checkpoint_id=None,
    storage_writer=None,
    planner=None,
    process_group=None,
    async_checkpointer_type=AsyncCheckpointerType.THREAD,
    async_stager=None,
    no_dist=False,
    use_collectives=True,
):
    """Saves a state in the background. It is copied first, so that training may go on.

    Args:
        state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist, use_collectives: as for `save`.
        async_checkpointer_type: accepted; a thread writes.
        async_stager: what copies the state, an `AsyncStager`. By default it is the writer if that is one, or a
            `BlockingAsyncStager`.

    Returns:
        a `concurrent.futures.Future` of the metadata; an `AsyncSaveResponse` if the stager copies in the background.

    Raises:
        AssertionError: the group has no backend for the CPU, which the thread uses.
    """
    steps = Steps(process_group, no_dist)
    if steps.group is not None and torch.device("cpu") not in steps.group._device_types:
        raise AssertionError(
            "A CPU backend must be enabled for async save; try initializing process group with 'cpu:gloo,cuda:nccl'"
        )
    writer = _writer(storage_writer, checkpoint_id)
    writer.reset(checkpoint_id)
    state = _states(state_dict)
    if async_stager is None:
        async_stager = writer if isinstance(writer, AsyncStager) else BlockingAsyncStager()
    copy = async_stager.stage(state)
    if steps.group is not None:
        # Calls of the thread must not mix with those of the program, so that they have a group of their own.
        steps.group = _groups.new_group(_groups.get_process_group_ranks(steps.group), use_local_synchronization=True)
    staged: Future[None] = Future()
    future: Future[Any] = Future()

    def run():
        try:
            try:
                state = copy.result() if isinstance(copy, Future) else copy
            except BaseException as error:
                staged.set_exception(error)
                raise
            staged.set_result(None)
            result = _save(state, writer, planner or DefaultSavePlanner(), steps)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            if steps.group is not None and _groups._world.groups.get(steps.group.group_name) is steps.group:
                _groups.destroy_process_group(steps.group)

    # The interpreter waits for this thread before it ends.
    threading.Thread(target=run, name="checkpoint").start()
    if getattr(async_stager, "should_synchronize_after_execute", False):
        async_stager.synchronize_staging()
    return AsyncSaveResponse(staged, future) if isinstance(copy, Future) else future


def save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """The old form of `save`."""
    return save(
        state_dict, storage_writer=storage_writer, planner=planner, process_group=process_group, no_dist=no_dist
    )
