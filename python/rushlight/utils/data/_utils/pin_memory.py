"""Page-locked copies of a batch, whatever its structure."""

import collections.abc

import rushlight as torch

from .collate import rebuild_mapping, rebuild_sequence


def pin_memory(data):
    """`data` with every tensor in page-locked memory; objects with a `pin_memory` method pin themselves."""
    if isinstance(data, torch.Tensor):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, collections.abc.Mapping):
        return rebuild_mapping(data, {key: pin_memory(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value) for value in data))
    if isinstance(data, tuple):
        return [pin_memory(value) for value in data]
    if isinstance(data, collections.abc.Sequence):
        return rebuild_sequence(data, [pin_memory(value) for value in data])
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    return data
