"""Grids of ranks, and the calls that name groups by them."""

import copy
import pickle

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import _functional_collectives as funcol
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh


def _grid(rank):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert repr(mesh) == "DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))"
    assert (mesh.shape, mesh.ndim, mesh.size(), mesh.size(0), mesh.size("tp")) == ((2, 2), 2, 4, 2, 2)
    assert (mesh.device_type, mesh.mesh_dim_names, mesh.get_rank()) == ("cpu", ("dp", "tp"), rank)
    assert mesh.mesh.dtype == torch.int32 and mesh.mesh.tolist() == [[0, 1], [2, 3]]
    assert mesh.get_coordinate() == (rank // 2, rank % 2)
    assert mesh.get_local_rank("dp") == rank // 2 and mesh.get_local_rank(1) == rank % 2
    assert dist.get_process_group_ranks(mesh.get_group("dp")) == [rank % 2, rank % 2 + 2]
    assert dist.get_process_group_ranks(mesh.get_group(1)) == [rank // 2 * 2, rank // 2 * 2 + 1]
    assert mesh.get_all_groups() == [mesh.get_group(0), mesh.get_group(1)]
    part = mesh["dp"]
    assert repr(part) == "DeviceMesh((dp=2), 'cpu', stride=(2,))"
    assert part.mesh.tolist() == [rank % 2, rank % 2 + 2] and part.get_coordinate() == (rank // 2,)
    assert part.get_group() is mesh.get_group("dp") and part.get_local_rank() == rank // 2
    assert mesh["dp", "tp"] is mesh and mesh["dp"] == part and hash(mesh["dp"]) == hash(part) and mesh["tp"] != part
    for again in (pickle.loads(pickle.dumps(part)), copy.deepcopy(part)):
        assert again == part and again.get_group() is part.get_group()
    line = mesh["dp", "tp"]._flatten("all")
    assert mesh["all"] is line and line.size() == 4 and line.get_group().size() == 4
    assert repr(init_device_mesh("cpu", (4,))) == "DeviceMesh((4,), 'cpu', stride=(1,))"
    cube = init_device_mesh("cpu", (1, 2, 2), mesh_dim_names=("a", "b", "c"))
    flat = cube["a", "b"]._flatten()
    assert flat.mesh.tolist() == [rank % 2, rank % 2 + 2] and cube["a_b"] is flat
    turned = DeviceMesh("cpu", [[3, 1], [2, 0]])
    assert turned.get_coordinate() == {3: (0, 0), 1: (0, 1), 2: (1, 0), 0: (1, 1)}[rank]
    total = torch.tensor([10.0**rank])
    dist.all_reduce(total, group=turned.get_group(0))
    assert total.item() == (1100 if rank > 1 else 11)


def test_grids(ranks):
    ranks(_grid, 4)


def _parts_of_the_world(rank):
    mesh = DeviceMesh("cpu", [1, 2])
    assert mesh.get_coordinate() == {1: (0,), 2: (1,)}.get(rank)
    if rank == 0:
        with pytest.raises(RuntimeError, match="process groups not initialized"):
            mesh.get_group()
    group = dist.new_group([0, 2])
    if rank != 1:
        found = DeviceMesh.from_group(group, "cpu", mesh_dim_names=("x",))
        assert found["x"].get_group() is group and found.mesh.tolist() == [0, 2]
        with pytest.raises(ValueError, match="Invalid mesh"):
            DeviceMesh.from_group(group, "cpu", [0, 1])


def test_a_grid_of_some_ranks(ranks):
    ranks(_parts_of_the_world, 3)


def _refusals(rank):
    named = init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"))
    plain = init_device_mesh("cpu", (2, 1))
    for call, error, text in (
        (lambda: init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "a")), RuntimeError, "must be unique"),
        (lambda: init_device_mesh("cpu", (2, 1), mesh_dim_names=("a",)), RuntimeError, "should have same length"),
        (lambda: init_device_mesh("cpu", (2.5,)), ValueError, r"sizes \(2.5,\) and strides \(1,\) don't match"),
        (lambda: init_device_mesh("cpu", "a"), ValueError, r"sizes \('a',\) and strides"),
        (lambda: init_device_mesh("cpu:0", (2,)), RuntimeError, "Device type with index is not supported"),
        (
            lambda: init_device_mesh("cpu", (3,)),
            RuntimeError,
            "should not be bigger than default world size 2, but found 3",
        ),
        (
            lambda: named["c"],
            KeyError,
            r"Invalid mesh_dim_names \('c',\) specified. Valid mesh_dim_names are \['a', 'b'\]",
        ),
        (lambda: named["b", "a"], KeyError, "Mesh dim indices should be in ascending order"),
        (lambda: plain["a"], RuntimeError, "Cannot slice a DeviceMesh without mesh_dim_names!"),
        (lambda: named.get_group(), RuntimeError, "Found the DeviceMesh have 2 dimensions"),
        (lambda: named.get_group("c"), KeyError, "Mesh dimension 'c' does not exist"),
        (lambda: named.get_local_rank(), RuntimeError, "`mesh_dim` needs to be specified when device_mesh.ndim > 1"),
        (lambda: DeviceMesh("cpu", [0, 0]), RuntimeError, "Each rank may occur once"),
        (lambda: funcol.all_reduce(torch.ones(1), "sum", named), AssertionError, "Only 1D mesh is supported"),
        (lambda: funcol.all_reduce(torch.ones(1), "most", [0, 1]), ValueError, "Unknown reduction: most"),
        (lambda: funcol.reduce_scatter_tensor(torch.ones(3), "sum", 0, [0, 1]), AssertionError, "must be a multiple"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_refusals(ranks):
    ranks(_refusals, 2)


def _functional(rank):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("x",))
    own = torch.tensor([[1.0, 2.0], [3.0, 4.0]]) + 10 * rank
    both = [own - 10 * rank, own - 10 * rank + 10]
    for group in (mesh, (mesh, 0), mesh.get_group(), mesh.get_group().group_name, [0, 1], [[0, 1]]):
        assert torch.equal(funcol.wait_tensor(funcol.all_reduce(own, "sum", group)), both[0] + both[1])
    assert torch.equal(funcol.all_reduce(own, "AVG", mesh), both[0] + 5)
    assert torch.equal(funcol.all_gather_tensor(own, 1, mesh), torch.cat(both, 1))
    assert torch.equal(funcol.reduce_scatter_tensor(own, "sum", 1, mesh), (both[0] + both[1])[:, rank : rank + 1])
    assert torch.equal(funcol.reduce_scatter_tensor(own, "avg", 0, mesh), (both[0] + 5)[rank : rank + 1])
    assert torch.equal(funcol.broadcast(own, 1, mesh), both[1])
    assert torch.equal(funcol.permute_tensor(own, [1, 0], mesh), both[1 - rank])
    swapped = funcol.all_to_all_single(own, None, None, mesh)
    assert torch.equal(swapped, torch.stack([both[0][rank], both[1][rank]]))
    sizes = ([1, 2], [1, 1]) if rank == 0 else ([1, 0], [2, 0])
    assert len(funcol.all_to_all_single(own[: sum(sizes[1])], *sizes, mesh)) == sum(sizes[0])
    assert [len(one) for one in funcol.all_gather_into_tensor_coalesced([own, own[:1]], mesh)] == [4, 2]
    x = own.clone().requires_grad_()
    (funcol.all_gather_tensor_autograd(x, 0, mesh) * torch.arange(4.0).view(4, 1)).sum().backward()
    assert x.grad.tolist() == [[4.0 * rank] * 2, [4.0 * rank + 2] * 2]


def test_calls_that_name_groups(ranks):
    ranks(_functional, 2)
