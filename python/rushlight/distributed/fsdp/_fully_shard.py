"""`fully_shard`: a module whose parameters, gradients and optimizer states are spread over ranks (Zhao and others 2023)."""

import functools
import warnings
from dataclasses import dataclass

import rushlight as torch
from rushlight._set_module import set_module
from rushlight.distributed._functional_collectives import _group
from rushlight.distributed._groups import get_default_group, get_process_group_ranks
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.tensor import DTensor, Shard

from ._comm import AllGather, ReduceScatter
from ._rows import Rows
from ._unit import Unit, device_of, move, owned

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of a unit.

    Args:
        param_dtype: that of the whole parameters, and so of forward and backward; by default that of the rows.
        reduce_dtype: that in which gradients are averaged; by default that of the gradients.
        output_dtype: that of the outputs of forward.
        cast_forward_inputs: whether inputs of forward get `param_dtype`.

    >>> torch.distributed.fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16).param_dtype
    torch.bfloat16
    """

    param_dtype: torch.dtype | None = None
    reduce_dtype: torch.dtype | None = None
    output_dtype: torch.dtype | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Rows stay where they are.

    >>> torch.distributed.fsdp.OffloadPolicy()
    OffloadPolicy()
    """


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Rows, their gradients and so the states of the optimizer are on the CPU, while the module runs on a GPU.

    Args:
        pin_memory: whether the rows are in page-locked memory, if there is a GPU.

    >>> torch.distributed.fsdp.CPUOffloadPolicy()
    CPUOffloadPolicy(pin_memory=True)
    """

    pin_memory: bool = True


class UnshardHandle:
    """What `FSDPModule.unshard(async_op=True)` returns. The parameters are there already."""

    def wait(self):
        """Returns at once."""


class FSDPModule:
    """The class of modules that `fully_shard` has changed, besides their own."""

    _fsdp_unit: Unit

    def __new__(cls, *args, **kwargs):
        """Makes a module of the original class."""
        return cls.__mro__[2](*args, **kwargs)

    def __deepcopy__(self, memo):
        raise AssertionError("FSDP does not support deepcopy. Please use state dict for serialization.")

    def _apply(self, *args, **kwargs):
        # What converts the module finds this rank's rows.
        self.reshard()
        return super()._apply(*args, **kwargs)

    def unshard(self, async_op=False):
        """Gathers the whole parameters."""
        self._fsdp_unit.unshard()
        return UnshardHandle() if async_op else None

    def reshard(self):
        """Gives back the memory of the whole parameters."""
        self._fsdp_unit.reshard()

    def _set(self, name, value, recurse):
        for module in self.modules() if recurse else [self]:
            if isinstance(module, FSDPModule):
                setattr(module._fsdp_unit, name, value)

    def set_requires_gradient_sync(self, requires_gradient_sync, *, recurse=True):
        """Whether backward averages gradients. Otherwise they are added up, whole, on each rank."""
        self._set("syncs", requires_gradient_sync, recurse)

    def set_requires_all_reduce(self, requires_all_reduce, *, recurse=True):
        """Whether gradients are averaged over the first dimension of a mesh of two."""
        self._set("reduces_copies", requires_all_reduce, recurse)

    def set_reshard_after_forward(self, reshard_after_forward, recurse=True):
        """Whether forward gives the whole parameters back; backward gathers them again."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}")
        self._set("reshards_after_forward", reshard_after_forward, recurse)
        self._set("smaller", None, recurse)

    def set_reshard_after_backward(self, reshard_after_backward, *, recurse=True):
        """Whether backward gives the whole parameters back."""
        self._set("reshards_after_backward", reshard_after_backward, recurse)

    def set_gradient_divide_factor(self, factor):
        """Divides sums of gradients by a number, in place of that of the ranks."""
        self._set("divide_by", factor, False)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_force_sum_reduction_for_comms(self, enable):
        """Whether ranks exchange sums alone, which are divided afterwards."""
        self._set("only_sums", enable, False)

    def set_all_reduce_hook(self, hook, *, stream=None):
        """Calls a function with the flat averages of this rank's gradients, which it may change.

        Args:
            hook: the function.
            stream: accepted; the function runs on the current stream.
        """
        self._set("after_reduction", hook, False)

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params, *, recurse=True):
        """Whether parameters without a gradient on any rank get zeros, also if that is so for the whole unit on some ranks.

        Backward must reach the unit on every rank: one that backward does not enter reduces nothing, and the others then raise.
        """
        self._set("counts_unused", reduce_scatter_unused_params, recurse)

    def reset_iter_state(self):
        """Forgets what an error in forward or backward has left: whole parameters and gradients that were not averaged.

        Raises:
            RuntimeError: the module is inside of another one.
        """
        if not self._fsdp_unit.is_outermost:
            raise RuntimeError("reset_iter_state must be called on the root FSDP module")
        for module in self.modules():
            if isinstance(module, FSDPModule):
                module._fsdp_unit.abandon()

    def set_post_optim_event(self, event):
        """Accepted; parameters are gathered on the current stream, after the optimizer's step."""

    def set_custom_all_gather(self, comm):
        """Gathers the parameters of this unit by a function of the program.

        Args:
            comm: an object with ``allocate(size, *, dtype, device)``, which makes the flat output, and
                ``__call__(output_tensor, input_tensor, group, async_op)``. The input is this rank's shard of the output.
        """
        self._set("all_gather", comm, False)

    def set_custom_reduce_scatter(self, comm):
        """Adds up the gradients of this unit by a function of the program.

        Args:
            comm: an object with ``allocate(size, *, dtype, device)``, which makes the flat input and output, and
                ``__call__(output_tensor, input_tensor, group, op, async_op)``.
        """
        self._set("reduce_scatter", comm, False)

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers, *, recurse=True):
        """Accepted; a reduction is in order with what follows, so one buffer is enough.

        Raises:
            TypeError: it is no int.
            ValueError: it is less than one.
        """
        if not isinstance(max_input_buffers, int) or isinstance(max_input_buffers, bool):
            raise TypeError(f"max_input_buffers must be an int, got {type(max_input_buffers).__name__}")
        if max_input_buffers < 1:
            raise ValueError(f"max_input_buffers must be a positive int, got {max_input_buffers}")

    def set_separate_reduce_scatter_group(self, enable=True, *, recurse=True):
        """Accepted; gathers and reductions are in order with the current stream, so a second group gains nothing."""

    def set_allocate_memory_from_process_group_for_comm(self, enable):
        """Accepted; memory comes from the usual pool.

        Raises:
            AssertionError: the program gathers parameters or adds up gradients of this unit itself.
        """
        self._expect_own_calls("set_allocate_memory_from_process_group")

    def set_symm_mem_for_comm(self, backend="NCCL"):
        """Accepted; memory comes from the usual pool, not from one that is registered with NCCL.

        Raises:
            RuntimeError: there is no such backend.
            AssertionError: the program gathers parameters or adds up gradients of this unit itself.
        """
        if backend != "NCCL":
            raise RuntimeError(f"SymmetricMemory does not find allocation backend {backend}\n  The only one is NCCL.")
        self._expect_own_calls("set_symm_mem")

    def _expect_own_calls(self, setter):
        unit = self._fsdp_unit
        for name, comm, own in (
            ("all gather", unit.all_gather, AllGather),
            ("reduce scatter", unit.reduce_scatter, ReduceScatter),
        ):
            if not isinstance(comm, own):
                raise AssertionError(f"cannot call {setter}() when {name} comm is custom: {type(comm).__name__}")

    def set_unshard_in_backward(self, unshard_in_backward):
        """Whether backward gathers the whole parameters."""
        self._set("unshards_in_backward", unshard_in_backward, False)

    def set_is_last_backward(self, is_last_backward):
        """Accepted; each backward pass ends by itself."""

    def set_modules_to_forward_prefetch(self, modules):
        """Accepted; parameters are gathered when they are needed."""
        _expect_sharded(modules)

    def set_modules_to_backward_prefetch(self, modules):
        """Accepted; parameters are gathered when they are needed."""
        _expect_sharded(modules)


