"""`vmap`: a function of one sample as a function of a batch.

The function runs once for each sample and the results are stacked. That is right for every operator, for control flow that
depends on values, and inside and outside of all other transforms; it is not faster than the loop that it replaces.
"""

from __future__ import annotations

from functools import wraps

import rushlight as torch

from . import _tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that maps ``func`` over a dimension of its arguments.

    Args:
        func: takes tensors or containers of them, and returns tensors or containers of them.
        in_dims: over which dimension of each argument: a number for all, or numbers in the structure of the arguments; None
            for one that every call gets whole.
        out_dims: where the mapped dimension stands in the results; None for a result that is the same for all.
        randomness: ``"different"`` numbers in each call, the ``"same"`` in all, or random operators are an ``"error"``.
        chunk_size: changes nothing.

    Every call gets the keyword arguments whole.

    Raises:
        ValueError: mapped sizes that differ, or dimensions that do not fit the arguments.
        RuntimeError: a random operator, unless ``randomness`` allows it.

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
        leaves, around = _tree.flatten(args)
        dims = _checked(name, in_dims, dims, leaves)
        size = _size(leaves, dims)

        def call(place: int) -> Any:
            sample = around([x if dim is None else x.select(dim, place) for x, dim in zip(leaves, dims)])
            return func(*sample, **kwargs)

        results = _each(call, size, randomness)
        if not size:
            # What one sample would give says what none gives.
            empty = [x if dim is None else x.new_zeros(_without(x, dim)) for x, dim in zip(leaves, dims)]
            results = [func(*around(empty), **kwargs)]
        return _joined(name, results, out_dims, size)

    return wrapper


def _dims_of(name: str, in_dims: Any, args: tuple[Any, ...]) -> list[Any]:
    head = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"{head}expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function "
            "with no inputs. The latter is unsupported."
        )
    dims = _tree.spread(in_dims, args)
    if dims is None:
        raise ValueError(
            f"{head}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{_tree.outline(in_dims)} but inputs has structure {_tree.outline(args)}."
        )
    return dims


def _checked(name: str, in_dims: Any, dims: list[Any], leaves: list[Any]) -> list[int | None]:
    head = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
    for dim, leaf in zip(dims, leaves):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"{head}Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(leaf, torch.Tensor):
            raise ValueError(
                f"{head}Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over non-Tensor "
                "arguments, please use None as the respective in_dim"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"{head}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {leaf.dim()} so expected "
                f"in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
    return dims


def _size(leaves: list[Any], dims: list[int | None]) -> int:
    sizes = [leaf.size(dim) for leaf, dim in zip(leaves, dims) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped "
            "dimension"
        )
    return sizes[0]


def _without(tensor: Tensor, dim: int) -> list[int]:
    sizes = list(tensor.shape)
    del sizes[dim]
    return sizes


def _each(call: Callable[[int], Any], size: int, randomness: str) -> list[Any]:
    """The results of the function for each sample."""
    before = None if randomness == "different" else torch.get_rng_state()
    results = []
    for place in range(size):
        if randomness == "same" and place:
            torch.set_rng_state(before)  # type: ignore[arg-type] # there is one
        results.append(call(place))
        if randomness == "error" and not torch.equal(torch.get_rng_state(), before):  # type: ignore[arg-type]
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                "randomness flags on vmap or perform the randomness operation out of vmap"
            )
    return results


def _joined(name: str, results: list[Any], out_dims: Any, size: int) -> Any:
    if not isinstance(out_dims, (int, tuple, list, dict, type(None))):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )
    flat, arounds = zip(*(_tree.flatten(result) for result in results))
    # One number for a result that is a tensor may stand in a tuple.
    single = isinstance(results[0], torch.Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1
    dims = _tree.spread(out_dims[0] if single else out_dims, results[0])  # type: ignore[index] # a tuple then
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {_tree.outline(out_dims)} but outputs has structure {_tree.outline(results[0])}."
        )
    joined = []
    for dim, column in zip(dims, zip(*flat)):
        if dim is None:
            joined.append(column[0])
            continue
        if not isinstance(column[0], torch.Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(column[0])}. Did you mean to set "
                "out_dims= to None for output?"
            )
        stacked = torch.stack(column, dim)
        joined.append(stacked if size else stacked.narrow(dim, 0, 0))
    return arounds[0](joined)
