"""Batches in parts: how arguments are cut into microbatches, and results joined."""

import operator

import rushlight as torch
from rushlight.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


def __dir__() -> list[str]:
    return __all__


#: The dimension of samples, if nothing else is said.
DEFAULT_CHUNK_DIM = 0


class TensorChunkSpec:
    """The dimension along which a tensor is cut.

    >>> TensorChunkSpec = torch.distributed.pipelining.microbatch.TensorChunkSpec
    >>> TensorChunkSpec.from_tuple((0, 1))
    (TensorChunkSpec(0), TensorChunkSpec(1))
    """

    def __init__(self, split_dim):
        self.split_dim = split_dim

    def __repr__(self):
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims):
        """A tuple of them, from a tuple of dimensions."""
        return tuple(TensorChunkSpec(dim) for dim in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims):
        """A dict of them, from a dict of dimensions."""
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


class _Replicate:
    """Every microbatch gets the whole value."""


class _CustomReducer:
    """The results of microbatches are combined by a function, from an initial value on."""

    def __init__(self, init_value, reduce_fn):
        self.init_value, self.reduce_fn = init_value, reduce_fn


sum_reducer = _CustomReducer(torch.tensor(0.0), operator.add)


def _default(value):
    return TensorChunkSpec(DEFAULT_CHUNK_DIM) if isinstance(value, torch.Tensor) else _Replicate()


def _specs(values, spec):
    """What to do with each leaf of a value: `spec` is None, or one for all of them, or has their structure."""
    leaves, structure = tree_flatten(values)
    if spec is None:
        return [_default(leaf) for leaf in leaves]
    given, given_structure = tree_flatten(spec)
    if isinstance(spec, (TensorChunkSpec, _Replicate, _CustomReducer)):
        return given * len(leaves)
    if given_structure != structure:
        raise ValueError(f"Chunk {values} did not match chunk spec {spec}")
    return given


def _cut(leaf, spec, chunks):
    if isinstance(leaf, torch.Tensor) and isinstance(spec, TensorChunkSpec):
        return list(torch.tensor_split(leaf, chunks, spec.split_dim))
    if isinstance(spec, TensorChunkSpec):
        raise ValueError(f"Unsupported chunk spec: {spec} and value: {leaf} combination.")
    return [leaf] * chunks


def _places(values, spec):
    """The leaves of a tuple or dict of arguments, how to cut each, and their structure."""
    leaves, structure = tree_flatten(values)
    if spec is None:
        return leaves, [_default(leaf) for leaf in leaves], structure
    if len(values) != len(spec):
        raise AssertionError(f"{len(values)} arguments, and a chunk spec for {len(spec)}")
    names = values if isinstance(values, dict) else range(len(values))
    return leaves, [one for name in names for one in _specs(values[name], spec[name])], structure


def split_args_kwargs_into_chunks(args, kwargs, chunks, args_chunk_spec=None, kwargs_chunk_spec=None):
    """Cuts arguments into microbatches.

    Tensors are cut along their first dimension, and other values are the same for all, unless a spec says otherwise.

    Args:
        args, kwargs: the arguments of a whole batch; `kwargs` may be None.
        chunks: the number of microbatches. There are fewer if a dimension is shorter.
        args_chunk_spec: a `TensorChunkSpec` for each positional argument.
        kwargs_chunk_spec: a dict of them.

    Returns:
        a list of positional arguments and a list of keyword arguments, one of each for a microbatch.

    Raises:
        ValueError: a spec of a tensor for something else.

    >>> split = torch.distributed.pipelining.microbatch.split_args_kwargs_into_chunks
    >>> split((torch.arange(4),), {"scale": 2}, 2)
    ([(tensor([0, 1]),), (tensor([2, 3]),)], [{'scale': 2}, {'scale': 2}])
    """
    parts = [_places(args, args_chunk_spec), _places(kwargs or {}, kwargs_chunk_spec)]
    sizes = [
        leaf.shape[spec.split_dim]
        for leaves, specs, _ in parts
        for leaf, spec in zip(leaves, specs)
        if isinstance(leaf, torch.Tensor) and isinstance(spec, TensorChunkSpec)
    ]
    chunks = min([chunks, *sizes])
    split = []
    for leaves, specs, structure in parts:
        cut = [_cut(leaf, spec, chunks) for leaf, spec in zip(leaves, specs)]
        split.append([tree_unflatten([pieces[number] for pieces in cut], structure) for number in range(chunks)])
    return split[0], split[1]


def merge_chunks(chunks, chunk_spec):
    """Joins the results of microbatches.

    Args:
        chunks: the results, which have one structure.
        chunk_spec: how, in the same structure; None joins tensors along their first dimension.

    Raises:
        ValueError: the structures differ.
        AssertionError: a value that is not a tensor differs between microbatches.

    >>> merge = torch.distributed.pipelining.microbatch.merge_chunks
    >>> merge([torch.zeros(2), torch.ones(1)], None)
    tensor([0., 0., 1.])
    """
    specs = _specs(chunks[0], chunk_spec)
    flat = [tree_flatten(chunk) for chunk in chunks]
    structure = flat[0][1]
    if any(other != structure for _, other in flat):
        raise ValueError(f"Chunk {chunks[0]} did not match chunk spec {chunk_spec}")
    merged = []
    for spec, values in zip(specs, zip(*(leaves for leaves, _ in flat))):
        if isinstance(spec, TensorChunkSpec):
            merged.append(torch.cat(values, spec.split_dim))
        elif isinstance(spec, _CustomReducer):
            total = spec.init_value
            for value in values:
                total = spec.reduce_fn(total, value)
            merged.append(total)
        else:
            differing = next((value for value in values if value is not values[0] and value != values[0]), None)
            if differing is not None:
                raise AssertionError(f"Expected {values[0]}, got {differing}")
            merged.append(values[0])
    return tree_unflatten(merged, structure)
