"""What the operator table says of its rows: bad calls, examples, names, the same bits for any number of threads."""

import doctest
import math

import pytest
from table_cases import (
    PUBLIC,
    ROWS,
    Report,
    call,
    depends_on_dtype,
    difference,
    directions,
    draw,
    every_row,
    gradients,
    is_inexact,
    same_bits,
    tensors_in,
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


#: Pieces of work have 32,768 elements; this many make the threads share.
LARGE = 200_000


def enlarge(row, sample):
    """A factor for the sample's sizes that makes its largest tensor large."""
    tensors = tensors_in(draw(row, sample, "float32"))
    numel = max((x.numel() for x in tensors), default=0)
    rank = max((sum(size > 1 for size in x.shape) for x in tensors), default=0)
    if not numel or not rank:
        return 0
    # Results may grow faster than arguments: as many pairs, say, as the square of the elements.
    small, double = (results_numel(row, sample, scale) for scale in (1, 2))
    growth = math.log2(double / small) if small and double and double > small else rank
    return round(min((LARGE / numel) ** (1 / rank), (20 * LARGE / (small or 1)) ** (1 / growth)))


def results_numel(row, sample, scale):
    try:
        args, kwargs = draw(row, sample, "float32", scale)
        return sum(x.numel() for x in tensors_in(call(row.function(), args, kwargs)))
    except (RuntimeError, IndexError, ValueError):
        return 0  # the sample has numbers that do not grow with its sizes


@every_row
def test_threads(row, thorough):
    """1, 2, 3 and 7 threads give the same bits, forward and backward."""
    if row.run in ("view", "views") or "float32" not in row.dtypes or row not in PUBLIC:
        pytest.skip("no arithmetic, or called by rows that have checked the arguments")
    report = Report(row)
    tested = 0
    before = torch.get_num_threads()
    for sample in row.samples:
        scale = enlarge(row, sample) if depends_on_dtype(sample) else 0
        if not scale or (tested and not thorough):
            continue
        first = None
        try:
            for threads in (1, 2, 3, 7):
                torch.set_num_threads(threads)
                try:
                    args, kwargs = draw(row, sample, "float32", scale)
                    inputs = [x for x in tensors_in((args, kwargs)) if is_inexact(x) and row.is_differentiable()]
                    for x in inputs:
                        x.requires_grad_()
                    results = tensors_in(call(row.function(), args, kwargs))
                except (RuntimeError, IndexError, ValueError):
                    if first is not None:
                        raise
                    break  # the sample has numbers that do not grow with its sizes
                wanted = [r for r in results if r.requires_grad]
                try:
                    grads = gradients(wanted, inputs, directions(wanted, 7)) if wanted else []
                except NotImplementedError:
                    grads = []  # torch knows none either
                found = [*results, *grads]
                if first is None:
                    first = found
                elif not same_bits(first, found):
                    report.add("float32", sample, f"{threads} threads: {difference(found, first) or 'other bits'}")
                    break
                tested += 1
        finally:
            torch.set_num_threads(before)
    report.close()


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
