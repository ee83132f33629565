"""Copies of batches in page-locked memory, for any structure."""

import collections.abc

import rushlight as torch

from .collate import rebuild_mapping, rebuild_sequence


def pin_memory(data):
    """Pins every tensor in `data`. For objects with a method `pin_memory`, this method is called."""
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
