"""Parameters of which each rank keeps rows, as `fully_shard` cuts them."""

import rushlight as torch
from rushlight._answers import elements
from rushlight.distributed.tensor import DTensor, Replicate, Shard
from rushlight.distributed.tensor._api import leaf
from rushlight.distributed.tensor._layout import Spec, cut
from rushlight.distributed.tensor.placement_types import _StridedShard
from rushlight.nn import Parameter
from rushlight.nn.functional import pad

from ._unit import Piece


class Rows(Piece):
    """A parameter: this rank's rows along a dimension, and the whole one.

    Args:
        parameter: the parameter. If it is a `DTensor` of a mesh for other dimensions, its shard on this rank is cut again.
        places: the modules that have it, and its name in each.
        mesh: of one dimension, or of two: copies, and ranks that share a copy.
        dtype: that of the whole parameter, or None for its own.
        dim: the dimension that is cut.
        device: that of the whole parameter.
        offloads, pinned: whether the rows are on the CPU, and in page-locked memory there.
    """

    def __init__(self, parameter, places, mesh, dtype, dim, device, offloads, pinned):
        self.places, self.dim, self.ranks = places, dim, mesh.size(mesh.ndim - 1)
        outer = parameter._spec if isinstance(parameter, DTensor) else None
        local = elements(parameter.detach()) if outer is not None else parameter.detach()
        self.shape = local.shape
        placements = (Replicate(),) * (mesh.ndim - 1) + (Shard(dim),)
        rows = cut(local, Spec(mesh, placements, self.shape), mesh.ndim - 1).clone()
        if offloads and not rows.is_meta:
            rows = rows.cpu().pin_memory() if pinned else rows.cpu()
        self.spec = Spec(mesh, placements, self.shape) if outer is None else _joint(mesh, placements, outer)
        self.own = Parameter(leaf(rows, self.spec), parameter.requires_grad)
        self.own._fsdp = True
        # The elements of the shards of all ranks but the last ones, which may have fewer.
        self.shard_numel = self._elements(self.ranks)
        self.outer, self.dtype, self.device = outer, dtype, device
        memory = torch.empty(self.shape, dtype=self._wanted(), device=device)
        super().__init__(Parameter(self._presented(memory), parameter.requires_grad), memory)
        self.show(False)

    def _elements(self, ranks):
        """How many elements the first of so many ranks has."""
        return -(-self.shape[self.dim] // ranks) * (self.shape.numel() // max(1, self.shape[self.dim]))

    def _wanted(self):
        """The dtype of the whole parameter."""
        return self.own.dtype if self.dtype is None or not self.own.is_floating_point() else self.dtype

    def _presented(self, memory):
        return memory if self.outer is None else leaf(memory, self.outer)

    def show(self, is_whole):
        for module, name in self.places:
            module._parameters[name] = self.whole if is_whole else self._shard()

    def _shard(self):
        """This rank's shard, as the program has it between uses."""
        return self.own if self.shrunk is None else self.shrunk

    def find(self):
        module, name = self.places[0]
        found = module._parameters[name]
        if isinstance(found, DTensor):
            self.own = found
        if self.memory.dtype != self._wanted():
            # The program has converted the module.
            memory = torch.empty(self.shape, dtype=self._wanted(), device=self.device)
            self.whole.data = self._presented(memory)
            self.replace(memory)

    def width(self):
        return self.shard_numel if self.shrunk is None else self._elements(self.shrunk.device_mesh.size(1))

    def give(self, place):
        rows = elements(self._shard()).detach().reshape(-1)
        place[: rows.numel()].copy_(rows)
        if rows.numel() < place.numel():
            place[rows.numel() :].zero_()

    def shrink(self, mesh):
        if self.outer is not None:
            raise NotImplementedError(
                "Resharding to smaller mesh is not supported for DTensor parameters yet\n"
                "  Give reshard_after_forward True or False where layers are in parts."
            )
        spec = Spec(mesh, (Replicate(), Shard(self.dim)), self.shape)
        self.shrunk = Parameter(leaf(cut(self.memory, spec, 1).clone(), spec), self.own.requires_grad)

    def joined(self, table):
        if self.dim == 0:
            return table.reshape(-1)[: self.shape.numel()].view(self.shape)
        shards = table.reshape(table.size(0), *self.shape[: self.dim], -1, *self.shape[self.dim + 1 :])
        return shards.movedim(0, self.dim).reshape(self.shape)

    def cut(self, whole):
        if self.dim == 0:
            return pad(whole.reshape(-1), (0, self.ranks * self.shard_numel - whole.numel())).view(
                self.ranks, self.shard_numel
            )
        return whole.unflatten(self.dim, (self.ranks, -1)).movedim(self.dim, 0).reshape(self.ranks, self.shard_numel)

    def keep(self, shard):
        rows = elements(self.own)
        shard = shard[: rows.numel()].view(rows.shape).to(rows.device, rows.dtype)
        if self.own.grad is None:
            self.own.grad = leaf(shard.clone(), self.spec)
        else:
            elements(self.own.grad).add_(shard)


def _joint(mesh, placements, outer):
    """The layout on the mesh of both, of a tensor that is cut along `outer` first and then along `mesh`."""
    root = mesh._get_root_mesh()
    if root is not outer.mesh._get_root_mesh() or not mesh.mesh_dim_names or not outer.mesh.mesh_dim_names:
        raise ValueError(
            "FSDP requires the DP and model parallel TP/EP mesh to have the same parent mesh but got: \n"
            f"DP's global mesh: {root}\nTP/EP's global mesh: {outer.mesh._get_root_mesh()}"
        )
    dim = placements[-1].dim
    # The cut along `mesh` comes first in the placements, but was made after those of `outer` along the same dimension.
    times = 1
    for mesh_dim, placement in enumerate(outer.placements):
        if placement.is_shard(dim):
            times *= outer.mesh.size(mesh_dim)
    last = Shard(dim) if times == 1 else _StridedShard(dim, split_factor=times)
    joint = root[(*mesh.mesh_dim_names, *outer.mesh.mesh_dim_names)]
    return Spec(joint, (*placements[:-1], last, *outer.placements), outer.shape)
