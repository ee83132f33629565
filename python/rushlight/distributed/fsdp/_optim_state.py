"""States of optimizers of flat parameters, under the names of the original ones."""

import copy
import enum

import rushlight as torch
from rushlight._set_module import set_module
from rushlight.distributed import _groups
from rushlight.distributed._objects import all_gather_object, broadcast_object_list
from rushlight.distributed.tensor import DTensor
from rushlight.utils._pytree import tree_map

from ._flat import PREFIX, FlatUnit


class OptimStateKeyType(enum.Enum):
    """Whether the states of an optimizer have the names of parameters, or their numbers.

    >>> torch.distributed.fsdp.OptimStateKeyType.PARAM_NAME.name
    'PARAM_NAME'
    """

    PARAM_NAME = enum.auto()
    PARAM_ID = enum.auto()


set_module("rushlight.distributed.fsdp", OptimStateKeyType)


def _units(model):
    """The instances in a model that have parameters, and the prefix of their parameters' names."""
    for path, module in model.named_modules():
        unit = module.__dict__.get("_fsdp_unit")
        if isinstance(unit, FlatUnit) and unit.pieces:
            path = (f"{path}." if path else "").replace(PREFIX, "")
            yield module, path, unit.pieces[0]


def _names_of(model):
    """The names of the parameters that an optimizer has: several for a flat one."""
    names = {
        parameter: [name.replace(PREFIX, "")] for name, parameter in model.named_parameters(remove_duplicate=False)
    }
    for _, path, piece in _units(model):
        every = [path + name for name in piece.names]
        if piece.keeps:
            names.update({parameter: [name] for parameter, name in zip(piece.originals, every)})
        else:
            names[piece.own] = every
    return names


def _is_sharded(value):
    return isinstance(value, torch.Tensor) and value.dim() > 0


def saved(model, optim, state_dict, full, rank0_only, offloads):
    """The state of an optimizer under the names of parameters.

    Args:
        model: the module.
        optim: the optimizer.
        state_dict: its state, or None.
        full: whole states; otherwise rows of them, as `DTensor`s.
        rank0_only: only rank 0 returns it.
        offloads: tensors are on the CPU.
    """
    given = optim.state_dict() if state_dict is None else state_dict
    names, order = _names_of(model), [parameter for group in optim.param_groups for parameter in group["params"]]
    states = {parameter: given["state"].get(number, {}) for number, parameter in enumerate(order)}
    known = set(order)
    state = {}
    for module, path, piece in _units(model):
        if not any(parameter in known for parameter in piece.parameters()):
            continue
        own = [states.get(parameter, {}) for parameter in piece.parameters()]
        for number, name in enumerate(piece.names):
            found = own[number if piece.keeps else 0]
            state[path + name] = {key: copy.deepcopy(value) for key, value in found.items() if not _is_sharded(value)}
        for key, value in _sharded(module, piece, own):
            for number, name in enumerate(piece.names):
                if number in value[0]:
                    view = value[1][number].clone()
                    rows = full or module._fsdp_unit.group is None
                    state[path + name][key] = view if rows else module._rows(view)
        # Ranks without elements of a parameter have no state of it.
        if piece.keeps:
            _fill(module, [state[path + name] for name in piece.names])
        for name in piece.names:
            if not state[path + name]:
                del state[path + name]
    for parameter in order:
        if (name := names[parameter])[0] not in state and len(name) == 1 and states[parameter]:
            if not getattr(parameter, "_fsdp", False):
                state[name[0]] = states[parameter]
    groups = []
    for group in given["param_groups"]:
        members = [name for number in group["params"] for name in names[order[number]]]
        groups.append({**group, "params": members})
    if rank0_only and _groups.get_rank() != 0:
        return {}
    if offloads:
        state = tree_map(lambda value: value.cpu() if isinstance(value, torch.Tensor) else value, state)
    return {"state": state, "param_groups": groups}


def _sharded(module, piece, own):
    """The keys of states that are cut like the parameters, with the numbers of the parameters that have them and all values."""
    unit = module._fsdp_unit
    here = [
        {key: value.dtype for key, value in state.items() if _is_sharded(value) or (piece.keeps and _empty(value))}
        for state in own
    ]
    everyone = [here]
    if unit.group is not None:
        everyone = [None] * unit.size
        all_gather_object(everyone, here, unit.group)
    keys = dict.fromkeys(key for ranks in everyone for state in ranks for key in state)
    for key in keys:
        having = [any(key in ranks[number] for ranks in everyone) for number in range(len(own))]
        dtype = next(state[key] for ranks in everyone for state in ranks if key in state)
        if piece.keeps:
            values = [state.get(key) for state in own]
            flat = piece.flat_of(values.__getitem__, dtype)
            numbers = {number for number, has in enumerate(having) if has}
        else:
            flat, numbers = own[0][key].reshape(-1).to(piece.memory.device), set(range(len(piece.names)))
        yield key, (numbers, piece.views(unit.full(flat)))


