"""Tests every operator of the table for every dtype: values, dtypes of results, unsupported dtypes."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from references_nn import REFERENCES
from table_cases import (
    ALL,
    HALVES,
    OPERATORS,
    RANK,
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
    every_operator,
    is_tensor,
    name_of,
    reference,
    same_bits,
    tensor,
    tensors_in,
)
from without_reference import WHY_NONE


def refuses_alike(op, args, kwargs):
    """Whether the reference also rejects the sample (an integer to a negative power)."""
    try:
        reference(op, args, kwargs)
    except (ValueError, ZeroDivisionError, TypeError):
        return True
    return False


@every_operator
def test_values(op):
    """Samples give the values of the NumPy expression, as functions and as methods, and do not change their inputs."""
    report = Report(op)
    for dtype, sample in cases(op):

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(op, sample, dtype)
            before = [array(x) for x in tensors_in((args, kwargs))]
            try:
                got = call(op.function(), args, kwargs)
            except (RuntimeError, ValueError, ZeroDivisionError):
                if op.reference and refuses_alike(op, args, kwargs):
                    return None
                raise
            if not op.writes() and any(
                a.tobytes() != array(x).tobytes() for a, x in zip(before, tensors_in((args, kwargs)))
            ):
                return "changed an input"
            if {"function", "method"} <= set(op.variants) and is_tensor(args[0] if args else None):
                # An operator that writes to its first argument returned it, so the method gets a new one.
                other = call(op.method(), *(draw(op, sample, dtype) if op.writes() else (args, kwargs)))
                if not same_bits(other, got):
                    return f"the method differs from the function: {difference(other, got)}"
            args, kwargs = draw(op, sample, dtype)
            wanted = reference(op, args, kwargs)
            return None if wanted is None else difference(got, wanted)

        report.guard(dtype, sample, check)
    report.close()


def test_every_row_has_a_reference_or_a_reason():
    with_one = {op.full_name() for op in OPERATORS if op.reference} | set(REFERENCES)
    assert {op.full_name() for op in OPERATORS} == with_one | set(WHY_NONE)
    assert not with_one & set(WHY_NONE)
    # An operator has its reference in its definition if an expression is sufficient.
    assert not {op.full_name() for op in OPERATORS if op.reference} & set(REFERENCES)


@every_operator
def test_samples_are_accepted_in_several_dtypes(op):
    """An operator whose samples all have a fixed dtype would pass the other tests without being tested."""
    assert op.samples, "no samples"
    assert op.dtypes, "no dtypes"
    assert list(cases(op)), "no cases"


def join(a, b):
    """The smallest dtype that both dtypes can be converted to, in torch's lattice."""
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
            # A float keeps its width in an operation with a complex number of lower priority.
            narrow = {"float16": "complex32", "bfloat16": "complex64", "float32": "complex64"}
            result = narrow.get(result) or join(result, lower)
    return result


def expected_dtype(op, operands):
    common = combined(operands)
    if op.promote == "ToBool":
        return "bool"
    if op.promote == "IntToFloat" and category(common) in ("bool", "int"):
        return "float32"
    if op.promote == "ComplexToReal" and category(common) == "complex":
        return {"complex32": "float16", "complex64": "float32", "complex128": "float64"}[common]
    return common


def make_operand(dtype, kind):
    if kind == "number":
        return {"bool": True, "int": 2, "float": 2.5, "complex": 2.5 + 1j}[category(dtype)]
    return tensor(np.ones((2,) if kind == "tensor" else ()), dtype)


@every_operator
def test_result_dtypes(op):
    """Every pair of dtypes, as tensors, zero-dimensional tensors and numbers, promotes as in torch."""
    kinds = [p["kind"] for p in op.params if p["default"] is None]
    if op.implementation != "pointwise" or op.promote == "WithNumbers" or not set(kinds) <= {"Tensor", "Operand"}:
        pytest.skip("the operator's results have dtypes of their own")
    report = Report(op)
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
        wanted = expected_dtype(op, operands)
        computed = combined(operands)
        if op.promote == "IntToFloat" and category(computed) in ("bool", "int"):
            computed = "float32"
        args = [make_operand(*operand) for operand in operands]
        text = ", ".join(f"{dtype} {kind}" for dtype, kind in operands)
        try:
            got = call(op.function(), args, {})
        except (RuntimeError, TypeError) as error:
            # Some operators reject other things besides dtypes, with their own messages.
            if computed in op.dtypes and type(error) is not RuntimeError:
                report.add("", text, f"{type(error).__name__}: {error}")
            continue
        if computed not in op.dtypes:
            report.add("", text, f"computed in {computed}, which the operator does not accept")
        elif name_of(got.dtype) != wanted:
            report.add("", text, f"got dtype {name_of(got.dtype)}, wanted {wanted}")
    report.close()


#: Operators that accept more dtypes than they declare, as in torch: promotion changes the dtype of the operands, a part
#: of the work needs no arithmetic, or another operator does it. `python tests/ops/test_table_values.py` writes the
#: list.
OTHERS = json.loads((Path(__file__).parent.parent / "data" / "other_dtypes.json").read_text())


def has_elements(op, sample, dtype):
    """Whether a sample has something to compute, and the dtype supports the numbers in its text."""
    try:
        return all(tensor.numel() for tensor in tensors_in(draw(op, sample, dtype)[0]))
    except RuntimeError:
        return False


def other_dtypes(op, report):
    """The dtypes that an operator accepts without declaring them."""
    taken = set()
    for sample in op.samples:
        for dtype in ALL:
            if dtype in op.dtypes or not depends_on_dtype(sample) or not has_elements(op, sample, dtype):
                continue

            def check(dtype=dtype, sample=sample):
                try:
                    evaluate(op, dtype, sample)
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


@every_operator
def test_other_dtypes_are_refused_in_words(op):
    """An unsupported dtype raises an exception of torch's class. It never panics, crashes or returns a result."""
    report = Report(op)
    taken = other_dtypes(op, report)
    if taken != OTHERS.get(op.full_name(), []):
        report.add("", "", f"takes {taken} too, where the record says {OTHERS.get(op.full_name(), [])}")
    report.close()


if __name__ == "__main__":
    found = {op.full_name(): other_dtypes(op, Report(op)) for op in OPERATORS}
    lines = [f"{json.dumps(name)}: {json.dumps(taken)}" for name, taken in found.items() if taken]
    (Path(__file__).parent.parent / "data" / "other_dtypes.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
