"""What the operator table says of its rows: bad calls, examples, names."""

import doctest
import math
import operator
import re

import numpy as np
import pytest
from table_cases import (
    PUBLIC,
    ROWS,
    Report,
    call,
    cases,
    difference,
    draw,
    every_row,
    for_numpy,
    same_bits,
)

import rushlight as torch


@every_row
def test_errors(row):
    """Bad calls give torch's class and torch's sentence."""
    report = Report(row)
    dtype = next((d for d in ("float32", "int64", "bool", "complex64") if d in row.dtypes), "float32")
    for sample, kind, sentence in row.errors:

        def check(sample=sample, kind=kind, sentence=sentence):
            try:
                args, kwargs = draw(row, sample, dtype)
                call(row.function(), args, kwargs)
            except Exception as error:
                first = str(error).split("\n")[0]
                if kind not in [base.__name__ for base in type(error).__mro__] or not first.startswith(
                    sentence.split("\n")[0]
                ):
                    return f"got {type(error).__name__}: {first}; wanted {kind}: {sentence}"
                return None
            return f"no error; wanted {kind}: {sentence}"

        report.guard(dtype, sample, check)
    report.close()


@every_row
def test_documentation(row):
    """The example in the documentation runs and prints what it says."""
    if row not in PUBLIC and "torch._" in row.doc:
        pytest.skip("the engine's own, which `torch` does not show")
    examples = doctest.DocTestParser().get_doctest(row.doc, {"torch": torch}, row.name, None, None)
    output = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(examples, out=output.append)
    assert not runner.failures, "".join(output)


@every_row
def test_names(row):
    """A row is found under its name, its aliases, and as a method."""
    if row not in PUBLIC:
        pytest.skip("the engine's own")
    names = [".".join(filter(None, (row.namespace, row.python_name))), *row.aliases]
    for name in names:
        if "function" in row.variants:
            place = torch
            for part in name.split("."):
                assert hasattr(place, part), f"torch.{name} is missing"
                place = getattr(place, part)
            assert callable(place)
        own = name.rpartition(".")[2]
        if "method" in row.variants and name.rpartition(".")[0] == row.namespace:
            assert callable(getattr(torch.Tensor, own, None)), f"Tensor.{own} is missing"


def test_the_table_is_all_that_python_calls():
    """Nothing is callable that no row explains."""
    spaces = torch._C._functions
    known = {(row.namespace, row.python_name) for row in ROWS}
    for row in ROWS:
        for alias in row.aliases:
            space, _, name = alias.rpartition(".")
            known.add((space, name))
    known |= {(space, name + "_") for space, name in known}
    assert {(space, name) for space, names in spaces.items() for name in names} <= known


#: What CUDA's functions are called in NumPy where the names differ, and what it lacks.
CUDA_FUNCTIONS = {
    **{name: getattr(np, name) for name in dir(np) if callable(getattr(np, name))},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf, otypes=[float]),
    "erfc": np.vectorize(math.erfc, otypes=[float]),
}


def in_cuda(expression, bound):
    """A CUDA expression over arguments, which is C: but for questions, Python reads it the same way."""
    if choice := re.fullmatch(r"(.*) \? (.*) : (.*)", expression):
        expression = "where({}, {}, {})".format(*choice.groups())
    with np.errstate(all="ignore"):
        return eval(expression.replace("||", "|").replace("&&", "&"), {**CUDA_FUNCTIONS, **for_numpy(bound, "f")})


@pytest.mark.parametrize("row", [row for row in ROWS if row.cuda], ids=lambda row: row.full_name())
def test_cuda_expressions_say_what_the_loops_compute(row):
    """No compiler reads them yet: until one does, this keeps them true."""
    report, tested = Report(row), 0
    # In narrow integers and bool, C computes in `int`.
    for dtype, sample in cases(row, ("float32", "float64", "int64", "complex128")):
        args, kwargs = draw(row, sample, dtype)
        bound = row.bind(args, kwargs)
        if bound is None:
            continue
        try:
            got = call(row.function(), args, kwargs)
        except RuntimeError:
            continue  # a sample for other dtypes
        wanted = in_cuda(row.cuda, bound)
        tested += 1
        if text := difference(got, wanted):
            report.add(dtype, sample, text)
    report.close()
    assert tested


#: Python's signs, and the functions that they stand for.
def quotient(x, y):
    """`x / y`: a number over a tensor is the number times the reciprocals."""
    return torch.div(x, y) if isinstance(x, torch.Tensor) else y.reciprocal() * x


SIGNS = {
    operator.add: torch.add,
    operator.sub: torch.sub,
    operator.mul: torch.mul,
    operator.truediv: quotient,
    operator.floordiv: torch.floor_divide,
    operator.mod: torch.remainder,
    operator.and_: torch.bitwise_and,
    operator.or_: torch.bitwise_or,
    operator.xor: torch.bitwise_xor,
    operator.lshift: torch.bitwise_left_shift,
    operator.rshift: torch.bitwise_right_shift,
}


def outcome(function, *operands):
    try:
        return function(*operands)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: sign.__name__)
def test_a_sign_refuses_what_its_function_refuses(sign):
    """Signs take a short way, which asks a row's check only about the operands that the row says it concerns."""
    dtypes = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.complex64]
    tensors = [torch.tensor(values).to(dtype) for dtype in dtypes for values in ([2, 1], [0, 1], [])]
    others = [*tensors, True, False, 0, -1, 3, 0.0, 1.5, float("nan"), 1j]
    for x in tensors:
        for y in others:
            for pair in ((x, y), (y, x)):
                signed, named = outcome(sign, *pair), outcome(SIGNS[sign], *pair)
                if isinstance(named, tuple):
                    # Of operands that no row takes Python itself says what it says of all objects.
                    assert signed == named or signed[0] is TypeError, (pair, signed, named)
                else:
                    assert same_bits(signed, named), (pair, signed, named)
