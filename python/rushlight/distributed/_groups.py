"""Process groups: who takes part, and how groups begin and end."""

import hashlib
import os
import warnings
from datetime import timedelta

import rushlight as torch
from rushlight._set_module import set_module
from rushlight.distributed import _backends, _host_group
from rushlight.distributed._backends import Backend, BackendConfig
from rushlight.distributed._mpiexec import place
from rushlight.distributed._options import ProcessGroupNCCL
from rushlight.distributed.constants import default_pg_nccl_timeout, default_pg_timeout
from rushlight.distributed.rendezvous import give_up, rendezvous
from rushlight.distributed.store import PrefixStore, Store

_NOT_INITIALIZED = "Default process group has not been initialized, please make sure to call init_process_group."


class ProcessGroup:
    """The processes that take part in a collective call, and this process's place among them.

    `init_process_group` and `new_group` make them.
    """

    def __init__(self, backends, store, root_store, ranks, rank, timeout, config, backend, name, description):
        self._backends, self._store, self._root_store = backends, store, root_store
        self._ranks, self._rank = ranks, rank
        self._timeout, self._config, self._backend = timeout, config, backend
        self.group_name, self.group_desc = name, description
        self.bound_device_id = None
        # The same if this process had used no GPU before.
        self.first_device = None
        # The calls that `_coalescing_manager` holds back, or None.
        self._held = None

    def rank(self):
        """The rank of this process in the group."""
        return self._rank

    def size(self):
        """The number of processes in the group."""
        return len(self._ranks)

    def name(self):
        """The name of the backend."""
        return str(self._backend)

    @property
    def _seconds(self):
        return self._timeout.total_seconds()

    @property
    def _device_types(self):
        return [torch.device(name) for name in self._config.get_device_backend_map()]

    def _backend_of(self, kind):
        """What exchanges tensors on a type of device."""
        backend = self._backends.get(kind)
        if backend is None:
            raise RuntimeError(f"No backend type associated with device type {kind}")
        return backend

    def _exchanges_on_host(self, kind):
        """Whether tensors on a type of device go through memory of the host."""
        return kind != "cuda" or self._config.get_device_backend_map().get(kind) != Backend.NCCL

    def _object_device(self):
        """Where objects and numbers are exchanged: the CPU, or the GPU of a group that has no other device."""
        if "cpu" in self._backends:
            return torch.device("cpu")
        return torch.device("cuda", self._backend_of("cuda").device(self.bound_device_id))

    def _leave(self):
        for backend in self._backends.values():
            backend.leave()

    def store(self):
        """The store of the group."""
        return self._store

    def barrier(self, opts=None):
        """Waits for all ranks."""
        from rushlight.distributed._collectives import barrier

        return barrier(self, async_op=True)

    def allreduce(self, tensors, op=None):
        """Begins to reduce tensors over all ranks, in place."""
        from rushlight.distributed import ReduceOp
        from rushlight.distributed._collectives import all_reduce_coalesced

        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        op = getattr(op, "reduceOp", op)
        return all_reduce_coalesced(tensors, ReduceOp.SUM if op is None else op, self, async_op=True)

    def broadcast(self, tensors, root=0):
        """Begins to copy a tensor of a rank of this group to all others."""
        from rushlight.distributed._collectives import broadcast

        tensor = tensors if isinstance(tensors, torch.Tensor) else tensors[0]
        return broadcast(tensor, group=self, group_src=getattr(root, "rootRank", root), async_op=True)

    def allgather(self, output_tensors, input_tensors, opts=None):
        """Begins to collect a tensor of every rank."""
        from rushlight.distributed._collectives import all_gather

        if isinstance(input_tensors, torch.Tensor):
            return all_gather(output_tensors, input_tensors, self, async_op=True)
        return all_gather(output_tensors[0], input_tensors[0], self, async_op=True)

    def abort(self):
        """Leaves the group; calls that are under way fail."""
        for backend in self._backends.values():
            backend.abort()

    def shutdown(self):
        """Leaves the group."""
        self._leave()

    def __reduce__(self):
        raise TypeError("cannot pickle a ProcessGroup: it belongs to its process")

    def __repr__(self):
        return f"<ProcessGroup {self.group_name!r}: rank {self._rank} of {self.size()}, {self._config}>"


class _World:
    """The groups of this process."""

    def __init__(self):
        self.default: ProcessGroup | None = None
        self.groups: dict[str, ProcessGroup] = {}
        self.made = 0


