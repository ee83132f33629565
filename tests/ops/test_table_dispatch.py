"""Tests every operator in a `TorchDispatchMode`, and for tensors of a class with `__torch_dispatch__`."""

from table_cases import Report, array, call, cases, change, draw, every_operator, name_of, tensors_in

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
