"""What the operator table says of its rows: bad calls, examples, names, the same bits for any number of threads."""

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
    depends_on_dtype,
    difference,
    directions,
    draw,
    every_row,
    for_numpy,
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


def large_calls():
    """Calls for rows whose samples do not grow as they are, by the rows' full names."""
    matrices = "t(64, 24, 24) + torch.eye(24) * 9"
    definite = "t(64, 24, 24) * 0.1 + torch.eye(24) * 4"
    pivots = "torch.arange(1, 25, dtype=torch.int32).expand(64, 24)"
    factored = f"{matrices}, {pivots}, t(64, 24, 8)"
    tensors = "(t(256, 256) + torch.eye(256) * 99).reshape(16, 16, 256)"
    packed = "t(3000, 20), torch.tensor([2000, 1000])"
    gates = lambda count: ", ".join([f"t({20 * count}, 20), t({20 * count}, 20), t({20 * count}), t({20 * count})"] * 2)
    plane, space = "t(4, 8, 60, 60), unit(4, 60, 60, 2)", "t(2, 4, 16, 16, 16), unit(2, 16, 16, 16, 3)"
    steps = "t(50, 64, 20).log_softmax(-1)"
    calls = {
        "(500, 400)": "zeros ones rand randn",
        "200000": "arange randperm fft.fftfreq fft.rfftfreq hann_window hamming_window blackman_window bartlett_window"
        " kaiser_window",
        "500, 500": "tril_indices triu_indices eye",
        "t(200000), (50000, 150000)": "split_with_sizes_copy unsafe_split_with_sizes",
        "t(64, 24, 24)": "linalg.eigh linalg.eigvalsh linalg.eigvals",
        definite: "linalg.cholesky_ex linalg.cholesky cholesky cholesky_inverse",
        matrices: "linalg.lu_factor_ex linalg.lu_factor linalg.lu linalg.inv_ex linalg.inv inverse linalg.det det"
        " linalg.slogdet slogdet logdet",
        factored: "linalg.lu_solve linalg.ldl_solve",
        f"{matrices}, t(64, 24, 8)": "linalg.solve linalg.solve_ex",
        f"{matrices}, t(64, 24, 8), upper=True": "linalg.solve_triangular",
        f"t(64, 24, 8), {matrices}": "triangular_solve",
        f"t(64, 24, 8), {matrices}, {pivots}": "lu_solve",
        f"{matrices}, 'fro'": "linalg.cond.p_str",
        f"{tensors}, 2": "linalg.tensorinv",
        f"{tensors}, t(16, 16)": "linalg.tensorsolve",
        "t(70000, 3), t(70000, 3)": "linalg.cross",
        "t(70000, 3), t(70000, 3), 1": "cross",
        "t(800, 256), (256,), pos(256), t(256)": "nn.functional.layer_norm",
        "t(800, 256), (256,), None, None, 0.1": "native_layer_norm",
        "t(800, 256), (256,)": "nn.functional.rms_norm",
        "t(800, 256), pos(256), t(256), (800, 1, 256, 1), False, True, 0.1": "_normalize_layer",
        "t(40, 64, 100), pos(64), t(64), (40, 8, 8, 100), False, True, 0.1": "_normalize_group",
        "t(2000, 64), pos(64), t(64), (2000, 64, 1, 1), True, True, 0.1": "_normalize_batch",
        "t(800, 256), t(800, 256), t(800, 1), pos(800, 1), pos(256), (800, 1, 256, 1), False, True, 0.1": (
            "_normalize_backward"
        ),
        "t(40, 64, 50), pos(64), t(64), 40, 64, 50, 8, 0.1": "native_group_norm",
        "t(5000, 64), i(40, 5000), 40, -1, False": "embedding_dense_backward",
        "t(1, 1000), (300, 1000)": "broadcast_to",
        "t(400, 500), (1, 500)": "sum_to_size",
        f"{packed}, t(2, 2000, 20), [{gates(1)}], True, 1, 0.0, True, True": "rnn_tanh.data rnn_relu.data",
        f"{packed}, t(2, 2000, 20), [{gates(3)}], True, 1, 0.0, True, True": "gru.data",
        f"{packed}, [t(2, 2000, 20), t(2, 2000, 20)], [{gates(4)}], True, 1, 0.0, True, True": "lstm.data",
        "t(5000, 20), i(20, 5000, 20)": "nn.functional.multilabel_margin_loss",
        "t(512, 48, 12), (4, 5), 2": "nn.functional.fold",
        f"{plane}, align_corners=False": "nn.functional.grid_sample",
        f"{plane}, 0, 0, False": "grid_sampler grid_sampler_2d",
        f"{space}, 0, 0, True": "grid_sampler_3d",
        "t(64, 2, 3), (64, 1, 60, 60), False": "affine_grid_generator",
        f"{steps}, i(19, 64, 10) + 1, (50,) * 64, (10,) * 64": "ctc_loss.IntList",
        f"{steps}, i(19, 64, 10) + 1, torch.tensor([50] * 64), torch.tensor([10] * 64)": "ctc_loss.Tensor",
        "t(200000), b(200000), t(200000)": "masked_scatter.out_of_place",
        "t(600, 400), t(300, 400), 0, 100, 400": "slice_scatter",
        "t(400000), t(200000), (200000,), (2,)": "as_strided_scatter",
        "b(500, 400)": "where.condition",
        "i(3, 100000)": "repeat_interleave.Tensor",
        "(500, 400), 2": "full",
        "1, 200001": "arange.start_step",
        "0, 1, 200000": "linspace",
        "0, 2, 200000": "logspace",
        "10, (500, 400)": "randint",
        "3, 10, (500, 400)": "randint.low",
        "0., 1., (500, 400)": "normal.float_float",
    }
    return {name: sample for sample, names in calls.items() for name in names.split()}


