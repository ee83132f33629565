"""Where the parts of a tensor are, and how they move: functions of the plain tensors that the ranks have."""

import math
from typing import NamedTuple

import rushlight as torch
from rushlight.distributed import _collectives
from rushlight.distributed._functional_collectives import _op
from rushlight.distributed.device_mesh import DeviceMesh

from .placement_types import Partial, Placement, Replicate, Shard, _NormPartial, _StridedShard


class Spec(NamedTuple):
    """The mesh of a tensor, its placement along each dimension of the mesh, and the shape of the whole."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: torch.Size

    @property
    def stride(self):
        return tuple(math.prod(self.shape[dim + 1 :]) for dim in range(len(self.shape)))

    @property
    def replicated(self):
        return all(placement.is_replicate() for placement in self.placements)

    @property
    def partial(self):
        return any(placement.is_partial() for placement in self.placements)

    def placed(self, placements):
        return self._replace(placements=tuple(placements))


def everywhere(mesh):
    """The placements of a tensor that every rank has."""
    return (Replicate(),) * mesh.ndim


def checked(placements, mesh, dims):
    """Placements with dimensions counted from the front.

    Raises:
        ValueError: their number is not that of the mesh's dimensions.
        RuntimeError: there is no mesh.
        TypeError: something else than a placement.
        IndexError: a dimension does not exist.
    """
    if mesh is None:
        raise RuntimeError("No device mesh is currently active!")
    placements = everywhere(mesh) if placements is None else tuple(placements)
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: {len(placements)}, "
            f"and device_mesh.ndim: {mesh.ndim}."
        )
    found = []
    for placement in placements:
        if not isinstance(placement, Placement):
            raise TypeError(f"expected a placement, but got {placement!r}")
        if isinstance(placement, Shard):
            if not -dims <= placement.dim < dims:
                last = max(dims, 1)
                raise IndexError(
                    f"Dimension out of range (expected to be in range of [{-last}, {last - 1}], but got {placement.dim})"
                )
            placement = Shard(placement.dim % dims)
        found.append(placement)
    return tuple(found)


def bounds(size, parts, index):
    """The first row and the number of rows of a part."""
    rows = -(-size // parts)
    first = min(index * rows, size)
    return first, min(rows, size - first)


def is_cut(placement):
    """Whether ranks have parts along a dimension of the mesh."""
    return isinstance(placement, (Shard, _StridedShard))


def order(placements):
    """The dimensions of the mesh in the order in which they cut the tensor. A strided part is a part of those of later dimensions."""
    strided = [dim for dim, placement in enumerate(placements) if isinstance(placement, _StridedShard)]
    return [dim for dim in range(len(placements)) if dim not in strided] + strided


def extent(spec, count=None):
    """The shape of this rank's part after the first `count` cuts, and where it begins in the whole tensor."""
    shape, offset, place = list(spec.shape), [0] * len(spec.shape), spec.mesh.get_coordinate()
    for mesh_dim in order(spec.placements)[:count]:
        placement = spec.placements[mesh_dim]
        if is_cut(placement):
            first, rows = bounds(shape[placement.dim], spec.mesh.size(mesh_dim), place[mesh_dim])
            offset[placement.dim] += first
            shape[placement.dim] = rows
    return torch.Size(shape), tuple(offset)


def local_shape(spec, count=None):
    """The shape of this rank's part, after the first `count` cuts."""
    return extent(spec, count)[0]


def whole_strides(part, spec):
    """The strides of the whole tensor, of which each rank has a part that lies in this way."""
    # Those of parts of one row, or of none, may be anything.
    if part.is_contiguous():
        return spec.stride
    strides, own = list(part.stride()), part.stride()
    for cut_dim in {placement.dim for placement in spec.placements if is_cut(placement)}:
        for dim, stride in enumerate(own):
            # Dimensions outside of one that is cut are farther apart in the whole. Those beside a single row have its stride.
            outside = part.size(dim) > 1 or dim < cut_dim if stride == own[cut_dim] else stride > own[cut_dim]
            if dim != cut_dim and outside:
                strides[dim] = strides[dim] * spec.shape[cut_dim] // part.size(cut_dim)
    return tuple(strides)