def _empty(value):
    return isinstance(value, torch.Tensor) and value.numel() == 0


def _fill(module, states):
    """Numbers of states that only some ranks have, on all ranks."""
    unit = module._fsdp_unit
    if unit.group is None:
        return
    numbers = [
        {key: value for key, value in state.items() if not _is_sharded(value) and not isinstance(value, DTensor)}
        for state in states
    ]
    everyone = [None] * unit.size
    all_gather_object(everyone, numbers, unit.group)
    for ranks in reversed(everyone):
        for state, found in zip(states, ranks):
            for key, value in found.items():
                state[key] = value


def loadable(model, optim, state_dict, named, from_first):
    """What an optimizer loads, from the state that `saved` returned.

    Args:
        model: the module.
        optim: the optimizer, or None for one of all parameters.
        state_dict: the state.
        named: whether its own states have names in place of numbers.
        from_first: only rank 0 has the state.
    """
    if from_first:
        holder = [state_dict if _groups.get_rank() == 0 else None]
        broadcast_object_list(holder, 0)
        state_dict = holder[0]
    names = _names_of(model)
    pieces = {}
    for _, path, piece in _units(model):
        for number, parameter in enumerate(piece.parameters()):
            pieces[parameter] = piece, number, [path + name for name in piece.names]
    groups = [{"params": list(model.parameters())}] if optim is None else optim.param_groups
    order = [parameter for group in groups for parameter in group["params"]]
    given, state = state_dict["state"], {}
    for index, parameter in enumerate(order):
        found = pieces.get(parameter)
        if found is None:
            made = given.get(names[parameter][0], {})
        elif found[0].keeps:
            made = _elements_of(found[0], found[1], given.get(found[2][found[1]], {}))
        else:
            made = _flat_of(found[0], [given.get(name, {}) for name in found[2]])
        if made:
            state[names[parameter][0] if named else index] = made
    made_groups, at = [], 0
    saved_groups = {name: group for group in state_dict["param_groups"] for name in group["params"]}
    for group in groups:
        members = [names[parameter] for parameter in group["params"]]
        source = saved_groups.get(members[0][0], {}) if members else {}
        own = {key: value for key, value in group.items() if key != "params"}
        numbers = [name[0] for name in members] if named else list(range(at, at + len(members)))
        made_groups.append({**own, **source, "params": numbers})
        at += len(members)
    return {"state": state, "param_groups": made_groups}


def gathered(value):
    """All rows of a tensor that has some on each rank."""
    if not isinstance(value, DTensor):
        return value
    # Rows that were kept on the CPU go back to the devices of the ranks that have them.
    return value.to(value.device_mesh.device_type).full_tensor()


def _elements_of(piece, number, state):
    """The elements of one parameter's state that this rank has. Nothing if it has none."""
    elements = piece.interval(number)[1]
    made = {}
    for key, value in state.items():
        value = gathered(value)
        if _is_sharded(value):
            value = value.reshape(-1)[elements].clone() if piece.size > 1 else value
        made[key] = value
    return made if elements.stop > elements.start else {}


def _flat_of(piece, states):
    """The flat state of all parameters."""
    made = {}
    for key in dict.fromkeys(key for state in states for key in state):
        values = [gathered(state.get(key)) for state in states]
        tensors = [value for value in values if _is_sharded(value)]
        if tensors:
            dtype = tensors[0].dtype
            whole = [
                torch.zeros(shape, dtype=dtype) if value is None else value
                for value, shape in zip(values, piece.shapes)
            ]
            made[key] = piece.interval_of(whole, dtype)
        else:
            made[key] = next(value for value in values if value is not None)
    return made


def rekeyed(state_dict, kind, model, optim_input, optim):
    """A whole state with names in place of numbers, or numbers in place of names."""
    if optim is not None:
        order = [parameter for group in optim.param_groups for parameter in group["params"]]
    elif optim_input is not None:
        given = list(optim_input)
        order = [parameter for one in given for parameter in (one["params"] if isinstance(one, dict) else [one])]
    else:
        order = list(model.parameters())
    names = _names_of(model)
    numbers = {names[parameter][0]: number for number, parameter in enumerate(order)}
    if kind is OptimStateKeyType.PARAM_NAME:
        keys = {number: name for name, number in numbers.items()}
    elif kind is OptimStateKeyType.PARAM_ID:
        keys = numbers
    else:
        raise ValueError(f"Invalid `OptimStateKeyType`: {kind}")
    groups = [{**group, "params": sorted(keys[key] for key in group["params"])} for group in state_dict["param_groups"]]
    return {"state": {keys[key]: value for key, value in state_dict["state"].items()}, "param_groups": groups}
