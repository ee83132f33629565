"""Collation: joins a list of samples into a batch.

`collate` handles mappings, named tuples, tuples and sequences, and looks up functions for other types in a table. Users
may pass their own table. NumPy is not imported here: its types are added to the table when the program has imported it.
"""

import collections.abc
import copy
import re
import sys

import rushlight as torch

#: The kinds of dtypes of arrays that do not become tensors: text, bytes and objects. Libraries import it.
np_str_obj_array_pattern = re.compile("[SaUO]")

#: The sentence about samples that cannot be joined. Libraries import it, too.
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def default_collate(batch):
    """Joins the samples of a batch. This is the default of `DataLoader`.

    Tensors, arrays and numbers become tensors with a new first dimension (int64 and float64 for Python's numbers).
    Strings become lists. Mappings, tuples and sequences keep their structure: samples that are tuples of fields become
    a list of batches.

    Raises:
        RuntimeError: sequences have different lengths, or tensors have different shapes.
        TypeError: the type of a sample is not supported.

    >>> torch.utils.data.default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    >>> torch.utils.data.default_collate([{"x": torch.zeros(3)}, {"x": torch.ones(3)}])["x"].shape
    torch.Size([2, 3])
    """
    return collate(batch, collate_fn_map=_function_map())


def collate(batch, *, collate_fn_map=None):
    """`default_collate` with a table from type (or tuple of types) to `function(batch, *, collate_fn_map)`."""
    element = batch[0]
    kind = type(element)
    function = _function_for(kind, collate_fn_map)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(element, collections.abc.Mapping):
        values = {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in element}
        return rebuild_mapping(element, values)
    if isinstance(element, tuple) and hasattr(element, "_fields"):
        return kind(*(collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)))
    if isinstance(element, collections.abc.Sequence):
        if any(len(sample) != len(element) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]
        # Tuples become lists, as in torch.
        return columns if isinstance(element, tuple) else rebuild_sequence(element, columns)
    raise TypeError(default_collate_err_msg_format.format(kind))


def default_convert(data):
    """Converts arrays inside a sample to tensors and leaves other values unchanged (for loading without batches).

    >>> import numpy
    >>> torch.utils.data.default_convert({"x": numpy.zeros(2, "float32"), "name": "a"})
    {'x': tensor([0., 0.]), 'name': 'a'}
    """
    if isinstance(data, torch.Tensor) or isinstance(data, (str, bytes)):
        return data
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(data, (numpy.ndarray, numpy.generic)):
        return data if data.dtype.kind in "SUO" else torch.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return rebuild_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, collections.abc.Sequence):
        return rebuild_sequence(data, [default_convert(value) for value in data])
    return data


def rebuild_mapping(original, values):
    """A mapping of the original's class, or a dict if the class cannot be copied and filled."""
    try:
        if isinstance(original, collections.abc.MutableMapping):
            clone = copy.copy(original)
            clone.update(values)
            return clone
        return type(original)(values)
    except TypeError:
        return values


def rebuild_sequence(original, values):
    """A sequence of the original's class, or a list if the class cannot be copied and filled."""
    try:
        if isinstance(original, collections.abc.MutableSequence):
            clone = copy.copy(original)
            for place, value in enumerate(values):
                clone[place] = value
            return clone
        return values if isinstance(original, range) else type(original)(values)
    except TypeError:
        return values


def _function_for(kind, table):
    if table is None:
        return None
    if kind in table:
        return table[kind]
    for key, function in table.items():
        if issubclass(kind, key):
            return function
    return None


def collate_tensor_fn(batch, *, collate_fn_map=None):
    return torch.stack(batch, 0)


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    if batch[0].dtype.kind in "SUO":
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([torch.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    return torch.as_tensor(batch)


def collate_float_fn(batch, *, collate_fn_map=None):
    return torch.tensor(batch, dtype=torch.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    return torch.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    return batch


default_collate_fn_map = {
    torch.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _function_map():
    numpy = sys.modules.get("numpy")
    if numpy is not None and numpy.ndarray not in default_collate_fn_map:
        default_collate_fn_map[numpy.ndarray] = collate_numpy_array_fn
        default_collate_fn_map[(numpy.bool_, numpy.number, numpy.object_)] = collate_numpy_scalar_fn
    return default_collate_fn_map