LARGE_CALLS = large_calls()

#: Rows that no thread can disturb, or that another row runs.
NOT_SHARED = {
    "empty": "its elements are not written",
    "empty_strided": "its elements are not written",
    "empty_permuted": "its elements are not written",
    "scalar_tensor": "one element",
    "searchsorted.Scalar": "one element",
    "bucketize.Scalar": "one element",
    "linalg.eig": "its gradient refuses random directions; eigvals runs the same kernel",
}


def large_cases(row):
    """The row's samples with factors that make them large, and the call written for it."""
    name = ".".join(filter(None, (row.namespace, row.name)))
    if name in LARGE_CALLS:
        yield LARGE_CALLS[name], 1
        return
    for sample in row.samples:
        scale = enlarge(row, sample) if depends_on_dtype(sample) else 0
        if scale:
            yield sample, scale


@every_row
def test_threads(row, thorough):
    """1, 2, 3 and 7 threads give the same bits, forward and backward."""
    if row.run in ("view", "views") or "float32" not in row.dtypes or row not in PUBLIC:
        pytest.skip("no arithmetic, or called by rows that have checked the arguments")
    report = Report(row)
    tested = 0
    before = torch.get_num_threads()
    for sample, scale in large_cases(row):
        if tested and not thorough:
            break
        first = None
        try:
            for threads in (1, 2, 3, 7):
                torch.set_num_threads(threads)
                try:
                    args, kwargs = draw(row, sample, "float32", scale)
                    inputs = [x for x in tensors_in((args, kwargs)) if is_inexact(x) and row.is_differentiable()]
                    for x in inputs:
                        x.requires_grad_()
                    if row.writes():
                        args = (args[0].clone(), *args[1:])
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
    name = ".".join(filter(None, (row.namespace, row.name)))
    assert tested or name in NOT_SHARED, "no sample grows: write a large call for this row into LARGE_CALLS"


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
SIGNS = {
    operator.add: torch.add,
    operator.sub: torch.sub,
    operator.mul: torch.mul,
    operator.truediv: torch.div,
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
