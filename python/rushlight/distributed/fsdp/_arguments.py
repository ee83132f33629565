"""What the arguments of `FullyShardedDataParallel` mean, and what it does to a module before it cuts its parameters."""

import os
import warnings

import rushlight as torch
from rushlight.distributed import _collectives
from rushlight.distributed._groups import ProcessGroup, get_default_group
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.nn import Module, Parameter

from ._flat import PREFIX, FlatUnit
from ._unit import move, owned
from .api import CONFIGS, ShardingStrategy, StateDictSettings

#: The strategies with copies of shards.
HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


def is_wrapper(module):
    """Whether a module is a `FullyShardedDataParallel`."""
    return isinstance(vars(module).get("_fsdp_unit"), FlatUnit)


def settings_of(kind, config=None, optim_config=None):
    """The settings of a kind of states, with its default options where none are given."""
    kinds = CONFIGS[kind]
    config, optim_config = config or kinds[0](), optim_config or kinds[1]()
    for name, given, wanted in (
        ("state_dict_config", config, kinds[0]),
        ("optim_state_dict_config", optim_config, kinds[1]),
    ):
        if type(given) is not wanted:
            raise RuntimeError(f"Expected {name} of type {wanted} but got {type(given)}")
    return StateDictSettings(kind, config, optim_config)


def ignored_of(module, modules, states):
    """The modules and parameters to leave alone."""
    if modules is not None and states is not None:
        raise ValueError(
            "Cannot pass both ignored_modules and ignored_states at the same time. Please just pass ignored_states."
        )
    given, name, kinds = list(modules or states or ()), "ignored_modules" if states is None else "ignored_states", []
    if given and all(isinstance(one, Parameter) for one in given) and states is not None:
        return set(), set(given)
    if any(not isinstance(one, Module) for one in given):
        kinds = list(dict.fromkeys(type(one) for one in given))
        expected = "nn.Module list elements" if states is None else "all nn.Parameter or all nn.Module list elements"
        raise ValueError(f"{name} expects {expected} but got types {kinds}")
    if any(is_wrapper(one) for one in given):
        raise ValueError("`ignored_modules` should not include FSDP modules")
    skipped = {inner for one in given for inner in one.modules() if not is_wrapper(inner)}
    if module in skipped:
        warnings.warn(
            "Trying to ignore the top-level module passed into the FSDP constructor itself will result in all parameters being "
            f"ignored and is not well-supported: {module}",
            stacklevel=3,
        )
    return skipped, {
        parameter
        for inner in skipped
        for parameter in inner._parameters.values()
        if parameter is not None and not getattr(parameter, "_fsdp", False)
    }


def ranks_of(group, strategy, policy, mesh):
    """The ranks that share the parameters, and those with copies of a shard, or None."""
    if group is not None and mesh is not None:
        raise ValueError(
            "Cannot pass both process_group and device_mesh at the same time. Please just pass only one of them."
        )
    if strategy not in HYBRID:
        if mesh is not None:
            return mesh.get_group(0), None
        return group if group is not None else get_default_group(), None
    if mesh is not None:
        if mesh.ndim != 2:
            raise ValueError(f"Expected device_mesh to have ndim=2 but got {mesh.ndim}")
        return mesh.get_group(1), mesh.get_group(0)
    if group is not None:
        if not (isinstance(group, tuple) and len(group) == 2 and all(isinstance(one, ProcessGroup) for one in group)):
            raise ValueError(
                "Expected process_group to be passed in as either None or Tuple[dist.ProcessGroup, dist.ProcessGroup] but "
                f"got {type(group)}"
            )
        return group
    if policy is None:
        raise ValueError(
            f"Manual wrapping with {strategy} requires explicit specification of process group or device_mesh."
        )
    size = get_default_group().size()
    here = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    made = DeviceMesh(
        get_default_group()._object_device().type, torch.arange(size).view(-1, here if size % here == 0 else size)
    )
    return made.get_group(1), made.get_group(0)


def check_alike(found, use_orig_params):
    """Parameters of one unit have one dtype and, without `use_orig_params`, need gradients or not."""
    dtypes, trained = dict.fromkeys(one.dtype for one in found), {one.requires_grad for one in found}
    if len(dtypes) > 1:
        first, second = list(dtypes)[:2]
        raise ValueError(f"Must flatten tensors with uniform dtype but got {first} and {second}")
    if any(not dtype.is_floating_point for dtype in dtypes):
        raise ValueError("Cannot flatten integer dtype tensors")
    if len(trained) > 1 and not use_orig_params:
        raise ValueError("Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`")


def names_of(module):
    """The names of parameters by their places, without those of wrappers."""
    return {
        (inner, own): f"{path}.{own}".replace(PREFIX, "") if path else own
        for path, inner in module.named_modules()
        for own in inner._parameters
    }


def own_buffers(module):
    """The buffers of a module that are in no instance inside of it."""
    todo = [module]
    while todo:
        inner = todo.pop()
        yield from ((inner, name, buffer) for name, buffer in inner._buffers.items() if buffer is not None)
        todo += [child for child in inner.children() if not is_wrapper(child)]


def device_of(device_id):
    """The device that the caller names, or None."""
    device = None if device_id is None else torch.device(device_id)
    if device is not None and device.type == "cuda" and device.index is None:
        warnings.warn(
            f"FSDP got the argument `device_id` {device_id} on rank {get_default_group().rank()}, which does not have an "
            f"explicit index. FSDP will use the current device {torch.cuda.current_device()}. If this is incorrect, please "
            "explicitly call `torch.cuda.set_device()` before FSDP initialization or pass in the explicit device index as "
            "the `device_id` argument.",
            stacklevel=3,
        )
        return torch.device("cuda", torch.cuda.current_device())
    return device


def materialise(module, param_init_fn, device, ignored):
    """Gives memory and values to modules on the device ``meta``, and moves the others to a device, unless that is None."""
    for inner in module.modules():
        tensors = [*inner._parameters.values(), *inner._buffers.values()]
        if not any(tensor is not None and tensor.is_meta for tensor in tensors):
            continue
        if param_init_fn is not None:
            param_init_fn(inner)
            continue
        inner.to_empty(device=device or "cpu", recurse=False)
        try:
            inner.reset_parameters()
        except BaseException as error:
            warnings.warn(
                f"Unable to call `reset_parameters()` for module on meta device with error {error}. Please ensure that your "
                f"module of type {type(inner)} implements a `reset_parameters()` method.",
                stacklevel=3,
            )
            raise
    if device is not None:
        move([*owned([module], ignored), *module.buffers()], device)


def synchronise(module, ignored, group, copies):
    """Copies parameters and buffers of the first rank to the others."""
    tensors = list(owned([module], ignored))
    tensors += [buffer for _, _, buffer in own_buffers(module)]
    for ranks in filter(None, (copies, group)):
        for tensor in tensors:
            _collectives.broadcast(tensor.detach(), group=ranks, group_src=0)
