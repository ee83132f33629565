"""Collective calls that return their results, the derivatives of some, and descriptions of parts of tensors."""

import importlib

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import _functional_collectives as functional
from rushlight.distributed.tensor import Partial, Placement, Replicate, Shard
from rushlight.distributed.tensor.placement_types import _StridedShard


def _results(rank):
    group = dist.group.WORLD
    x = torch.arange(4.0).reshape(2, 2) + 10 * rank
    before = x.clone()
    both = [torch.arange(4.0).reshape(2, 2) + 10 * other for other in range(2)]
    total = both[0] + both[1]
    assert torch.equal(functional.wait_tensor(functional.all_reduce(x, "sum", group)), total)
    assert torch.equal(functional.all_reduce(x.t(), "avg", group), total.t() / 2)
    assert torch.equal(functional.broadcast(x, 1, group), both[1])
    for dim in (0, 1):
        assert torch.equal(functional.all_gather_tensor(x, dim, group), torch.cat(both, dim))
        part = functional.reduce_scatter_tensor(x, "sum", dim, group)
        assert torch.equal(part, total.chunk(2, dim)[rank])
    swapped = functional.all_to_all_single(x, None, None, group)
    assert torch.equal(swapped, torch.stack([both[0][rank], both[1][rank]]))
    taken, given = ([1, 0], [1, 1]) if rank == 0 else ([1, 2], [0, 2])
    uneven = functional.all_to_all_single(x, taken, given, group)
    assert torch.equal(uneven, both[0][:1] if rank == 0 else torch.cat([both[0][1:], both[1]]))
    assert torch.equal(x, before)


def test_results_are_new_tensors(ranks):
    ranks(_results, 2)


def _gradients(rank):
    group = dist.group.WORLD
    x = torch.ones(2, 2, requires_grad=True)
    weight = torch.arange(8.0).reshape(4, 2)
    (functional.all_gather_tensor_autograd(x, 0, group) * weight).sum().backward()
    assert torch.equal(x.grad, 2 * weight[2 * rank : 2 * rank + 2])
    x.grad = None
    (functional.reduce_scatter_tensor_autograd(x, "AVG", 0, group) * (rank + 1)).sum().backward()
    assert torch.equal(x.grad, torch.tensor([[0.5, 0.5], [1.0, 1.0]]))
    x.grad = None
    (functional.all_to_all_single_autograd(x, None, None, group) * (rank + 1)).sum().backward()
    assert torch.equal(x.grad, torch.tensor([[1.0, 1.0], [2.0, 2.0]]))


def test_gradients_go_back_to_their_ranks(ranks):
    ranks(_gradients, 2)


def _refusals(rank):
    group = dist.group.WORLD
    with pytest.raises(AssertionError, match="must be a multiple of group_size 2"):
        functional.reduce_scatter_tensor(torch.ones(3), "sum", 0, group)
    with pytest.raises(AssertionError, match="specified together"):
        functional.all_to_all_single(torch.ones(2), [1, 1], None, group)
    with pytest.raises(ValueError, match="Unknown reduction: most"):
        functional.all_reduce(torch.ones(1), "most", group)
    x = torch.ones(2, requires_grad=True)
    for largest in (
        functional.reduce_scatter_tensor_autograd(x, "max", 0, group),
        functional.all_reduce(x, "max", group),
    ):
        with pytest.raises(RuntimeError, match="backward only supports 'sum' reduction, got 'max'"):
            largest.sum().backward()


def test_refusals(ranks):
    ranks(_refusals, 2)


def test_placements_describe():
    assert (str(Shard(1)), str(Replicate()), str(Partial("avg"))) == ("S(1)", "R", "P(avg)")
    assert repr(_StridedShard(0, split_factor=2)) == "_S(0, 2)"
    kinds = [Shard(0), Shard(1), Replicate(), Partial(), Partial("avg"), _StridedShard(0), _StridedShard(0, sf=2)]
    assert len(set(kinds)) == len(kinds) and all(isinstance(kind, Placement) for kind in kinds)
    assert [kind.is_shard() for kind in kinds] == [True, True, False, False, False, False, False]
    assert [kind.is_shard(1) for kind in kinds] == [False, True, False, False, False, False, False]
    assert [kind.is_partial("avg") for kind in kinds] == [False, False, False, False, True, False, False]
    assert [kind.is_replicate() for kind in kinds].count(True) == 1


@pytest.mark.parametrize("size, count", [(7, 3), (2, 4), (0, 2), (6, 3)])
def test_parts_are_those_of_chunk(size, count):
    chunks = list(torch.arange(size).chunk(count)) if size else []
    for rank in range(count):
        length, start = Shard.local_shard_size_and_offset(size, count, rank)
        part = chunks[rank] if rank < len(chunks) else torch.empty(0)
        assert length == len(part)
        assert start == (part[0] if length else size)


@pytest.mark.parametrize(
    "name",
    [
        "checkpoint.hf_storage",
        "fsdp.api",
        "fsdp.fully_sharded_data_parallel",
        "fsdp.sharded_grad_scaler",
        "fsdp.wrap",
        "tensor._utils",
    ],
)
def test_modules_that_libraries_import(name):
    module = importlib.import_module(f"rushlight.distributed.{name}")
    assert module.__all__ and all(callable(getattr(module, part)) for part in module.__all__)
