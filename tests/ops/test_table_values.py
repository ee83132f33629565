"""Every row of the operator table on every dtype: values, dtypes of results, refused dtypes."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from references_nn import REFERENCES
from table_cases import (
    ALL,
    HALVES,
    RANK,
    ROWS,
    WIDE,
    Report,
    array,
    call,
    cases,
    category,
    depends_on_dtype,
    difference,
    draw,
    evaluate,
    every_row,
    is_tensor,
    name_of,
    reference,
    same_bits,
    tensor,
    tensors_in,
)
from without_reference import WHY_NONE


def refuses_alike(row, args, kwargs):
    """Whether the reference finds the sample senseless as well (an integer to a negative power)."""
    try:
        reference(row, args, kwargs)
    except (ValueError, ZeroDivisionError, TypeError):
        return True
    return False


@every_row
def test_values(row):
    """The samples give what the NumPy expression gives, as functions and as methods, and leave their inputs alone."""
    report = Report(row)
    for dtype, sample in cases(row):

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(row, sample, dtype)
            before = [array(x) for x in tensors_in((args, kwargs))]
            try:
                got = call(row.function(), args, kwargs)
            except (RuntimeError, ValueError, ZeroDivisionError):
                if row.reference and refuses_alike(row, args, kwargs):
                    return None
                raise
            if not row.writes() and any(
                a.tobytes() != array(x).tobytes() for a, x in zip(before, tensors_in((args, kwargs)))
            ):
                return "changed an input"
            if {"function", "method"} <= set(row.variants) and is_tensor(args[0] if args else None):
                # What writes to its first argument gave back that argument: the method gets one of its own.
                other = call(row.method(), *(draw(row, sample, dtype) if row.writes() else (args, kwargs)))
                if not same_bits(other, got):
                    return f"the method differs from the function: {difference(other, got)}"
            args, kwargs = draw(row, sample, dtype)
            wanted = reference(row, args, kwargs)
            return None if wanted is None else difference(got, wanted)

        report.guard(dtype, sample, check)
    report.close()


def test_every_row_has_a_reference_or_a_reason():
    with_one = {row.full_name() for row in ROWS if row.reference} | set(REFERENCES)
    assert {row.full_name() for row in ROWS} == with_one | set(WHY_NONE)
    assert not with_one & set(WHY_NONE)
    # A row says its own reference where an expression does.
    assert not {row.full_name() for row in ROWS if row.reference} & set(REFERENCES)


@every_row
def test_samples_are_accepted_in_several_dtypes(row):
    """A row whose samples all stand for one dtype would pass the other tests without being tested."""
    assert row.samples, "no samples"
    assert row.dtypes, "no dtypes"
    assert list(cases(row)), "no cases"


def join(a, b):
    """The smallest dtype that holds both, in torch's lattice."""
    if a == b or b is None:
        return a
    if a is None:
        return b
    if RANK.index(category(a)) < RANK.index(category(b)):
        a, b = b, a
    if category(a) == "complex":
        wide = "complex128" in (a, b) or "float64" in (a, b)
        return "complex128" if wide else "complex64"
    if category(a) != category(b):
        return a
    if category(a) == "float":
        return max(a, b, key=lambda d: int(d[-2:])) if not {a, b} <= set(HALVES) else "float32"
    if "uint8" in (a, b):
        other = b if a == "uint8" else a
        return "int16" if other == "int8" else other
    return max(a, b, key=lambda d: int(d[3:]))


def combined(operands):
    """The common dtype of operands given as (dtype, "tensor" | "zero" | "number")."""
    levels = {"tensor": None, "zero": None, "number": None}
    for dtype, kind in operands:
        if kind == "number":
            dtype = {"float": "float32", "complex": "complex64"}.get(category(dtype), dtype)
        levels[kind] = join(dtype, levels[kind])
    result = None
    for kind in ("tensor", "zero", "number"):
        lower = levels[kind]
        if result is None:
            result = lower
        elif lower is not None and RANK.index(category(lower)) > RANK.index(category(result)):
            # A float keeps its width when it meets a complex number of a lower level.
            narrow = category(result) == "float" and result != "float64"
            result = "complex64" if narrow else join(result, lower)
    return result


def expected_dtype(row, operands):
    common = combined(operands)
    if row.promote == "ToBool":
        return "bool"
    if row.promote == "IntToFloat" and category(common) in ("bool", "int"):
        return "float32"
    if row.promote == "ComplexToReal" and category(common) == "complex":
        return {"complex64": "float32", "complex128": "float64"}[common]
    return common


