"""Tests every operator in a `TorchDispatchMode`, and for tensors of a class with `__torch_dispatch__`."""

from contextlib import nullcontext

from table_cases import (
    Report,
    array,
    call,
    cases,
    change,
    difference,
    directions,
    draw,
    every_operator,
    gradients,
    is_inexact,
    may_require_grad,
    name_of,
    tensors_in,
)

import rushlight as torch
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode

DTYPES = ("float32", "int64")


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Wrapper(torch.Tensor):
    """Holds another tensor. Results are plain tensors."""

    @staticmethod
    def __new__(cls, inside):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inside.size(), strides=inside.stride(), dtype=inside.dtype, device=inside.device
        )
        made.inside = inside
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*opened(args), **opened(kwargs or {}))


class Copying(TorchDispatchMode):
    """Returns new tensors, which have no history of their own."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        operands = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        return pytree.tree_map_only(torch.Tensor, lambda one: copied(one, operands), result)


def copied(result, operands):
    """A copy, unless the result is an operand or a view of one."""
    memory = result.untyped_storage().data_ptr()
    return result if any(one.untyped_storage().data_ptr() == memory for one in operands) else result.clone()


class Twin(Wrapper):
    """Holds another tensor. Results hold those of the operators."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return pytree.tree_map_only(torch.Tensor, Twin, func(*opened(args), **opened(kwargs or {})))


def opened(value):
    return pytree.tree_map_only(Wrapper, lambda one: one.inside, value)


def outcome(function, args, kwargs):
    """The results of a call and its arguments afterwards, or the exception's class."""
    try:
        result = call(function, args, kwargs)
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
        return type(error), str(error)
    found = opened([result, args, kwargs])
    return [(name_of(one.dtype), list(one.shape), array(one).tobytes()) for one in tensors_in(found)]


def functions(op):
    if "function" in op.variants:
        yield op.function()
    if "method" in op.variants:
        yield op.method()


@every_operator
def test_modes(op):
    """A mode that calls the operators changes no bit."""
    report = Report(op)
    for dtype, sample in cases(op, DTYPES):
        for function in functions(op):
            expected = outcome(function, *draw(op, sample, dtype))
            args, kwargs = draw(op, sample, dtype)
            with Passing():
                found = outcome(function, args, kwargs)
            if found != expected:
                report.add(dtype, sample, f"{function}: {found} instead of {expected}")
    report.close()


@every_operator
def test_wrappers(op):
    """A class that passes the tensors inside to the operators has their results."""
    report = Report(op)
    for dtype, sample in cases(op, DTYPES):
        if not op.tensors:
            continue
        for function in functions(op):
            expected = outcome(function, *draw(op, sample, dtype))
            args, kwargs = draw(op, sample, dtype)
            if expected[:1] == (TypeError,):
                continue
            found = outcome(function, change(args, Wrapper), change(kwargs, Wrapper))
            if found != expected:
                report.add(dtype, sample, f"{function}: {found} instead of {expected}")
    report.close()


def differentiated(op, sample, wrap=None):
    """The gradients of a sample's results, along fixed directions, and those of the gradients."""
    args, kwargs = draw(op, sample, "float64")
    if not may_require_grad(op, args, kwargs):
        return []
    inputs = [one for one in tensors_in([args, kwargs]) if is_inexact(one)]
    leaves = [one.clone() if wrap is None else wrap(one.clone()) for one in inputs]
    for leaf in leaves:
        leaf.requires_grad_()
    replaced = dict(zip(map(id, inputs), leaves))
    swap = lambda one: replaced.get(id(one), one)
    own = change(args, swap)
    if op.writes():
        own = (own[0].clone(), *own[1:])
    results = [one for one in tensors_in(call(op.function(), own, change(kwargs, swap))) if one.requires_grad]
    if not results or not op.differentiable:
        return []
    plain = [opened(one).detach() for one in results]
    cotangents = directions(plain, 0)
    if wrap is not None:
        cotangents = [wrap(one) for one in cotangents]
    return [opened(one).detach() for one in gradients(results, leaves, cotangents) if one is not None]


#: A slice that goes backward, which torch has not: a wrapper cannot have its strides.
REFUSED_OF_WRAPPERS = frozenset({"_slice"})


def check_gradients(op, mode, wrap, refused):
    report, errors = Report(op), []
    for _, sample in cases(op, ("float64",)):
        try:
            torch.manual_seed(0)
            expected = differentiated(op, sample)
        except (RuntimeError, IndexError):
            continue
        torch.manual_seed(0)
        try:
            with mode() if mode else nullcontext():
                found = differentiated(op, sample, wrap)
        except (RuntimeError, IndexError, TypeError) as error:
            if op.name not in refused:
                raise
            errors.append(error)
            continue
        if len(found) != len(expected):
            report.add("float64", sample, f"{len(found)} gradients instead of {len(expected)}")
        for one, other in zip(found, expected):
            wrong = difference(array(one), array(other), "float64")
            if wrong:
                report.add("float64", sample, wrong)
    report.close()
    assert bool(errors) == (op.name in refused)


@every_operator
def test_gradients_in_a_mode(op):
    """A mode that returns new tensors has the gradients of the plain call."""
    check_gradients(op, Copying, None, frozenset())


@every_operator
def test_gradients_of_wrappers(op):
    """A wrapper has the gradients of the tensor inside, or an error is raised."""
    check_gradients(op, None, Twin, REFUSED_OF_WRAPPERS)