def share_comm_ctx(modules):
    """Lets modules share streams for their communication. They do so anyway: all of it is in order with the current stream.

    Args:
        modules: a list of modules of `fully_shard`.

    Raises:
        ValueError: a module is another one.

    >>> torch.distributed.fsdp.share_comm_ctx([])
    """
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects list of FSDPModules but got {module}")


def _expect_sharded(modules):
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(module)}: {module}")


def fully_shard(
    module,
    *,
    mesh=None,
    reshard_after_forward=None,
    shard_placement_fn=None,
    mp_policy=MixedPrecisionPolicy(),  # it cannot change
    offload_policy=OffloadPolicy(),
    ignored_params=None,
):
    """Spreads the parameters of a module over the ranks of a mesh.

    Call it for the layers of a model and then for the model. Each call makes a unit of the parameters that belong to none yet: they
    are gathered when the module's forward and backward begin, and their memory is given back. The parameters become `DTensor`s of
    this rank's rows; an optimizer made afterwards steps on them.

    Args:
        module: the module, which is changed. Its class gets `FSDPModule` as a base. A list of modules is one unit.
        mesh: of one dimension, or of two with names: copies, and ranks that share a copy. By default all ranks share one. The
            module is moved to its devices, by default GPUs if there are some.
        reshard_after_forward: give back the memory after forward; by default True for all modules but the outermost. With a
            number that divides that of the ranks, parameters are sharded among so many neighbouring ranks between forward and
            backward, which then gathers from them alone: more memory, and no messages to other machines. 1 means False.
        shard_placement_fn: returns ``Shard(dim)`` for a parameter that is cut along another dimension than the first, or None. The
            ranks must divide its size.
        mp_policy: a `MixedPrecisionPolicy`.
        offload_policy: `CPUOffloadPolicy` keeps rows on the CPU.
        ignored_params: a set of parameters that stay as they are.

    Returns:
        the module.

    Raises:
        ValueError: the module is a container without forward, a parameter is a scalar, or an option has no such value.
        AssertionError: the module was given before, or a mesh of two dimensions has no names.
        IndexError: the list is empty.
        NotImplementedError: a size that the ranks do not divide; in forward, a number in `reshard_after_forward` for a `DTensor`.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = dist.fsdp.fully_shard(torch.nn.Linear(2, 3))
    >>> model.weight.placements, model(torch.ones(1, 2)).shape
    ((Shard(dim=0),), torch.Size([1, 3]))
    >>> dist.destroy_process_group()
    """
    modules = [module] if isinstance(module, torch.nn.Module) else list(module)
    if not modules:
        raise IndexError("tuple index out of range")
    for one in modules:
        if isinstance(one, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            raise ValueError(f"fully_shard does not support containers that do not implement forward: {one}")
        if isinstance(one, FSDPModule):
            raise AssertionError(
                "Each distinct composable distributed API can only be applied to a module once. fully_shard has already "
                f"been applied to the following module:\n{one}"
            )
    if mesh is None:
        mesh = init_device_mesh("cuda" if torch.cuda.is_available() else "cpu", (get_default_group().size(),))
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.ndim == 2 and mesh.mesh_dim_names is None:
        raise AssertionError("Please init the 2D mesh for HSDP with mesh_dim_names specified")
    reshards, smaller = _reshards(reshard_after_forward, mesh)
    found = owned(modules, set(ignored_params or ()))
    dims = [_dimension(parameter, places[0][1], mesh, shard_placement_fn) for parameter, places in found.items()]
    device = device_of(mesh)
    move([*found, *(buffer for one in modules for buffer in one.buffers())], device)
    offloads = isinstance(offload_policy, CPUOffloadPolicy)
    pinned = offloads and offload_policy.pin_memory and device.type == "cuda"
    pieces = [
        Rows(parameter, places, mesh, mp_policy.param_dtype, dim, device, offloads, pinned)
        for (parameter, places), dim in zip(found.items(), dims)
    ]
    copies = mesh.get_group(0) if mesh.ndim == 2 else None
    unit = Unit(modules, mesh.get_group(mesh.ndim - 1), copies, mp_policy, reshards, pieces, device, smaller)
    for one in modules:
        one.register_state_dict_pre_hook(lambda *_: unit.reshard())
        one.register_load_state_dict_pre_hook(lambda *_: unit.reshard())
        kind = type(one)
        one.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})
    return module