def make_operand(dtype, kind):
    if kind == "number":
        return {"bool": True, "int": 2, "float": 2.5, "complex": 2.5 + 1j}[category(dtype)]
    return tensor(np.ones((2,) if kind == "tensor" else ()), dtype)


@every_row
def test_result_dtypes(row):
    """Every pair of dtypes, as tensors, 0-d tensors and numbers, promotes as torch promotes."""
    kinds = [p["kind"] for p in row.params if p["default"] is None]
    if row.run != "pointwise" or row.promote == "WithNumbers" or not set(kinds) <= {"Tensor", "Operand"}:
        pytest.skip("the row's results have dtypes of their own")
    report = Report(row)
    known = [dtype for dtype in ALL if dtype not in WIDE]
    forms = [("tensor", "tensor"), ("tensor", "zero"), ("tensor", "number"), ("zero", "number"), ("zero", "tensor")]
    if len(kinds) == 1:
        combinations = [[(dtype, kind)] for dtype in known for kind in ("tensor", "zero")]
    elif len(kinds) == 2 and kinds[1] == "Operand":
        combinations = [
            [(a, x), (b, y)]
            for a, b in itertools.product(known, known)
            for x, y in forms
            if y != "number" or b in ("bool", "int64", "float64", "complex128")
        ]
    else:
        combinations = [
            [(a, "tensor")] + [(b, "tensor")] * (len(kinds) - 1) for a, b in itertools.product(known, known)
        ]
    for operands in combinations:
        wanted = expected_dtype(row, operands)
        computed = combined(operands)
        if row.promote == "IntToFloat" and category(computed) in ("bool", "int"):
            computed = "float32"
        args = [make_operand(*operand) for operand in operands]
        text = ", ".join(f"{dtype} {kind}" for dtype, kind in operands)
        try:
            got = call(row.function(), args, {})
        except (RuntimeError, TypeError) as error:
            # Some operators refuse more than dtypes, in words of their own.
            if computed in row.dtypes and type(error) is not RuntimeError:
                report.add("", text, f"{type(error).__name__}: {error}")
            continue
        if computed not in row.dtypes:
            report.add("", text, f"computed in {computed}, which the row does not accept")
        elif name_of(got.dtype) != wanted:
            report.add("", text, f"got dtype {name_of(got.dtype)}, wanted {wanted}")
    report.close()


#: Rows that take more than their column says, as torch does: promotion makes another dtype of the operands, a part of the
#: work needs no arithmetic, or another row does it. The list is written by `python tests/ops/test_table_values.py`.
OTHERS = json.loads((Path(__file__).parent.parent / "data" / "other_dtypes.json").read_text())


def has_elements(row, sample, dtype):
    """Whether a sample has something to compute, and the dtype the numbers in its text."""
    try:
        return all(tensor.numel() for tensor in tensors_in(draw(row, sample, dtype)[0]))
    except RuntimeError:
        return False


def other_dtypes(row, report):
    """The dtypes that a row takes though its column does not name them."""
    taken = set()
    for sample in row.samples:
        for dtype in ALL:
            if dtype in row.dtypes or not depends_on_dtype(sample) or not has_elements(row, sample, dtype):
                continue

            def check(dtype=dtype, sample=sample):
                try:
                    evaluate(row, dtype, sample)
                except (
                    RuntimeError,
                    NotImplementedError,
                    TypeError,
                    ValueError,
                    IndexError,
                    ZeroDivisionError,
                ) as error:
                    return None if str(error) else "an exception without words"
                taken.add(dtype)
                return None

            report.guard(dtype, sample, check)
    return [dtype for dtype in ALL if dtype in taken]


@every_row
def test_other_dtypes_are_refused_in_words(row):
    """A dtype that the row does not accept gives an exception of torch's classes, never a panic, a crash or a result."""
    report = Report(row)
    taken = other_dtypes(row, report)
    if taken != OTHERS.get(row.full_name(), []):
        report.add("", "", f"takes {taken} too, where the record says {OTHERS.get(row.full_name(), [])}")
    report.close()


if __name__ == "__main__":
    found = {row.full_name(): other_dtypes(row, Report(row)) for row in ROWS}
    lines = [f"{json.dumps(name)}: {json.dumps(taken)}" for name, taken in found.items() if taken]
    (Path(__file__).parent.parent / "data" / "other_dtypes.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