def cut(tensor, spec, mesh_dim):
    """This rank's part of a tensor along a dimension of the mesh."""
    dim = spec.placements[mesh_dim].dim
    first, rows = bounds(tensor.size(dim), spec.mesh.size(mesh_dim), spec.mesh.get_coordinate()[mesh_dim])
    return tensor.narrow(dim, first, rows).contiguous()


def _joined(local, spec, mesh_dim, cuts):
    """The parts of all ranks along a dimension of the mesh, joined. So many cuts were made before."""
    dim, count = spec.placements[mesh_dim].dim, spec.mesh.size(mesh_dim)
    whole = local_shape(spec, cuts)
    parts = []
    for index in range(count):
        shape = list(whole)
        shape[dim] = bounds(whole[dim], count, index)[1]
        parts.append(local.new_empty(shape))
    _collectives.all_gather(parts, local.contiguous(), spec.mesh.get_group(mesh_dim))
    return torch.cat(parts, dim)


def _reduced(local, placement, group):
    """What the parts of all ranks stand for."""
    if isinstance(placement, _NormPartial):
        total = local.pow(placement.norm_type)
        _collectives.all_reduce(total, _op("sum"), group)
        return total.pow(1 / placement.norm_type)
    total = local.clone(memory_format=torch.contiguous_format)
    _collectives.all_reduce(total, _op(placement.reduce_op), group)
    return total


def moved(local, spec, placements):
    """This rank's part under other placements. All ranks of the mesh call it."""
    before, after = order(spec.placements), order(placements)
    # Parts of parts are joined from the last cut to the first that changes, and cut again.
    stays = lambda at: before[at] == after[at] and spec.placements[before[at]] == placements[after[at]]
    first = next((at for at in range(len(before)) if not stays(at)), len(before))
    for at in reversed(range(first, len(before))):
        mesh_dim = before[at]
        now = spec.placements[mesh_dim]
        if is_cut(now):
            local = _joined(local, spec, mesh_dim, at)
        elif isinstance(now, Partial) and now != placements[mesh_dim]:
            local = _reduced(local, now, spec.mesh.get_group(mesh_dim))
    target = spec.placed(placements)
    for mesh_dim in after[first:]:
        wanted = placements[mesh_dim]
        if is_cut(wanted):
            local = cut(local, target, mesh_dim)
        elif isinstance(wanted, Partial) and spec.placements[mesh_dim] != wanted:
            # One rank keeps the values, so that the sum is exact. An average is that of equal values.
            if wanted.reduce_op == "sum" and spec.mesh.get_coordinate()[mesh_dim] != 0:
                local = torch.zeros_like(local)
    return local


class Redistribute(torch.autograd.Function):
    """`moved`, through which gradients pass."""

    @staticmethod
    def forward(ctx, local, spec, placements):
        ctx.spec, ctx.placements = spec, placements
        result = moved(local, spec, placements)
        return result.clone() if result is local else result

    @staticmethod
    def backward(ctx, grad):
        # The gradient of a sum is that of each of its parts.
        whole = lambda placements: tuple(Replicate() if one.is_partial() else one for one in placements)
        target = ctx.spec.placed(whole(ctx.placements))
        return Redistribute.apply(grad, target, whole(ctx.spec.placements)), None, None


class Averaged(torch.autograd.Function):
    """An average over equal parts, of which each rank has one: its gradient is that of one part of it."""

    @staticmethod
    def forward(ctx, local, parts):
        ctx.parts = parts
        return local.view_as(local)

    @staticmethod
    def backward(ctx, grad):
        return grad / ctx.parts, None


class GradientPlaced(torch.autograd.Function):
    """A tensor as it is, whose gradient comes in some placements and leaves in those of the tensor."""

    @staticmethod
    def forward(ctx, local, spec, placements):
        ctx.spec, ctx.placements = spec, placements
        return local.view_as(local)

    @staticmethod
    def backward(ctx, grad):
        return Redistribute.apply(grad, ctx.spec.placed(ctx.placements), ctx.spec.placements), None, None
