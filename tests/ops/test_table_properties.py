"""The operator table's data: invalid calls, examples, names."""

import doctest
import operator

import pytest
from table_cases import (
    OPERATORS,
    PUBLIC,
    Report,
    call,
    draw,
    every_operator,
    same_bits,
)

import rushlight as torch


@every_operator
def test_errors(op):
    """Invalid calls raise torch's exception class with torch's message."""
    report = Report(op)
    dtype = next((d for d in ("float32", "int64", "bool", "complex64") if d in op.dtypes), "float32")
    for sample, kind, sentence in op.errors:

        def check(sample=sample, kind=kind, sentence=sentence):
            try:
                args, kwargs = draw(op, sample, dtype)
                call(op.function(), args, kwargs)
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


@every_operator
def test_documentation(op):
    """The example in the documentation runs and prints its output."""
    if op not in PUBLIC and "torch._" in op.doc:
        pytest.skip("the engine's own, which `torch` does not show")
    examples = doctest.DocTestParser().get_doctest(op.doc, {"torch": torch}, op.name, None, None)
    output = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(examples, out=output.append)
    assert not runner.failures, "".join(output)


@every_operator
def test_names(op):
    """An operator is available under its name, its aliases, and as a method."""
    if op not in PUBLIC:
        pytest.skip("the engine's own")
    names = [".".join(filter(None, (op.namespace, op.python_name))), *op.aliases]
    for name in names:
        if "function" in op.variants:
            place = torch
            for part in name.split("."):
                assert hasattr(place, part), f"torch.{name} is missing"
                place = getattr(place, part)
            assert callable(place)
        own = name.rpartition(".")[2]
        if "method" in op.variants and name.rpartition(".")[0] == op.namespace:
            assert callable(getattr(torch.Tensor, own, None)), f"Tensor.{own} is missing"


def test_the_table_is_all_that_python_calls():
    """Every function belongs to an operator of the table."""
    spaces = torch._C._functions
    known = {(op.namespace, op.python_name) for op in OPERATORS}
    for op in OPERATORS:
        for alias in op.aliases:
            space, _, name = alias.rpartition(".")
            known.add((space, name))
    known |= {(space, name + "_") for space, name in known}
    assert {(space, name) for space, names in spaces.items() for name in names} <= known


#: Python's operators, and the corresponding functions.
def quotient(*operands):
    """Of `x` and `y`, `x / y`: a number divided by a tensor is the number times the reciprocals."""
    x, y = operands
    return torch.div(*operands) if isinstance(x, torch.Tensor) else y.reciprocal() * x


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
    """Python operators take the fast path, which runs an operator's check only for the operands that the check concerns."""
    dtypes = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.complex64]
    tensors = [torch.tensor(values).to(dtype) for dtype in dtypes for values in ([2, 1], [0, 1], [])]
    others = [*tensors, True, False, 0, -1, 3, 0.0, 1.5, float("nan"), 1j]
    for x in tensors:
        for y in others:
            for pair in ((x, y), (y, x)):
                signed, named = outcome(sign, *pair), outcome(SIGNS[sign], *pair)
                if isinstance(named, tuple):
                    # If no operator accepts the operands, the message is Python's.
                    assert signed == named or signed[0] is TypeError, (pair, signed, named)
                else:
                    assert same_bits(signed, named), (pair, signed, named)
