"""Tests every operator of the table with other memory layouts: strided, reversed, expanded, on `meta`, shared by views."""

import pytest
from table_cases import (
    ALL,
    FEW,
    Report,
    array,
    call,
    cases,
    change,
    difference,
    draw,
    evaluate,
    every_operator,
    name_of,
    reversed_,
    strided,
    tensor,
    tensors_in,
    transposed,
)

import rushlight as torch

LAYOUTS = {"strided": strided, "transposed": transposed, "reversed": reversed_}
#: Operators of which only the first results are compared: the others serve the gradient, and are empty where a layout needs none.
COMPARED = {"embedding_bag": 1}


@every_operator
def test_strides(op, thorough):
    """Gaps, offsets, permuted and negative strides do not change results."""
    if op.is_stride_dependent():
        pytest.skip("the result depends on strides")
    report = Report(op)
    for dtype, sample in cases(op, ALL if thorough else FEW):
        for how, make in LAYOUTS.items():

            def check(dtype=dtype, sample=sample, make=make):
                args, kwargs, wanted = evaluate(op, dtype, sample)
                args, kwargs = draw(op, sample, dtype)
                got = call(op.function(), change(args, make), change(kwargs, make))
                if first := COMPARED.get(op.python_name):
                    wanted = [*wanted[:first], *[...] * (len(wanted) - first)]
                return difference(got, wanted) if tensors_in(got) else None

            report.guard(f"{dtype} {how}", sample, check)
    report.close()


@every_operator
def test_expanded(op, thorough):
    """A dimension with stride zero is treated like its repetitions."""
    if op.is_stride_dependent() or op.writes():
        pytest.skip("the result depends on strides or writes into it")
    report = Report(op)
    copied = lambda x: tensor(array(x), name_of(x.dtype))

    def stretch(x):
        if x.dim() == 0 or x.numel() == 0:
            return x
        return torch.as_strided(x, tuple(x.shape), (0, *x.stride()[1:]))

    for dtype, sample in cases(op, ALL if thorough else FEW):

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(op, sample, dtype)
            args, kwargs = change(args, stretch), change(kwargs, stretch)
            full = change(args, copied), change(kwargs, copied)
            try:
                wanted = call(op.function(), *full)
            except (RuntimeError, ValueError, IndexError, ZeroDivisionError):
                return None  # repeated values can make a sample invalid, for example a singular matrix
            got = call(op.function(), args, kwargs)
            return difference(got, wanted) if tensors_in(got) else None

        report.guard(f"{dtype} expanded", sample, check)
    report.close()


@every_operator
def test_meta(op):
    """`meta` tensors give the same shapes, dtypes and strides, or an error that explains why this is impossible."""
    report = Report(op)
    for dtype, sample in cases(op, ("float32", "int64")):

        def check(dtype=dtype, sample=sample):
            args, kwargs, wanted = evaluate(op, dtype, sample)
            if not tensors_in(args) or not tensors_in(wanted):
                return None
            args, kwargs = draw(op, sample, dtype)
            move = lambda x: torch.empty_strided(tuple(x.shape), x.stride(), dtype=x.dtype, device="meta")
            try:
                got = call(op.function(), change(args, move), change(kwargs, move))
            except RuntimeError as error:
                if "data dependent" in op.tags and "meta" in str(error).lower():
                    return None
                raise
            for have, want in zip(tensors_in(got), tensors_in(wanted)):
                if str(have.device) != "meta":
                    return f"a result lies on {have.device}"
                facts = [(tuple(x.shape), name_of(x.dtype), x.stride()) for x in (have, want)]
                if facts[0] != facts[1]:
                    return f"got {facts[0]}, wanted {facts[1]}"
            return None

        report.guard(dtype, sample, check)
    report.close()


def overlaps(x):
    """Whether several indices may refer to one element: a stride is within the extent of the smaller strides."""
    reach = 0
    for stride, size in sorted((abs(stride), size) for size, stride in zip(x.shape, x.stride()) if size > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


@every_operator
def test_views_share_memory(op):
    if op.implementation not in ("view", "multi-view"):
        pytest.skip("no view")
    report = Report(op)
    for dtype, sample in cases(op, ("float32", "complex64", "int64")):

        def check(dtype=dtype, sample=sample):
            args, _, got = evaluate(op, dtype, sample)
            base = tensors_in(args)[0]
            for view in tensors_in(got):
                if view.untyped_storage().data_ptr() != base.untyped_storage().data_ptr():
                    return "a view has memory of its own"
                if overlaps(view):
                    continue
                version = base._version
                view.copy_(view.clone())
                if base._version != version + 1:
                    return "a change of the view was not counted at its base"
            return None

        report.guard(dtype, sample, check)
    report.close()
