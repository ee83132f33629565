"""`torch.library.opcheck`: checks what a program has registered for its operator."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.utils import _pytree as pytree
from rushlight.utils._tensors import tensors_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .operator import Operator

__all__ = ["OpCheckError", "opcheck"]


class OpCheckError(Exception):
    """A check of an operator that does not hold."""


def _copied(value: Any) -> Any:
    """Arguments with tensors of their own."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)

    return pytree.tree_map_only(torch.Tensor, copy, value)


def _test_schema(op: Operator, args: Any, kwargs: Any) -> None:
    """Only the arguments that the schema says change, and no result shares memory with an argument."""
    args, kwargs = op.schema.bind(*_copied((args, kwargs)))
    before = _copied((args, kwargs))
    with torch.no_grad():
        result = op(*args, **kwargs)
    values = [*args, *kwargs.values()]
    for parameter, old, new in zip(op.schema.parameters, [*before[0], *before[1].values()], values):
        same = all(torch.equal(a.detach(), b.detach()) for a, b in zip(tensors_in(old), tensors_in(new)))
        if not same and not parameter.mutated:
            raise OpCheckError(f"Argument {parameter.name} is not defined as mutable but was mutated")
    taken = {tensor.untyped_storage().data_ptr() for tensor in tensors_in((args, kwargs)) if tensor.numel()}
    if any(tensor.untyped_storage().data_ptr() in taken for tensor in tensors_in(result) if tensor.numel()):
        raise OpCheckError("A result is not defined to alias an argument, but it does")


def _test_autograd_registration(op: Operator, args: Any, kwargs: Any) -> None:
    """A function for a backend alone must not be recorded through the operators that it calls."""
    recorded = any(tensor.requires_grad for tensor in tensors_in((args, kwargs)))
    above = {"Autograd", "CompositeImplicitAutograd"} & set(op.kernels) or any(
        key.startswith("Autograd") for key in op.kernels
    )
    if recorded and op.owner is None and op.backward is None and not above and not op.schema.is_mutable:
        raise OpCheckError(
            f"{op.overload()} has tensors that require gradients, and no derivative: use torch.library.register_autograd"
        )


def _test_faketensor(op: Operator, args: Any, kwargs: Any) -> None:
    """On the device `meta` the results have the shapes, strides and dtypes of the real ones."""
    fake_args, fake_kwargs = pytree.tree_map_only(torch.Tensor, lambda one: one.detach().to("meta"), (args, kwargs))
    args, kwargs = _copied((args, kwargs))
    with torch.no_grad():
        real, fake = op(*args, **kwargs), op(*fake_args, **fake_kwargs)
    real_leaves, fake_leaves = pytree.tree_leaves(real), pytree.tree_leaves(fake)
    if len(real_leaves) != len(fake_leaves):
        raise OpCheckError(f"the operator has {len(real_leaves)} results, but the fake impl {len(fake_leaves)}")
    for place, (ours, theirs) in enumerate(zip(tensors_in(real), tensors_in(fake))):
        for what in ("shape", "dtype"):
            if getattr(ours, what) != getattr(theirs, what):
                difference = f"{getattr(theirs, what)}, but the real one {getattr(ours, what)}"
                raise OpCheckError(f"the result {place} of the fake impl has the {what} {difference}")
        if ours.stride() != theirs.stride() and ours.numel() > 1:
            difference = f"{theirs.stride()}, but the real one {ours.stride()}"
            raise OpCheckError(f"the result {place} of the fake impl has the strides {difference}")


def _test_aot_dispatch_dynamic(op: Operator, args: Any, kwargs: Any) -> None:
    """Two calls have the same results and gradients. Nothing is compiled, so that there is nothing else to compare."""

    def run() -> tuple[Any, list[Any]]:
        own_args, own_kwargs = _copied((args, kwargs))
        result = op(*own_args, **own_kwargs)
        outputs = [one for one in tensors_in(result) if one.requires_grad]
        inputs = [one for one in tensors_in((own_args, own_kwargs)) if one.requires_grad]
        if not outputs or not inputs:
            return result, []
        return result, list(torch.autograd.grad([one.sum() for one in outputs], inputs, allow_unused=True))

    (first, first_slopes), (second, second_slopes) = run(), run()
    for a, b in zip([*tensors_in(first), *first_slopes], [*tensors_in(second), *second_slopes]):
        if a is not None:
            torch.testing.assert_close(a, b, equal_nan=True)


_TESTS = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_aot_dispatch_dynamic": _test_aot_dispatch_dynamic,
}


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = tuple(_TESTS),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:
    """Checks what was registered for an operator, on example arguments.

    Args:
        op: the operator.
        args, kwargs: its arguments.
        test_utils: the names of checks, by default all: ``"test_schema"`` (arguments change only as the schema says, and
            results share no memory with them), ``"test_autograd_registration"``, ``"test_faketensor"`` (the results on
            the device ``meta``) and ``"test_aot_dispatch_dynamic"`` (two calls have the same results and gradients).
        raise_exception: whether to raise an error, or return it as text.
        atol, rtol: have no effect.

    Raises:
        OpCheckError: a check does not hold.
        ValueError: it is no operator, or there is no check of a name.
        RuntimeError: it is an operator with several overloads, or one of the engine's own.

    >>> op = torch.library.custom_op("example::ten", lambda x: x * 10, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> torch.library.opcheck(op, (torch.ones(1),), test_utils="test_schema")
    {'test_schema': 'SUCCESS'}
    """
    from rushlight._library.register import CustomOpDef, found
    from rushlight._ops import OpOverload, OpOverloadPacket

    if isinstance(op, OpOverloadPacket) and len(op.overloads()) > 1:
        raise RuntimeError(
            f"opcheck can only test operators without overloads. Got the following overloads for {op._qualified_op_name}: "
            f"{['' if name == 'default' else name for name in op.overloads()]}"
        )
    if not isinstance(op, (OpOverload, OpOverloadPacket, CustomOpDef)):
        raise ValueError(
            "opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. torch.ops.aten.sin.default, got "
            f"{type(op)}"
        )
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not set(names) <= set(_TESTS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={names}), expected test_utils to be subset of {tuple(_TESTS)} but it was not"
        )
    operator, results = found(op, "opcheck"), {}
    for name in names:
        try:
            _TESTS[name](operator, args, dict(kwargs or {}))
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            results[name] = str(error)
    return results


opcheck.__module__ = "rushlight.library"
