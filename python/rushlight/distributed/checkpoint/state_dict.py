"""States of models and optimizers under the names of parameters, whatever wraps the model."""

import contextlib
from dataclasses import dataclass

import rushlight as torch
from rushlight.distributed import _groups
from rushlight.distributed.fsdp import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    StateDictType,
)
from rushlight.distributed.fsdp._flat import PREFIX
from rushlight.distributed.tensor import DTensor, distribute_tensor
from rushlight.nn.parallel import DataParallel, DistributedDataParallel
from rushlight.optim import Optimizer

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

#: What states consist of, for annotations of programs.
PrimitiveType = DTensor | torch.Tensor | int | float | str
ValueType = PrimitiveType | list[PrimitiveType] | tuple[PrimitiveType] | dict[str, "ValueType"]
DictValueType = dict[str, ValueType]
ListDictValueType = list[DictValueType]
OptimizerStateType = dict[str, DictValueType | ListDictValueType]
FQNS_T = set[str]


def __dir__() -> list[str]:
    return __all__


@dataclass
class StateDictOptions:
    """What the functions of this module return and take.

    Args:
        full_state_dict: whole tensors in place of parts.
        cpu_offload: tensors are on the CPU. With `full_state_dict`, rank 0 alone gets the state, and the others an empty one.
        ignore_frozen_params: leave out parameters that need no gradient.
        keep_submodule_prefixes: whether names of chosen submodules begin with that of the submodule.
        strict: whether names must fit at loading.
        broadcast_from_rank0: with `full_state_dict`, rank 0 alone has the state, and gives it to the others.
        flatten_optimizer_state_dict: one dictionary of names such as ``state.layer.weight.exp_avg``.
        dsd_fqn_modifiers: accepted.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"

    def __post_init__(self):
        if self.broadcast_from_rank0 and not self.full_state_dict:
            raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")


def _clean(model):
    """The names of a model's parameters and buffers without those of wrappers, by their names in the model."""
    shortened = _shortening(model)
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)] + list(model.state_dict())
    return {name: shortened(name) for name in names}


def _shortening(model):
    """A function that takes the names of wrappers out of the name of a parameter, buffer or module."""
    wrappers = [
        f"{name}.module." if name else "module."
        for name, module in model.named_modules()
        if isinstance(module, (DistributedDataParallel, DataParallel))
    ]

    def shortened(name):
        short = name
        for prefix in sorted(wrappers, key=len, reverse=True):
            if name.startswith(prefix):
                short = prefix.removesuffix("module.") + short[len(prefix) :]
        return short.replace(PREFIX, "")

    return shortened


def _within(model, submodules, options):
    """A function that gives the name of a parameter in a state: None if it is outside of the chosen modules."""
    if not submodules:
        return lambda name: name
    shortened = _shortening(model)
    prefixes = [shortened(f"{name}.") for name, module in model.named_modules() if module in submodules]

    def within(name):
        for prefix in prefixes:
            if name.startswith(prefix):
                return name if options.keep_submodule_prefixes else name[len(prefix) :]
        return None

    return within


def _is_flat(model):
    return any(isinstance(module, FullyShardedDataParallel) for module in model.modules())


def _form(model, options):
    """Lets flat parameters have the states that the options ask for: whole, or rows."""
    if not _is_flat(model):
        return contextlib.nullcontext()
    if options.full_state_dict:
        kind, of_model, of_optimizer = StateDictType.FULL_STATE_DICT, FullStateDictConfig, FullOptimStateDictConfig
    else:
        kind, of_model, of_optimizer = (
            StateDictType.SHARDED_STATE_DICT,
            ShardedStateDictConfig,
            ShardedOptimStateDictConfig,
        )
    offload = options.cpu_offload
    return FullyShardedDataParallel.state_dict_type(model, kind, of_model(offload), of_optimizer(offload))


def _returned(value, options):
    """A value in the form that the options ask for."""
    if isinstance(value, torch.Tensor):
        if options.full_state_dict and isinstance(value, DTensor):
            value = value.full_tensor()
        return value.cpu() if options.cpu_offload and value.is_cuda else value
    if isinstance(value, dict):
        return {key: _returned(one, options) for key, one in value.items()}
    return value


def _offered(state, options):
    if options.full_state_dict and options.cpu_offload and _groups.is_initialized() and _groups.get_rank() != 0:
        return {}
    return state


def get_model_state_dict(model, *, submodules=None, options=None):
    """The state of a model, under names without wrappers.

    Args:
        model: the module.
        submodules: a set of modules, to return their state alone.
        options: a `StateDictOptions`.
    """
    options = options or StateDictOptions()
    with _form(model, options):
        names, own = _clean(model), model.state_dict()
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    within = _within(model, submodules, options)
    state = {
        within(short): _returned(value, options)
        for name, value in own.items()
        if within(short := names.get(name, name)) and not (options.ignore_frozen_params and name in frozen)
    }
    return _offered(state, options)


def _parameters(model):
    """The names of parameters without wrappers, in the order of the model."""
    names = _clean(model)
    return {parameter: names[name] for name, parameter in model.named_parameters()}