_world = _World()


class _GroupMeta(type):
    @property
    def WORLD(cls):
        """The default group, or None."""
        return _world.default

    @WORLD.setter
    def WORLD(cls, group):
        _world.default = group


class group(metaclass=_GroupMeta):
    """`group.WORLD` is the default group."""


class GroupMember(metaclass=_GroupMeta):
    """`GroupMember.WORLD` is the default group; `NON_GROUP_MEMBER` stands for a group without this process."""

    NON_GROUP_MEMBER = -100


def get_default_group():
    """The default group.

    Raises:
        ValueError: there is none.
    """
    if _world.default is None:
        raise ValueError(_NOT_INITIALIZED)
    return _world.default


def resolve(group):
    """A group, or the default group for None."""
    if group is None or group is _world.default:
        return get_default_group()
    if not isinstance(group, ProcessGroup):
        raise ValueError(f"Expecting a ProcessGroup, but got a {type(group)}.")
    if _world.groups.get(group.group_name) is not group:
        raise ValueError("Invalid process group specified")
    return group


def is_member(group):
    """Whether this process belongs to a group."""
    return group is not GroupMember.NON_GROUP_MEMBER


def is_initialized():
    """Whether the default process group is initialised.

    >>> torch.distributed.is_initialized()
    False
    """
    return _world.default is not None


def _check_timeout(timeout, backend=None):
    if timeout is None:
        return default_pg_nccl_timeout if backend == Backend.NCCL else default_pg_timeout
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    return timeout


def init_process_group(
    backend=None,
    init_method=None,
    timeout=None,
    world_size=-1,
    rank=-1,
    store=None,
    group_name="",
    pg_options=None,
    device_id=None,
    _ranks=None,
    *,
    token="",
):
    """Begins the default group. Every process calls it, and it returns once all of them have.

    Args:
        backend: `gloo` or `mpi`, which are the same code for tensors on the CPU, `nccl` for tensors on GPUs, or one for each
            type of device: ``cpu:gloo,cuda:nccl``. None is this, if there are GPUs and NCCL, and `gloo` otherwise.
        init_method: ``env://`` (the default: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE), ``tcp://HOST:PORT`` or
            ``file:///PATH``. With the backend `mpi` and no RANK, processes have their places from mpiexec or srun, and need no
            address if it is the mpiexec of MPICH. Under mpiexec a given `rank` and `world_size` are ignored.
        timeout: how long this and each call of the group may take, a timedelta, by default half an hour, with `nccl` ten minutes.
        world_size, rank: the number of processes and the number of this one, where the method does not tell.
        store: a store that all processes share, in place of `init_method`.
        group_name: a name for the group.
        pg_options: a `ProcessGroupNCCL.Options` for communicators of `nccl`; no other backend has options.
        device_id: the GPU of this process, whose communicator is made at once.
        token: a secret of the store; a process that does not know it cannot join.

    Raises:
        ValueError: there is a default group, or the method lacks something.
        AssertionError: `pg_options` is something else, or a backend is unknown.
        RuntimeError: a backend of torch that does not exist here.
        TypeError: `store` is no store.
        torch.distributed.DistError: a process did not come before the timeout.

    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> torch.distributed.get_world_size()
    1
    >>> torch.distributed.destroy_process_group()
    """
    if _world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    device_id = _backends.check_device(device_id)
    if backend is None and device_id is not None:
        backend = Backend.default_device_backend_map[device_id.type]
    timeout = _check_timeout(timeout, backend)
    config = BackendConfig(Backend.UNDEFINED if backend is None else backend)
    _backends.check(config, backend)
    _check_options(pg_options, config)
    if store is not None:
        if not world_size > 0:
            raise AssertionError("world_size must be positive if using store")
        if not rank >= 0:
            raise AssertionError("rank must be non-negative if using store")
    name = group_name or "0"
    backend = Backend(Backend.UNDEFINED if backend is None else backend)
    is_given = store is not None
    if store is None:
        method = init_method or "env://"
        # With MPI, processes have their places from its launcher.
        if backend == Backend.MPI and init_method is None and "RANK" not in os.environ and place(rank, world_size):
            if rank != -1 or world_size != -1:
                warnings.warn(
                    f"For MPI backend, world_size ({world_size}) and rank ({rank}) are ignored since they are assigned by "
                    "the MPI runtime.",
                    stacklevel=2,
                )
            method, rank, world_size = "mpi://", -1, -1
        store, rank, world_size = next(rendezvous(method, rank, world_size, timeout=timeout, token=token))
        store.set_timeout(timeout)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not in a group of {world_size}\n  Ranks are 0 to {world_size - 1}.")
    ranks = list(range(world_size))
    is_first = device_id is not None and not torch.cuda.is_initialized()
    try:
        _world.default = _begin(store, ranks, rank, timeout, config, backend, name, "default_pg", device_id, pg_options)
    except BaseException:
        if rank == 0 and not is_given:
            give_up(store)
        raise
    _world.default.first_device = device_id if is_first else None
    _world.made = 1


