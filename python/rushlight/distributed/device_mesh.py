"""Ranks in a grid with named dimensions, and a process group for each of its lines."""

import math
import os

import rushlight as torch
from rushlight._warnings import warn
from rushlight.distributed import _groups
from rushlight.distributed._groups import ProcessGroup, get_rank, get_world_size, init_process_group, is_initialized

__all__ = ["init_device_mesh", "DeviceMesh"]


def __dir__() -> list[str]:
    return __all__


_SEVERAL = "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1."


class DeviceMesh:
    """Ranks in a grid. Along each dimension, the ranks of a line are a process group.

    ``mesh["name"]`` is the part of the grid that contains this rank and has only the named dimension; several names give
    several dimensions. Every rank makes the same meshes in the same order.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``. A rank that has not chosen a GPU gets that of LOCAL_RANK, or of its own number.
        mesh: the ranks, a tensor or lists of integers.
        mesh_dim_names: a name for each dimension.
        backend_override: accepted; there is one backend.

    Raises:
        RuntimeError: a rank occurs twice, or names do not fit.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.device_mesh.DeviceMesh("cpu", [[0]], mesh_dim_names=("replicate", "shard"))
    >>> mesh, mesh["shard"].get_local_rank()
    (DeviceMesh((replicate=1, shard=1), 'cpu', stride=(1, 1)), 0)
    >>> dist.destroy_process_group()
    """

    def __init__(self, device_type, mesh=None, *, mesh_dim_names=None, backend_override=None, _init_backend=True):
        self._device_type, self._root, self._flat = _type(device_type), None, {}
        given = torch.as_tensor(mesh, dtype=torch.int32).detach().clone()
        if given.unique().numel() != given.numel():
            raise RuntimeError(f"Each rank may occur once in a mesh, but got {given.tolist()}")
        if not is_initialized():
            init_process_group()
        # The place of this rank is known once there is a group.
        self._place(given, given.stride(), mesh_dim_names, [None] * given.dim())
        world = get_world_size()
        if given.numel() > world:
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {world}, but found {given.numel()} ranks!"
            )
        if self._device_type == "cuda" and torch.cuda.device_count():
            group = _groups.get_default_group()
            bound, group.first_device = group.first_device, None
            if not torch.cuda.is_initialized():
                _choose_device()
            elif bound is not None and torch.cuda.current_device() == 0:
                # The group alone has used a GPU, and the program has chosen no other one since.
                torch.cuda.set_device(bound)
        if _init_backend:
            self._group_names = [self._begin_groups(dim) for dim in range(given.dim())]

    def _place(self, mesh, stride, names, groups):
        self._mesh, self._stride, self._group_names = mesh, stride, groups
        self._names = None if names is None else tuple(names)
        here = (mesh == get_rank()).nonzero() if is_initialized() else mesh.new_zeros((0, mesh.dim()))
        self._coordinate = tuple(here[0].tolist()) if len(here) else None

    def _begin_groups(self, dim):
        """Makes the groups of all lines along a dimension. Returns the name of this rank's, or None."""
        if self._mesh.numel() == get_world_size() == self._mesh.size(dim) and self._mesh.flatten().tolist() == list(
            range(get_world_size())
        ):
            return _groups.get_default_group().group_name
        own = None
        description = f"mesh_{self._names[dim] if self._names else f'dim_{dim}'}"
        for line in self._mesh.movedim(dim, -1).reshape(-1, self._mesh.size(dim)).tolist():
            made = _groups.new_group(line, sort_ranks=False, group_desc=description)
            if get_rank() in line:
                own = made.group_name
        return own

    @classmethod
    def _part(cls, root, mesh, stride, names, groups):
        made = cls.__new__(cls)
        made._device_type, made._root, made._flat = root._device_type, root, {}
        made._place(mesh, stride, names, groups)
        return made

    @staticmethod
    def from_group(group, device_type, mesh=None, *, mesh_dim_names=None):
        """A mesh of a process group, or of a list of them, one for each dimension of `mesh`."""
        if isinstance(group, ProcessGroup):
            ranks = _groups.get_process_group_ranks(group)
            if mesh is not None and torch.as_tensor(mesh).tolist() != ranks:
                raise ValueError(f"Invalid mesh {mesh!r} for ProcessGroup with ranks {ranks}")
            made = DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _init_backend=False)
            made._group_names = [group.group_name]
            return made
        groups = list(group)
        if not groups:
            raise ValueError("Expect at least one ProcessGroup to be specified")
        if mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if made.ndim != len(groups):
            raise ValueError(
                f"Expects mesh with ndim equal to number of ProcessGroups but got mesh {mesh} and {len(groups)} "
                "ProcessGroups"
            )
        made._group_names = [one.group_name for one in groups]
        return made

    @property
    def device_type(self):
        """The type of the devices."""
        return self._device_type

    @property
    def mesh(self):
        """The ranks, a tensor of integers."""
        return self._mesh

    @property
    def mesh_dim_names(self):
        """The names of the dimensions, or None."""
        return self._names

    @property
    def ndim(self):
        """The number of dimensions."""
        return self._mesh.dim()

    @property
    def shape(self):
        """The sizes of the dimensions, a tuple."""
        return tuple(self._mesh.shape)

    def size(self, mesh_dim=None):
        """The number of ranks, or the size of a dimension."""
        if mesh_dim is None:
            return self._mesh.numel()
        return self._mesh.size(mesh_dim if isinstance(mesh_dim, int) else self._get_mesh_dim_by_name(mesh_dim))

    def _get_mesh_dim_by_name(self, name):
        if not self._names or name not in self._names:
            raise KeyError(
                f"Mesh dimension '{name}' does not exist.\nAvailable mesh dimensions are: mesh_dim_names={self._names}"
            )
        return self._names.index(name)

    def get_group(self, mesh_dim=None):
        """The process group of this rank along a dimension, given by its number or name.

        Raises:
            RuntimeError: the mesh has several dimensions and none is given, or has no groups.
            KeyError: there is no dimension of that name.
        """
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions",
                    _SEVERAL,
                    "If you want to get the list of all the ProcessGroups in the DeviceMesh,please use `get_all_groups()` "
                    "instead.",
                )
            mesh_dim = 0
        name = self._group_names[mesh_dim if isinstance(mesh_dim, int) else self._get_mesh_dim_by_name(mesh_dim)]
        if name is None:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        if name not in _groups._world.groups:
            raise RuntimeError(f"Could not resolve the process group registered under the name {name}")
        return _groups._world.groups[name]

    def get_all_groups(self):
        """The process groups of this rank along all dimensions."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def get_rank(self):
        """The rank of this process in the default group."""
        return get_rank()

    def get_local_rank(self, mesh_dim=None):
        """The place of this rank along a dimension."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions", _SEVERAL)
        return self.get_group(0 if mesh_dim is None else mesh_dim).rank()

    def get_coordinate(self):
        """The place of this rank along every dimension, or None if the mesh does not contain it."""
        return self._coordinate

    def _get_root_mesh(self):
        return self if self._root is None else self._root

    def __getitem__(self, mesh_dim_names):
        """The part of the grid that contains this rank and has only the named dimensions.

        Raises:
            RuntimeError: the dimensions have no names.
            KeyError: a name does not exist, or the order is not that of the mesh.
        """
        if not self._names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self._names:
            return self
        flat = self._get_root_mesh()._flat
        if len(names) == 1 and names[0] in flat:
            return flat[names[0]]
        if not names or any(name not in self._names for name in names):
            valid = [*self._names, *flat]
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {valid}.")
        dims = [self._names.index(name) for name in names]
        if dims != sorted(set(dims)):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order.")
        place = self._coordinate or (0,) * self.ndim
        part = self._mesh[tuple(slice(None) if dim in dims else place[dim] for dim in range(self.ndim))]
        stride = tuple(self._stride[dim] for dim in dims)
        return self._part(self._get_root_mesh(), part, stride, names, [self._group_names[dim] for dim in dims])

    def _flatten(self, mesh_dim_name=None):
        """This mesh as a line with a group of its own. The whole mesh finds it by its name afterwards."""
        name = mesh_dim_name or "_".join(self._names or ())
        root = self._get_root_mesh()
        if self.ndim == 1 and name in (self._names or ()):
            return self
        if name in root._flat:
            return root._flat[name]
        if name in (root._names or ()):
            raise ValueError(f"{name} already exists for submesh of the {root}. ")
        # All ranks of the whole mesh make the lines of all of them.
        own = None
        if root is self:
            lines = [self._mesh.flatten()]
        else:
            dims = [root._names.index(one) for one in self._names]
            others = [dim for dim in range(root.ndim) if dim not in dims]
            lines = list(root._mesh.permute(*others, *dims).reshape(-1, self._mesh.numel()))
        for line in lines:
            made = _groups.new_group(line.tolist(), sort_ranks=False, group_desc=f"mesh_{name}")
            if get_rank() in line.tolist():
                own = made.group_name
        root._flat[name] = self._part(
            root, self._mesh.flatten(), (self._stride[-1] if self._stride else 1,), (name,), [own]
        )
        return root._flat[name]

    def _key(self):
        return self._device_type, self.shape, tuple(self._mesh.flatten().tolist()), self._names

    def __eq__(self, other):
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def __contains__(self, rank):
        return rank in self._mesh.flatten().tolist()

    def __repr__(self):
        sizes = [f"{name}={size}" for name, size in zip(self._names, self.shape)] if self._names else self.shape
        shape = f"({', '.join(sizes)})" if self._names else str(tuple(sizes))
        return f"DeviceMesh({shape}, {self._device_type!r}, stride={tuple(self._stride)})"