def _init_optim_state(optimizer):
    """Gives an optimizer its states, by a step that changes nothing."""
    if optimizer.state:
        return
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if any(parameter.grad is not None for parameter in parameters):
        return
    rates = [group.get("lr") for group in optimizer.param_groups]
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    for group, rate in zip(optimizer.param_groups, rates):
        if rate is not None:
            group["lr"] = torch.tensor(0.0) if isinstance(rate, torch.Tensor) else 0.0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates):
        if rate is not None:
            group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None):
    """The states of optimizers, under the names of the parameters.

    Args:
        model: the module whose parameters they have.
        optimizers: an optimizer or several.
        submodules: accepted; as in torch, the states of all parameters are returned.
        options: a `StateDictOptions`.
    """
    options = options or StateDictOptions()
    whole: dict = {"state": {}, "param_groups": []}
    for optimizer in _several(optimizers):
        _init_optim_state(optimizer)
        own = _named(model, optimizer, options)
        whole["state"].update(own["state"])
        whole["param_groups"] += own["param_groups"]
    return _offered(_flat(whole) if options.flatten_optimizer_state_dict else whole, options)


def _named(model, optimizer, options):
    """The state of an optimizer under the names of parameters."""
    if _is_flat(model):
        with _form(model, options):
            return FullyShardedDataParallel.optim_state_dict(model, optimizer)
    names, state = _parameters(model), optimizer.state_dict()
    order = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    return {
        "state": {order[number]: _returned(value, options) for number, value in state["state"].items()},
        "param_groups": [
            {**group, "params": [order[number] for number in group["params"]]} for group in state["param_groups"]
        ],
    }


def _several(optimizers):
    return (optimizers,) if isinstance(optimizers, Optimizer) else tuple(optimizers)


def _flat(state):
    flat = {f"state.{name}.{key}": one for name, value in state["state"].items() for key, one in value.items()}
    for group in state["param_groups"]:
        for name in group["params"]:
            flat.update({f"param_groups.{name}.{key}": one for key, one in group.items() if key != "params"})
    return flat


def get_state_dict(model, optimizers, *, submodules=None, options=None):
    """The states of a model and of optimizers: `get_model_state_dict` and `get_optimizer_state_dict`."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def _given(value, like, options):
    """A value of a state that is loaded, lying as the parameter or state that it replaces."""
    if not isinstance(value, torch.Tensor) or isinstance(value, DTensor) or value.dim() == 0:
        return value
    if isinstance(like, DTensor):
        source = 0 if options.broadcast_from_rank0 else None
        return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=source)
    return value


def _from_first(state, options):
    """The state of rank 0, on all ranks."""
    if not options.broadcast_from_rank0:
        return state
    from rushlight.distributed._objects import broadcast_object_list

    holder = [state if _groups.get_rank() == 0 else None]
    broadcast_object_list(holder, 0)
    return holder[0]


def set_model_state_dict(model, model_state_dict, *, options=None):
    """Loads what `get_model_state_dict` returned.

    Args:
        model: the module.
        model_state_dict: the state.
        options: a `StateDictOptions`.

    Returns:
        the missing and unexpected names.
    """
    options = options or StateDictOptions()
    given = _from_first(model_state_dict, options)
    if _is_flat(model):
        with _form(model, options):
            return model.load_state_dict(given, strict=options.strict)
    own, names = model.state_dict(), _clean(model)
    long = {short: name for name, short in names.items()}
    state = {long.get(name, name): value for name, value in given.items()}
    state = {name: _given(value, own.get(name), options) for name, value in state.items()}
    # What has no memory yet cannot be copied into.
    without_memory = any(isinstance(value, torch.Tensor) and value.is_meta for value in own.values())
    return model.load_state_dict(state, strict=options.strict, assign=without_memory)


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    """Loads what `get_optimizer_state_dict` returned.

    Args:
        model: the module whose parameters they have.
        optimizers: an optimizer or several.
        optim_state_dict: the state.
        options: a `StateDictOptions`.
    """
    options, names = options or StateDictOptions(), _parameters(model)
    given = _from_first(optim_state_dict, options)
    for optimizer in _several(optimizers):
        _init_optim_state(optimizer)
        whole = given if "param_groups" in given else _nested(given, _named(model, optimizer, options))
        if _is_flat(model):
            with _form(model, options):
                optimizer.load_state_dict(FullyShardedDataParallel.optim_state_dict_to_load(model, optimizer, whole))
            continue
        own = optimizer.state_dict()
        order = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
        states = {}
        for number, name in enumerate(order):
            if name in whole["state"]:
                like = own["state"].get(number, {})
                states[number] = {
                    key: _given(value, like.get(key), options) for key, value in whole["state"][name].items()
                }
        by_first = {group["params"][0]: group for group in whole["param_groups"] if group["params"]}
        groups = []
        for group in own["param_groups"]:
            found = by_first.get(order[group["params"][0]]) if group["params"] else None
            groups.append({**group, **(found or {}), "params": group["params"]})
        optimizer.load_state_dict({"state": states, "param_groups": groups})


def _nested(flat, own):
    """A flat state with the nesting of an optimizer's own."""
    state = {
        name: {key: flat[f"state.{name}.{key}"] for key in value if f"state.{name}.{key}" in flat}
        for name, value in own["state"].items()
    }
    groups = [
        {
            key: flat.get(f"param_groups.{name}.{key}", value)
            for name in group["params"][:1]
            for key, value in group.items()
        }
        for group in own["param_groups"]
    ]
    return {"state": {name: value for name, value in state.items() if value}, "param_groups": groups}


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    """Loads the states of a model and of optimizers. Returns the missing and unexpected names of the model."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
