"""Every row of the operator table on other memory: strided, reversed, expanded, on `meta`, shared by views."""

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
    every_row,
    name_of,
    reversed_,
    strided,
    tensor,
    tensors_in,
    transposed,
)

import rushlight as torch

LAYOUTS = {"strided": strided, "transposed": transposed, "reversed": reversed_}


@every_row
def test_strides(row, thorough):
    """Gaps, offsets, other orders and negative strides change nothing."""
    if row.sees_memory():
        pytest.skip("the row sees memory")
    report = Report(row)
    for dtype, sample in cases(row, ALL if thorough else FEW):
        for how, make in LAYOUTS.items():

            def check(dtype=dtype, sample=sample, make=make):
                args, kwargs, wanted = evaluate(row, dtype, sample)
                args, kwargs = draw(row, sample, dtype)
                got = call(row.function(), change(args, make), change(kwargs, make))
                return difference(got, wanted) if tensors_in(got) else None

            report.guard(f"{dtype} {how}", sample, check)
    report.close()


@every_row
def test_expanded(row, thorough):
    """A dimension of stride zero stands for its repetitions."""
    if row.sees_memory() or row.writes():
        pytest.skip("the row sees memory or writes into it")
    report = Report(row)
    copied = lambda x: tensor(array(x), name_of(x.dtype))

    def stretch(x):
        if x.dim() == 0 or x.numel() == 0:
            return x
        return torch.as_strided(x, tuple(x.shape), (0, *x.stride()[1:]))

    for dtype, sample in cases(row, ALL if thorough else FEW):

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(row, sample, dtype)
            args, kwargs = change(args, stretch), change(kwargs, stretch)
            full = change(args, copied), change(kwargs, copied)
            try:
                wanted = call(row.function(), *full)
            except (RuntimeError, ValueError, IndexError, ZeroDivisionError):
                return None  # repeated values can make a sample senseless, a singular matrix for one
            got = call(row.function(), args, kwargs)
            return difference(got, wanted) if tensors_in(got) else None

        report.guard(f"{dtype} expanded", sample, check)
    report.close()


@every_row
def test_meta(row):
    """On `meta` the same shapes, dtypes and strides come out, without data, or an error that says why they cannot."""
    report = Report(row)
    for dtype, sample in cases(row, ("float32", "int64")):

        def check(dtype=dtype, sample=sample):
            args, kwargs, wanted = evaluate(row, dtype, sample)
            if not tensors_in(args) or not tensors_in(wanted):
                return None
            args, kwargs = draw(row, sample, dtype)
            move = lambda x: torch.empty_strided(tuple(x.shape), x.stride(), dtype=x.dtype, device="meta")
            try:
                got = call(row.function(), change(args, move), change(kwargs, move))
            except RuntimeError as error:
                if "needs values" in row.traits and "meta" in str(error).lower():
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
    """Whether several indices may name one element: the steps, from the smallest on, do not clear what lies below."""
    reach = 0
    for stride, size in sorted((abs(stride), size) for size, stride in zip(x.shape, x.stride()) if size > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


@every_row
def test_views_share_memory(row):
    if row.run not in ("view", "views"):
        pytest.skip("no view")
    report = Report(row)
    for dtype, sample in cases(row, ("float32", "complex64", "int64")):

        def check(dtype=dtype, sample=sample):
            args, _, got = evaluate(row, dtype, sample)
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