def _choose_device():
    """Makes a GPU of its own current for this rank, whose program has chosen none."""
    if "LOCAL_RANK" in os.environ:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return
    count, world = torch.cuda.device_count(), get_world_size()
    warn(
        "It seems like you did not set/select the default device for the current process before the DeviceMesh "
        "initialization or use a launcher (i.e. torchrun) which populates `LOCAL_RANK` environment variable. It is "
        "recommended to set the current device for the process BEFORE the DeviceMesh initialization so that the "
        "underlying communicator (i.e. NCCL) can be initialized properly. Given that the current process has no default "
        "device selected, DeviceMesh will use a heuristic to set the device_id via `global_rank % num_devices_per_host`, "
        "assuming homogeneous hardware cluster. "
    )
    if world > count and world % count:
        raise RuntimeError(
            f"DeviceMesh only support homogeneous hardware, but found {world} ranks and {count} cuda devices!"
        )
    torch.cuda.set_device(get_rank() % count)


def _type(device_type):
    if ":" in str(device_type):
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    return torch.device(device_type).type


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """A mesh of all ranks in order. Begins the default group from the environment if there is none.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``. A rank that has not chosen a GPU gets that of LOCAL_RANK, or of its own number.
        mesh_shape: the sizes of the dimensions.
        mesh_dim_names: a name for each dimension.
        backend_override: accepted; there is one backend.

    Raises:
        RuntimeError: names are not unique or do not fit, or there are fewer ranks than places.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> dist.init_device_mesh("cpu", (1,), mesh_dim_names=("data",))
    DeviceMesh((data=1), 'cpu', stride=(1,))
    >>> dist.destroy_process_group()
    """
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}"
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
                f"{len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}."
            )
    sizes = tuple(mesh_shape)
    if not all(type(size) is int for size in sizes):
        raise ValueError(
            f"sizes {sizes} and strides {(1,) * len(sizes)} don't match\nThe sizes of a mesh are integers."
        )
    ranks = torch.arange(math.prod(mesh_shape), dtype=torch.int32).view(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