def _reshards(wanted, mesh):
    """Whether forward gives back whole parameters, None if that depends on the place of the module; and a mesh, or None.

    The mesh has a line for each group of ranks among which parameters are sharded between forward and backward.
    """
    if wanted is None or isinstance(wanted, bool):
        return wanted, None
    line = mesh.get_group(mesh.ndim - 1)
    ranks = line.size()
    if not isinstance(wanted, int):
        raise ValueError(
            f"reshard_after_forward should be a bool or an int representing the group size to reshard to, not {wanted}"
        )
    if not 1 <= wanted <= ranks or ranks % wanted != 0:
        raise ValueError(f"If passing reshard_after_forward as an int, it should be a factor of {ranks}, not {wanted}")
    if wanted == 1:
        warnings.warn(
            "reshard_after_forward=1 (int) means resharding parameters to world size 1, instead of "
            "reshard_after_forward=True (bool)",
            stacklevel=3,
        )
    if wanted in (1, ranks):
        return wanted > 1, None
    grid = torch.tensor(get_process_group_ranks(line)).view(-1, wanted)
    groups = [_group(grid.T.tolist()), _group(grid.tolist())]
    return True, DeviceMesh.from_group(groups, mesh.device_type, grid)


def _dimension(parameter, name, mesh, placement_of):
    """The dimension along which a parameter is cut."""
    if parameter.dim() == 0:
        raise ValueError(
            f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal to 1."
        )
    placement = placement_of(parameter) if placement_of is not None else None
    if placement is None:
        return 0
    if not isinstance(placement, Shard):
        raise ValueError(f"Invalid shard_placement_fn result: {placement}")
    dim = placement.dim + parameter.dim() if placement.dim < 0 else placement.dim
    shape = (parameter.to_local() if isinstance(parameter, DTensor) else parameter).shape
    if not 0 <= dim < len(shape):
        raise AssertionError(f"Shard dim {dim} is invalid for {len(shape)}D tensor: {parameter.shape}")
    ranks = mesh.size(mesh.ndim - 1)
    if dim > 0 and shape[dim] % ranks != 0:
        raise NotImplementedError(f"FSDP does not support uneven sharding on dim {dim}: {shape} (world size: {ranks})")
    return dim


def register_fsdp_forward_method(module, method_name):
    """Lets a method of a module gather the parameters, as forward does. Other modules are left alone.

    Args:
        module: the module.
        method_name: the name of the method.

    Raises:
        ValueError: there is no such method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method, unit = getattr(module, method_name), module._fsdp_unit

    @functools.wraps(method)
    def wrapper(*args, **kwargs):
        args, kwargs = unit.before_forward(module, args, kwargs)
        return unit.after_forward(module, args, method(*args, **kwargs))

    setattr(module, method_name, wrapper)


set_module("rushlight.distributed.fsdp", *(globals()[name] for name in __all__))
