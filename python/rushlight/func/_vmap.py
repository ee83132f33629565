"""`vmap`: applies a function of one sample to a batch.

The function runs once. Inside it, a batched tensor holds all samples but has the shape of one. Every operator works on
the whole batch (`rust/dispatch/src/vmap`).
"""

from __future__ import annotations

from functools import wraps

import rushlight as torch
from rushlight._text import with_shapes
from rushlight.autograd._vmap_levels import Level
from rushlight.utils._pytree import tree_structure

from . import _tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Vectorises ``func`` over a dimension of its arguments.

    Args:
        func: a function of tensors (or containers of tensors) that returns tensors or containers of tensors.
        in_dims: the batch dimension of each argument: a number for all arguments, or numbers in the structure of the
            arguments; None for an argument without a batch dimension.
        out_dims: the batch dimension of the results; None for a result that is the same for all samples.
        randomness: random numbers are ``"different"`` for each sample, the ``"same"`` for all, or an ``"error"``.
        chunk_size: the number of samples that run at once; all by default. A smaller number needs less memory.

    Keyword arguments have no batch dimension. ``func`` must not branch on values; `torch.where` selects per sample.

    Raises:
        ValueError: the batch sizes differ, or ``in_dims`` does not match the arguments.
        RuntimeError: a random operator is called and ``randomness`` is "error"; a value is read (``item()``, ``if
            x:``); the size of a result depends on values; or a batched value is written into a tensor without a batch
            dimension.

    >>> torch.func.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
    tensor([2., 2., 2.])
    >>> torch.func.vmap(torch.func.grad(torch.sin))(torch.zeros(3))
    tensor([1., 1., 1.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    name = getattr(func, "__name__", repr(func))

    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        dims = _dims_of(name, in_dims, args)
        leaves, around = _tree.flatten(args, _hides)
        dims = _checked(name, in_dims, dims, leaves)
        size = _size(leaves, dims)
        if chunk_size is None or size <= chunk_size:
            return _joined([_run(func, name, leaves, dims, around, kwargs, out_dims, randomness, size)])
        before = torch.get_rng_state() if randomness == "same" else None
        parts = []
        for start in range(0, size, chunk_size):
            length = min(chunk_size, size - start)
            chunk = [x if dim is None else x.narrow(dim, start, length) for x, dim in zip(leaves, dims)]
            if before is not None:
                torch.set_rng_state(before)
            parts.append(_run(func, name, chunk, dims, around, kwargs, out_dims, randomness, length))
        return _joined(parts)

    return wrapper


def _hides(leaf: Any) -> bool:
    """Whether a collection hides a dimension of its tensors itself, by torch's private methods, such as a `TensorDict`."""
    kind = type(leaf)
    return hasattr(kind, "_add_batch_dim") and hasattr(kind, "_maybe_remove_batch_dim")


def _hidden(leaf: Any, dim: int, level: Level) -> Any:
    """A leaf as one sample."""
    return leaf._add_batch_dim(in_dim=dim, vmap_level=level.number) if _hides(leaf) else level.hide(leaf, dim)


def _dims_of(name: str, in_dims: Any, args: tuple[Any, ...]) -> list[Any]:
    head = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{head}expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function "
            "with no inputs. The latter is unsupported."
        )
    dims = _tree.spread(in_dims, args, _hides)
    if dims is None:
        raise ValueError(
            f"{head}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_structure(in_dims)} but inputs has structure {tree_structure(args)}."
        )
    return dims


def _checked(name: str, in_dims: Any, dims: list[Any], leaves: list[Any]) -> list[int | None]:
    head = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
    checked: list[int | None] = []
    for dim, leaf in zip(dims, leaves):
        if dim is None:
            checked.append(None)
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"{head}Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(leaf, torch.Tensor) and not _hides(leaf):
            raise ValueError(
                f"{head}Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over non-Tensor "
                "arguments, please use None as the respective in_dim"
            )
        rank = len(leaf.shape)
        if not -rank <= dim < rank:
            raise ValueError(
                f"{head}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {rank} so expected "
                f"in_dim to satisfy -{rank} <= in_dim < {rank}."
            )
        checked.append(dim % rank)
    return checked


def _size(leaves: list[Any], dims: list[int | None]) -> int:
    mapped = [(leaf, dim) for leaf, dim in zip(leaves, dims) if dim is not None]
    sizes = [leaf.shape[dim] for leaf, dim in mapped]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        sentence = (
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped "
            "dimension"
        )
        raise ValueError(with_shapes(sentence, "vmap", *(leaf.shape for leaf, _ in mapped)))
    return sizes[0]


def _run(
    func: Callable[..., Any],
    name: str,
    leaves: list[Any],
    dims: list[int | None],
    around: Callable[[list[Any]], Any],
    kwargs: dict[str, Any],
    out_dims: Any,
    randomness: str,
    size: int,
) -> tuple[list[Any], list[int | None], Callable[[list[Any]], Any]]:
    """Calls the function once. Returns its batched results, their batch dimensions, and their structure."""
    with Level(size, randomness) as level:
        samples = [x if dim is None else _hidden(x, dim, level) for x, dim in zip(leaves, dims)]
        result = func(*around(samples), **kwargs)
        flat, build = _tree.flatten(result, _hides)
        places: list[int | None] = []
        for place, (dim, x) in enumerate(zip(_out_dims_of(name, out_dims, result), flat)):
            if _hides(x):
                flat[place] = x._maybe_remove_batch_dim(name, vmap_level=level.number, batch_size=size, out_dim=dim)
                places.append(dim)
            elif not isinstance(x, torch.Tensor):
                if dim is not None:
                    raise ValueError(
                        f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you mean to set "
                        "out_dims= to None for output?"
                    )
                places.append(None)
            elif dim is None:
                if level.has(x):
                    raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
                places.append(None)
            else:
                rank = x.dim() + 1
                if not -rank <= dim < rank:
                    raise IndexError(
                        f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
                    )
                places.append(dim % rank)
                flat[place] = level.show(x, dim % rank)
        return flat, places, build


def _out_dims_of(name: str, out_dims: Any, result: Any) -> list[int | None]:
    if not isinstance(out_dims, (int, tuple, list, dict, type(None))):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )
    # For a result that is a tensor, its number may be in a tuple.
    single = (isinstance(result, torch.Tensor) or _hides(result)) and isinstance(out_dims, tuple) and len(out_dims) == 1
    dims = _tree.spread(out_dims[0] if single else out_dims, result, _hides)  # type: ignore[index] # it is a tuple
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {tree_structure(out_dims)} but outputs has structure {tree_structure(result)}."
        )
    return dims


def _joined(parts: list[tuple[list[Any], list[int | None], Callable[[list[Any]], Any]]]) -> Any:
    """Concatenates the results of all chunks."""
    flat, places, build = parts[0]
    if len(parts) > 1:
        columns = zip(*(part[0] for part in parts))
        flat = [column[0] if dim is None else torch.cat(column, dim) for column, dim in zip(columns, places)]
    return build(flat)