def _check_options(options, config):
    if options is None or Backend.NCCL not in config.get_device_backend_map().values():
        return
    if not isinstance(options, ProcessGroupNCCL.Options):
        raise AssertionError("Expected backend_options argument to be of type ProcessGroupNCCL.Options")


def _begin(store, ranks, rank, timeout, config, backend, name, description, device=None, options=None):
    # Groups of one name follow each other in a store.
    count = PrefixStore(f"{description}/{name}", store).add(f"made by {rank}", 1)
    own, place = PrefixStore(f"{description}/{name}/{count}", store), ranks.index(rank)
    names, backends = config.get_device_backend_map(), {}
    hosts = [kind for kind, backend_name in names.items() if backend_name != Backend.NCCL]
    if hosts:
        backends.update(dict.fromkeys(hosts, _host_group.join(own, place, len(ranks), timeout)))
    else:
        _host_group.meet(own, place, len(ranks), timeout)
    if len(hosts) < len(names):
        from rushlight.distributed._nccl import NcclGroup

        backends["cuda"] = NcclGroup(own, place, len(ranks), rank, name, options)
    group = ProcessGroup(backends, own, store, ranks, place, timeout, config, backend, name, description)
    group.bound_device_id = device
    if device is not None and not group._exchanges_on_host("cuda"):
        backends["cuda"].connect(device.index, timeout.total_seconds())
    _world.groups[name] = group
    return group


def destroy_process_group(group=None):
    """Ends a group, or the default group and with it all others.

    Raises:
        ValueError: the group does not exist.
        AssertionError: there is no default group.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    if group is None or group is _world.default:
        if _world.default is None:
            raise AssertionError("Process group cannot be None")
        ended = list(_world.groups.values())
        _world.default = None
        _world.groups.clear()
    else:
        ended = [resolve(group)]
        del _world.groups[ended[0].group_name]
    for one in ended:
        one._leave()
        # A store ends with its last user, and its port is free for the next group.
        one._store = one._root_store = None


def get_rank(group=None):
    """The rank of this process in a group; -1 if it does not belong to it.

    Raises:
        ValueError: there is no process group.

    >>> try:
    ...     torch.distributed.get_rank()
    ... except ValueError:
    ...     print("no group")
    no group
    """
    return resolve(group)._rank if is_member(group) else -1


def get_world_size(group=None):
    """The number of processes in a group; -1 if this process does not belong to it.

    Raises:
        ValueError: there is no process group.

    >>> try:
    ...     torch.distributed.get_world_size()
    ... except ValueError:
    ...     print("no group")
    no group
    """
    return resolve(group).size() if is_member(group) else -1


def get_backend(group=None):
    """The name of a group's backend."""
    if not is_member(group):
        raise ValueError("Invalid process group specified")
    return resolve(group)._backend


def get_backend_config(group=None):
    """The backends of a group by device, as text."""
    if not is_member(group):
        raise ValueError("Invalid process group specified")
    return str(resolve(group)._config)


def get_default_backend_for_device(device):
    """The backend of a type of device.

    >>> torch.distributed.get_default_backend_for_device("cpu")
    'gloo'
    """
    kind = device.type if isinstance(device, torch.device) else torch.device(device).type
    backend = Backend.default_device_backend_map.get(kind)
    if backend is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return backend


def get_process_group_ranks(group):
    """The ranks of a group's processes in the default group, in the order of the group."""
    return list(resolve(group)._ranks)


