"""Groups that go on without some of their ranks, and names of calls in profiles."""

import os
import signal

import pytest

import rushlight as torch
from rushlight import distributed as dist


def _sum(group=None):
    tensor = torch.tensor([dist.get_rank(group) + 1.0])
    dist.all_reduce(tensor, group=group)
    return tensor.item()


def _survivors(rank, flags):
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="rank 1"):
        while True:
            _sum()
    group = dist.shrink_group([1], shrink_flags=flags)
    assert group is dist.group.WORLD and dist.get_world_size() == 3 and dist.get_rank() == max(rank - 1, 0)
    assert _sum() == 6
    again = dist.shrink_group([2]) if dist.get_rank() != 2 else None
    if again is not None:
        assert _sum() == 3 and dist.get_world_size() == 2


@pytest.mark.parametrize("flags", [0, 1])
def test_the_default_group_goes_on_without_a_dead_rank(ranks, flags):
    ranks(_survivors, 4, flags)


def _part(rank):
    group = dist.new_group([3, 1, 0])
    if rank in (1, 3):
        smaller = dist.shrink_group([0], group)
        assert dist.get_process_group_ranks(smaller) == [1, 3] and smaller is not dist.group.WORLD
        assert dist.get_rank(smaller) == rank // 2 and _sum(smaller) == 3
    assert _sum() == 10


def test_a_group_of_some_ranks(ranks):
    ranks(_part, 4)


def _refusals(rank):
    for excluded, kind, sentence in (
        (0, TypeError, "^ranks_to_exclude must be a list, but got int. Example:"),
        ([], ValueError, "^ranks_to_exclude cannot be empty."),
        ([2], ValueError, "^rank 2 of ranks_to_exclude is not in a group of 2"),
        ([1.0], TypeError, "^ranks_to_exclude must have whole numbers, but has 1.0"),
        ([1, 1], ValueError, "duplicate"),
        ([0, 1], ValueError, "no rank would be left"),
        ([rank], RuntimeError, f"^rank {rank} is to be left out"),
    ):
        with pytest.raises(kind, match=sentence):
            dist.shrink_group(excluded)
    with pytest.raises(ValueError, match="^Invalid shrink_flags value: 7. Must be one of"):
        dist.shrink_group([1 - rank], shrink_flags=7)
    assert _sum() == 3


def test_refusals(ranks):
    ranks(_refusals, 2)


def test_names_in_profiles():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with torch.profiler.profile() as profiled:
            with dist.record_comm("outer"):
                _sum()
                with dist.record_comm("inner"):
                    dist.barrier()
                dist.all_gather([torch.empty(1)], torch.ones(1))
            dist.broadcast(torch.ones(1), 0)
        names = [event.name for event in profiled.events() if not event.name.startswith("aten::")]
        assert names == ["outer", "inner", "outer", "gloo:broadcast"]
        with pytest.raises(ValueError, match="^Cannot shrink a process group with size 1"):
            dist.shrink_group([0])
    finally:
        dist.destroy_process_group()


def test_a_name_of_a_group_is_a_text():
    assert dist.GroupName("0") == "0"
