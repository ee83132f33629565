"""Where a rank's part of a tensor is (`torch.distributed.tensor._utils`)."""

import rushlight as torch

from ._layout import Spec, checked, extent

__all__ = ["compute_local_shape_and_global_offset"]


def __dir__() -> list[str]:
    return __all__


def compute_local_shape_and_global_offset(global_shape, mesh, placements, skip_offset=False):
    """The shape of this rank's part of a tensor, and where it begins.

    Args:
        global_shape: the shape of the whole tensor.
        mesh: the mesh.
        placements: how the tensor lies.
        skip_offset: return an empty tuple in place of the beginning.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> from rushlight.distributed.tensor._utils import compute_local_shape_and_global_offset
    >>> compute_local_shape_and_global_offset((3, 2), mesh, [dist.tensor.Shard(0)])
    ((3, 2), (0, 0))
    >>> dist.destroy_process_group()
    """
    shape = torch.Size(global_shape)
    if mesh.get_coordinate() is None:
        return (0,), ()
    size, offset = extent(Spec(mesh, checked(placements, mesh, len(shape)), shape))
    return tuple(size), () if skip_offset else offset
