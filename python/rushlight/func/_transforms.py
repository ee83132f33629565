"""Derivatives of functions as functions: `grad`, `vjp`, `jvp`, Jacobians and Hessians. They can be nested.

Each transform differentiates at its own leaves (`tracked`), records operations, and returns results without the part of
the graph that leads only to these leaves (`released`). The graph that an outer transform or `backward` needs is kept.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import wraps

import rushlight as torch
from rushlight import _C, autograd
from rushlight.autograd._forward_levels import ForwardLevel, jacobian_by_columns
from rushlight.autograd._tangents import (
    basis,
    check_size,
    differentiable,
    forward_recording,
    released,
    tracked,
    transforming,
)
from rushlight.autograd._vmap_levels import mapped
from rushlight.utils._pytree import tree_structure

from . import _tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor


class _TransformLeaves:
    """The leaves of a transform: the selected arguments, with every tensor as a leaf of the graph."""

    def __init__(self, chosen: Any, *, forward: bool = False) -> None:
        leaves, self.around = _tree.flatten(chosen)
        self.tensors: list[Tensor] = []
        inside: list[Any] = []
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
            if not differentiable(leaf):
                if forward:
                    raise ValueError(f"Expected primal to be floating point or complex, but got: {leaf.dtype}")
                raise RuntimeError("only Tensors of floating point dtype can require gradients")
            point, own = tracked(leaf, forward)
            self.tensors.append(point)
            inside.append(own)
        self.chosen = self.around(inside)

    def release(self, tree: Any, keep: bool) -> Any:
        return _tree.each(lambda leaf: released(leaf, self.tensors, keep), tree)

    def release_aux(self, aux: Any, has_aux: bool, keep: bool) -> Any:
        """The second value of a function, which consists of tensors as the first one does."""
        if not has_aux:
            return None
        for leaf in _tree.flatten(aux)[0]:
            if not isinstance(leaf, torch.Tensor):
                raise RuntimeError(
                    f"Expected tensors, got unsupported type {type(leaf)}\n"
                    "  With has_aux=True both values of the function are tensors or containers of tensors."
                )
        return self.release(aux, keep)


def _check_argnums(argnums: Any, count: int) -> tuple[int, ...]:
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    places = (argnums,) if isinstance(argnums, int) else argnums
    if not places:
        raise RuntimeError("argnums must be non-empty")
    for place in places:
        if not isinstance(place, int):
            raise RuntimeError(f"argnum must be int, got: {type(place)}")
        if not -count <= place < count:
            raise RuntimeError(f"Got argnum={place}, but only {count} positional inputs")
    places = tuple(place % count for place in places)
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return places


def _choose(argnums: Any, args: tuple[Any, ...], *, forward: bool = False) -> tuple[_TransformLeaves, tuple[Any, ...]]:
    """The leaves for the selected arguments, and all arguments including them."""
    numbers = _check_argnums(argnums, len(args))
    chosen = args[numbers[0]] if isinstance(argnums, int) else tuple(args[number] for number in numbers)
    leaves = _TransformLeaves(chosen, forward=forward)
    replaced = list(args)
    for number, value in zip(numbers, (leaves.chosen,) if isinstance(argnums, int) else leaves.chosen):
        replaced[number] = value
    return leaves, tuple(replaced)


def _split(result: Any, has_aux: bool, api: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{api}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def _gradients(outputs: Any, inputs: list[Tensor], weights: Any, retain: bool = True) -> list[Tensor]:
    """The gradients as part of the graph. Missing gradients are zeros."""
    pairs = [(out, weight) for out, weight in zip(outputs, weights) if out.requires_grad]
    if not pairs:
        return [torch.zeros_like(tensor) for tensor in inputs]
    outs, starts = zip(*pairs)
    found = autograd.grad(outs, inputs, starts, retain_graph=retain, create_graph=True, allow_unused=True)
    return [torch.zeros_like(tensor) if g is None else g for tensor, g in zip(inputs, found)]


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of ``func`` and its value. With ``has_aux`` the value is a pair too.

    Arguments and errors as in `grad`.

    >>> torch.func.grad_and_value(lambda x: (x**2).sum())(torch.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """
    api = "grad_and_value(f)(*args)"

    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        keep = _C._is_recording()
        with torch.enable_grad():
            leaves, replaced = _choose(argnums, args)
            with transforming():
                output, aux = _split(func(*replaced, **kwargs), has_aux, api)
            if not isinstance(output, torch.Tensor):
                raise RuntimeError(f"{api}: Expected f(*args) to return a Tensor, got {type(output)}")
            if output.dim() != 0:
                raise RuntimeError(
                    f"{api}: Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} dims. Maybe you "
                    "wanted to use the vjp or jacrev APIs instead?"
                )
            if output.is_complex():
                raise RuntimeError(
                    f"grad can be implicitly created only for real scalar outputs but got {output.dtype}"
                )
            found = leaves.around(_gradients([output], leaves.tensors, [torch.ones_like(output.detach())]))
            found, output = leaves.release(found, keep), leaves.release(output, keep)
            aux = leaves.release_aux(aux, has_aux, keep)
        return (found, (output, aux)) if has_aux else (found, output)

    return wrapper


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of ``func``.

    Args:
        func: a function of tensors, or containers of tensors, that returns a zero-dimensional tensor; with ``has_aux``
            a pair of it and other tensors.
        argnums: the index of the argument to differentiate, or a tuple of several; the gradient has their structure.
        has_aux: whether ``func`` returns a second value, which is returned unchanged.

    Raises:
        RuntimeError: the result is not a zero-dimensional tensor, or there is no such argument.

    >>> torch.func.grad(torch.sin)(torch.tensor(0.0))
    tensor(1.)
    >>> torch.func.grad(torch.func.grad(lambda x: x**3))(torch.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapper


#: The names of the transforms in torch's messages.
_BACK, _ALONG = "vjp(f, *primals)", "jvp(f, primals, tangents)"


def _check_outputs(direction: str, outputs: list[Any]) -> None:
    """Raises RuntimeError unless the function returned tensors that are differentiable."""
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise RuntimeError(
            f"{direction}: Expected f to be a function that has non-empty output (got output = {outputs})"
        )
    for leaf in outputs:
        if not isinstance(leaf, torch.Tensor):
            raise RuntimeError(
                f"{direction}: expected f(*primals) to return only tensors, got unsupported type {type(leaf)}"
            )
    for leaf in outputs:
        if direction == _BACK and not differentiable(leaf):
            raise RuntimeError(
                f"vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype {leaf.dtype}"
            )


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of ``func``, and a function that computes vector-Jacobian products, a tuple of gradients.

    >>> value, back = torch.func.vjp(torch.sin, torch.tensor([0.0, 1.0]))
    >>> back(torch.tensor([1.0, 0.0]))
    (tensor([1., 0.]),)
    """
    keep = _C._is_recording()
    with torch.enable_grad():
        leaves = _TransformLeaves(primals)
        with transforming():
            output, aux = _split(func(*leaves.chosen), has_aux, _BACK)
        outputs, _ = _tree.flatten(output)
        _check_outputs(_BACK, outputs)

    def back(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        weights, _ = _tree.flatten(cotangents)
        if _tree.outline(cotangents) != _tree.outline(output):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {_tree.outline(cotangents)}, primal output: {_tree.outline(output)}"
            )
        wanted = _C._is_recording() if create_graph is None else create_graph
        with torch.enable_grad():
            found = _gradients(outputs, leaves.tensors, weights, retain_graph)
            return leaves.release(leaves.around(found), wanted)

    value, aux = leaves.release(output, keep), leaves.release_aux(aux, has_aux, keep)
    return (value, back, aux) if has_aux else (value, back)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The value of ``func``, and its Jacobian-vector product for given tangents.

    Args:
        func: a function of tensors or containers of tensors.
        primals: a tuple of its arguments.
        tangents: a tuple of the same structure.
        strict: whether it is an error if a result does not depend on the arguments; otherwise its tangent is zero.
        has_aux: whether ``func`` returns a second value, which is returned unchanged.

    >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    api = _ALONG
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{api}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    if _tree.outline(primals) != _tree.outline(tangents):
        raise RuntimeError(
            f"{api}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple of "
            f"3 tensors, tangents also must be. Got primals with structure {tree_structure(primals)} and tangents with "
            f"structure {tree_structure(tangents)}"
        )
    flat = _tree.flatten(primals)[0]
    if not flat:
        raise RuntimeError(f"{api}: Expected primals to contain at least one Tensor.")
    for leaf in flat:
        if not isinstance(leaf, torch.Tensor):
            raise RuntimeError(f"{api}: Expected primals to only contain Tensors, got {type(leaf)}")
    keep = _C._is_recording()
    with forward_recording():
        leaves = _TransformLeaves(primals, forward=True)
        flat = _tree.flatten(tangents)[0]
        _check_tangents(api, flat, leaves.tensors)
        level = ForwardLevel(leaves.tensors, flat)
        with level, transforming():
            output, aux = _split(func(*leaves.chosen), has_aux, api)
        outputs, around = _tree.flatten(output)
        _check_outputs(api, outputs)
        push = level.push(outputs)
        found = [None] * len(outputs) if push is None else push(*(level.tangents or ()))
        if strict and any(tangent is None for tangent in found):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
                "with strict=True."
            )
        along = around([torch.zeros_like(y) if t is None else t for y, t in zip(outputs, found)])
    value, along = leaves.release(output, keep), leaves.release(along, keep)
    aux = leaves.release_aux(aux, has_aux, keep)
    return (value, along, aux) if has_aux else (value, along)


def _check_tangents(api: str, tangents: list[Any], primals: list[Tensor]) -> None:
    for tangent, primal in zip(tangents, primals):
        if not isinstance(tangent, torch.Tensor):
            raise RuntimeError(f"{api}: Expected tangents to only contain Tensors, got {type(tangent)}")
        check_size(tangent, primal)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of ``func``, and a function that computes Jacobian-vector products, which can be called many times.

    >>> value, along = torch.func.linearize(torch.sin, torch.tensor(0.0))
    >>> along(torch.tensor(2.0))
    tensor(2.)
    """
    keep = _C._is_recording()
    with forward_recording():
        leaves = _TransformLeaves(primals, forward=True)
        with ForwardLevel(leaves.tensors) as level:
            output = func(*leaves.chosen)
        outputs, around = _tree.flatten(output)
        push = level.push(outputs)

    def along(*tangents: Any) -> Any:
        if _tree.outline(tangents) != _tree.outline(primals):
            raise RuntimeError(
                f"Expected the tangents {_tree.outline(tangents)} to have the same argspec as the primals "
                f"{_tree.outline(primals)}"
            )
        for place, (tangent, primal) in enumerate(zip(_tree.flatten(tangents)[0], leaves.tensors)):
            if tangent.shape != primal.shape:
                raise RuntimeError(
                    f"tangent:{place} with shape {tangent.shape} in flattened pytree doesn't match the shape {primal.shape} "
                    "of the corresponding primal."
                )
        wanted = _C._is_recording()
        known = _tree.flatten(tangents)[0]
        with forward_recording() if level.extensions else nullcontext():
            for extension in level.extensions:
                known += extension(known)
        found = [None] * len(outputs) if push is None else push(*known)
        filled = [torch.zeros_like(y) if t is None else t for y, t in zip(outputs, found)]
        return leaves.release(around(filled), wanted)

    return leaves.release(output, keep), along


def _check_real(api: str, what: str, leaves: list[Any]) -> None:
    """Raises an error for complex tensors, because a Jacobian has only one of their two directions."""
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and leaf.is_complex():
            # torch's message says "input" for outputs too.
            raise RuntimeError(
                f"{api.partition('(')[0]}: Expected all {what} to be real but received complex tensor at flattened input "
                f"idx: {place}"
            )


def _jacobian(
    api: str, argnums: Any, has_aux: bool, forward: bool, chunk_size: int | None = None
) -> Callable[..., Any]:
    """The common part of both Jacobians."""

    def transformed(func: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            keep = _C._is_recording()
            _check_real(api, "inputs", _tree.flatten(args)[0])
            with forward_recording() if forward else torch.enable_grad():
                leaves, replaced = _choose(argnums, args, forward=forward)
                level = ForwardLevel(leaves.tensors, samples=sum(x.numel() for x in leaves.tensors))
                with level if forward else nullcontext(), transforming():
                    output, aux = _split(func(*replaced, **kwargs), has_aux, api)
                outputs, around = _tree.flatten(output)
                _check_outputs(_ALONG if forward else _BACK, outputs)
                _check_real(api, "outputs", outputs)
                if forward:
                    rows = jacobian_by_columns(level, leaves.tensors, outputs)
                else:
                    rows = _by_rows(outputs, leaves.tensors, chunk_size)
                found = around([leaves.around(row) for row in rows])
            found, aux = leaves.release(found, keep), leaves.release_aux(aux, has_aux, keep)
            return (found, aux) if has_aux else found

        return wrapper

    return transformed


def _by_rows(outputs: list[Tensor], inputs: list[Tensor], chunk_size: int | None = None) -> list[list[Tensor]]:
    matrices = []
    for output in outputs:
        back = lambda unit, output=output: _gradients([output], inputs, [unit])
        found = mapped(back, basis(output.detach()), chunk_size)
        matrices.append([whole.reshape((*output.shape, *x.shape)) for whole, x in zip(found, inputs)])
    return matrices


def jacrev(
    func: Callable[..., Any],
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func``, computed by a batched backward pass over the result's elements.

    The derivative of a result with respect to an argument has the shape of the result followed by that of the argument.
    The structure is that of the result, and inside it that of ``argnums``. ``chunk_size`` is the number of elements
    that are computed at once; all by default. A smaller number needs less memory. ``_preallocate_and_copy`` has no
    effect.

    Raises:
        RuntimeError: an argument or a result is complex.

    >>> torch.func.jacrev(torch.sin)(torch.tensor([0.0, 0.0]))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")
    return _jacobian("jacrev(f)(*args)", argnums, has_aux, False, chunk_size)(func)


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func``, computed in forward mode over the elements of the argument.

    Result and errors are those of `jacrev`. ``randomness`` has no effect, because the function is called only once.

    >>> torch.func.jacfwd(torch.sin)(torch.tensor([0.0, 0.0]))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    return _jacobian("jacfwd(f)(*args)", argnums, has_aux, True)(func)


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """A function that returns the Hessian of ``func``, by forward mode over reverse mode.

    Therefore results that ``func`` computes under `torch.no_grad` are constant for the first derivative but not for the
    second.

    >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