def get_group_rank(group, global_rank):
    """The rank in a group of a process of the default group."""
    ranks = resolve(group)._ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_global_rank(group, group_rank):
    """The rank in the default group of a process of a group."""
    ranks = resolve(group)._ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_node_local_rank(fallback_rank=None):
    """The rank of this process on its machine, from LOCAL_RANK.

    >>> torch.distributed.get_node_local_rank(fallback_rank=0)
    0
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, "
        "assuming you are not running in a multi-device context and want the code to run locally instead."
    )


def get_pg_count():
    """The number of groups of this process.

    >>> torch.distributed.get_pg_count()
    0
    """
    return len(_world.groups)


def new_group(
    ranks=None,
    timeout=None,
    backend=None,
    pg_options=None,
    use_local_synchronization=False,
    group_desc=None,
    device_id=None,
    sort_ranks=True,
):
    """Makes a group of some ranks of the default group. All processes call it in the same order.

    Args:
        ranks: the ranks; None for all.
        timeout, backend: as for `init_process_group`; by default those of the default group.
        pg_options: a `ProcessGroupNCCL.Options` for communicators of `nccl`; no other backend has options.
        device_id: the GPU of this process; by default that of the default group.
        group_desc: a text about the group.
        use_local_synchronization: only the members call it.
        sort_ranks: whether ranks count in ascending order, not in the given one.

    Returns:
        the group, or `GroupMember.NON_GROUP_MEMBER` for a process that does not belong to it.
    """
    world = get_default_group()
    timeout = world._timeout if timeout is None else _check_timeout(timeout)
    device_id = _backends.check_device(device_id)
    config = world._config if backend is None else BackendConfig(backend)
    _backends.check(config, backend)
    _check_options(pg_options, config)
    chosen = list(range(world.size())) if ranks is None else sorted(ranks) if sort_ranks else list(ranks)
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"ranks list must not contain duplicate entries, got {chosen}")
    if len(chosen) > world.size():
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for one in chosen:
        if not 0 <= one < world.size():
            raise ValueError("the new group's rank should be within the world_size set by init_process_group")
    if use_local_synchronization:
        taken = sum(1 for one in _world.groups.values() if one._ranks == chosen)
        name = hashlib.sha1(f"{chosen} {taken}".encode(), usedforsecurity=False).hexdigest()
    else:
        name = str(_world.made)
        _world.made += 1
    if world._rank not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    own = world._backend if backend is None else Backend(backend)
    description = "undefined" if group_desc is None else group_desc
    device = world.bound_device_id if device_id is None else device_id
    return _begin(world._root_store, chosen, world._rank, timeout, config, own, name, description, device, pg_options)


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Cuts the default group into groups of consecutive ranks. Returns this process's group and the list of all.

    Without `group_size`, a group has as many ranks as the machine has GPUs.

    Raises:
        ValueError: the groups would not have one size, or there is no GPU that tells it.
    """
    world = get_world_size()
    if group_size is None and torch.cuda.device_count():
        group_size = torch.cuda.device_count()
    if group_size is None:
        raise ValueError("Default group size only takes effect when CUDA is available. Pass `group_size`.")
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if world < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({world})")
    if world % group_size != 0:
        raise ValueError(f"The world size ({world}) must be divisible by 'group_size={group_size}'")
    ranks = [list(range(first, first + group_size)) for first in range(0, world, group_size)]
    return new_subgroups_by_enumeration(ranks, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Makes groups of the given ranks. Returns this process's group (None if it has none) and the list of all."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: dict[int, int] = {}
    for number, ranks in enumerate(ranks_per_subgroup_list):
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {seen[rank]} and {ranks}")
            seen[rank] = number
    own, groups = None, []
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(made)
        if get_rank() in ranks:
            own = made
    return own, groups


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, backend=None):
    """Makes groups of the ranks in `split_ranks`, lists of ranks of the parent. Returns this process's group, or None.

    Raises:
        ValueError: `split_ranks` is missing or has a rank twice.
    """
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    parent = resolve(parent_pg)
    ranks = [[parent._ranks[rank] for rank in part] for part in split_ranks]
    own, _ = new_subgroups_by_enumeration(ranks, timeout, backend, pg_options, group_desc)
    return own


def set_timeout(timeout, group=None):
    """Sets how long each call of a group may take."""
    resolve(group)._timeout = _check_timeout(timeout)


__all__ = [
    "GroupMember",
    "ProcessGroup",
    "Store",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_initialized",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
]
set_module("rushlight.distributed", ProcessGroup, GroupMember, group)
