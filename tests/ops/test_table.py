"""Every row of the operator table against what the table says of it: values, dtypes, strides, variants, gradients."""

import doctest
import itertools
import math
import warnings

import numpy as np
import pytest
from table_cases import (
    ALL,
    COMPLEX,
    FLOATS,
    HALVES,
    PUBLIC,
    ROWS,
    WIDE,
    Report,
    array,
    call,
    cases,
    cast,
    change,
    depends_on_dtype,
    difference,
    draw,
    dtype_of,
    is_inexact,
    is_tensor,
    name_of,
    reference,
    same_bits,
    tensor,
    tensors_in,
)

import rushlight as torch

every_row = pytest.mark.parametrize("row", ROWS, ids=repr)
FEW = ("bool", "int32", "bfloat16", "float32", "complex64")
#: Rows that see memory and not only elements: another layout is another question.
SEES_MEMORY = {"as_strided", "view", "view_as", "view.dtype", "view_as_real", "view_as_complex", "is_contiguous"}

#: In place these refuse more than dtypes and shapes say, in torch's words.
REFUSES_IN_PLACE = {"abs", "float_power"}
#: Samples whose gradient is not the derivative, as torch has it: it is divided by how often an index occurs.
NO_DERIVATIVE = {("embedding", "t(4, 3), i(4, 5), -1, True")}


def evaluate(row, dtype, sample):
    args, kwargs = draw(row, sample, dtype)
    return args, kwargs, call(row.function(), args, kwargs)


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
                other = call(row.method(), args, kwargs)
                if not same_bits(other, got):
                    return f"the method differs from the function: {difference(other, got)}"
            args, kwargs = draw(row, sample, dtype)
            wanted = reference(row, args, kwargs)
            return None if wanted is None else difference(got, wanted)

        report.guard(dtype, sample, check)
    report.close()


@every_row
def test_samples_are_accepted_in_several_dtypes(row):
    """A row whose samples all stand for one dtype would pass the other tests without being tested."""
    assert row.samples, "no samples"
    assert row.dtypes, "no dtypes"
    assert list(cases(row)), "no cases"


# --- Dtypes of results -------------------------------------------------------------------------------------------


def category(dtype):
    return "bool" if dtype == "bool" else "complex" if dtype in COMPLEX else "float" if dtype in FLOATS else "int"


RANK = ("bool", "int", "float", "complex")


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


@every_row
def test_other_dtypes_are_refused_in_words(row):
    """A dtype that the row does not accept gives an exception of torch's classes, never a panic or a crash."""
    report = Report(row)
    for sample in row.samples:
        for dtype in ALL:
            if dtype in row.dtypes or not depends_on_dtype(sample):
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

            report.guard(dtype, sample, check)
    report.close()


# --- Strides -----------------------------------------------------------------------------------------------------


def laid_out(x, strides, offset):
    """The values of `x` with other strides, in memory of its own that holds other values in the gaps."""
    length = offset + sum((size - 1) * stride for size, stride in zip(x.shape, strides) if size) + 2
    values = array(x)
    memory = np.ones(length, values.dtype)
    steps = [stride * values.itemsize for stride in strides]
    np.lib.stride_tricks.as_strided(memory[offset:], values.shape, steps)[...] = values
    return torch.as_strided(tensor(memory, name_of(x.dtype)), tuple(x.shape), strides, offset)


def strided(x):
    """Every second element of a larger memory, from its fourth on."""
    strides, step = [], 2
    for size in reversed(x.shape):
        strides.insert(0, step)
        step *= max(size, 1) + 1
    return laid_out(x, tuple(strides), 3)


def transposed(x):
    """Column-major memory."""
    strides, step = [], 1
    for size in x.shape:
        strides.append(step)
        step *= max(size, 1)
    return laid_out(x, tuple(strides), 0)


def reversed_(x):
    """Negative strides in every dimension."""
    if x.dtype == torch.bfloat16 or x.dim() == 0:
        return strided(x)
    values = array(x)
    flip = tuple(slice(None, None, -1) for _ in x.shape)
    return torch.from_numpy(np.ascontiguousarray(values[flip])[flip])


LAYOUTS = {"strided": strided, "transposed": transposed, "reversed": reversed_}


@every_row
def test_strides(row, thorough):
    """Gaps, offsets, other orders and negative strides change nothing."""
    if row.name in SEES_MEMORY:
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
    if row.name in SEES_MEMORY or row.writes():
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


# --- Variants ----------------------------------------------------------------------------------------------------


def can_cast(source, target):
    """Whether results of one dtype may be written into another: never down a category."""
    if category(target) == "bool":
        return category(source) == "bool"
    return RANK.index(category(source)) <= RANK.index(category(target))


def takes_out(row, source, target):
    """Whether `out=` of another dtype is taken, by the row's rule; nothing where the call decides."""
    if isinstance(row.out, list):
        return target in row.out
    if row.out == "any":
        return None
    if row.out == "same" or not can_cast(source, target):
        return False
    return True if row.out == "cast" else None


@every_row
def test_in_place(row):
    """`name_` gives the same values in the tensor's own memory, or refuses and leaves the tensor alone."""
    if "inplace" not in row.variants:
        pytest.skip("no in-place variant")
    report = Report(row)
    for dtype, sample in cases(row):
        if not is_tensor(next(iter(draw(row, sample, dtype)[0]), None)):
            continue

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(row, sample, dtype)
            try:
                wanted = call(row.function(), args, kwargs)
            except (RuntimeError, ValueError, ZeroDivisionError):
                return None  # test_values judges it
            for make in (torch.clone, strided):
                own = make(args[0])
                before, version, place = array(own), own._version, own.data_ptr()
                fits = row.run == "view" or (own.shape == wanted.shape and can_cast(name_of(wanted.dtype), dtype))
                try:
                    got = call(row.method("_"), (own, *args[1:]), kwargs)
                except RuntimeError as error:
                    if fits and row.python_name not in REFUSES_IN_PLACE:
                        return f"{row.python_name}_ raised {error}"
                    if array(own).tobytes() != before.tobytes():
                        return f"{row.python_name}_ refused after changing values"
                    continue
                if not fits:
                    return f"{row.python_name}_ wrote {list(wanted.shape)} {name_of(wanted.dtype)} into {list(own.shape)} {dtype}"
                if got is not own or own.data_ptr() != place:
                    return f"{row.python_name}_ returned another tensor"
                if own._version <= version:
                    return f"{row.python_name}_ did not count its change"
                text = difference(own, cast(wanted, dtype))
                if text:
                    return f"in place: {text}"
            return None

        report.guard(dtype, sample, check)
    report.close()


@every_row
def test_in_place_refuses(row):
    """Shared elements, read-only memory, and leaves that want gradients."""
    if "inplace" not in row.variants or row.run == "view" or row.python_name in REFUSES_IN_PLACE:
        pytest.skip("no in-place variant that writes")
    dtype = next((d for d in ("float32", "int64", "bool", "complex64") if d in row.dtypes), None)
    for sample in row.samples:
        args, kwargs = draw(row, sample, dtype)
        if not args or not is_tensor(args[0]) or args[0].numel() < 2:
            continue
        wanted = call(row.function(), args, kwargs)
        if wanted.shape != args[0].shape or not can_cast(name_of(wanted.dtype), dtype):
            continue
        method, rest = row.method("_"), args[1:]
        shared = torch.as_strided(args[0].clone(), tuple(wanted.shape), (0,) * wanted.dim())
        with pytest.raises(
            RuntimeError, match="more than one element of the written-to tensor refers to a single memory"
        ):
            method(shared, *rest, **kwargs)
        if dtype == "float32":
            leaf = args[0].clone().requires_grad_()
            with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
                method(leaf, *rest, **kwargs)
        locked = array(args[0])
        locked.flags.writeable = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            view = torch.from_numpy(locked)
        with pytest.raises((RuntimeError, ValueError), match="read-only"):
            method(view, *rest, **kwargs)
        assert array(view).tobytes() == locked.tobytes()
        return
    pytest.skip("no sample keeps the shape of its first argument")


@every_row
def test_out(row, thorough):
    """`out=` fills an empty tensor, resizes another with a warning, keeps strides, and takes the dtypes of the row's rule."""
    if "out" not in row.variants:
        pytest.skip("no out=")
    report = Report(row)
    for dtype, sample in cases(row, ALL if thorough else FEW):

        def check(dtype=dtype, sample=sample):
            *_, wanted = evaluate(row, dtype, sample)
            results = [wanted] if is_tensor(wanted) else list(wanted)

            def run(outs):
                args, kwargs = draw(row, sample, dtype)
                return call(row.function(), args, {**kwargs, "out": outs[0] if is_tensor(wanted) else tuple(outs)})

            fresh = [torch.empty(0, dtype=r.dtype) for r in results]
            given = run(fresh)
            if is_tensor(wanted) and given is not fresh[0]:
                return "out= was not returned"
            text = difference(fresh, results)
            if text:
                return f"fresh out: {text}"
            wrong = [torch.empty(tuple(n + 1 for n in (*r.shape, 1)), dtype=r.dtype) for r in results]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                run(wrong)
            if not any("was resized since it had shape" in str(w.message) for w in caught):
                return "no warning for an out of the wrong size"
            text = difference(wrong, results)
            if text:
                return f"resized out: {text}"
            gaps = [strided(r.clone()) for r in results]
            strides = [g.stride() for g in gaps]
            run(gaps)
            text = difference(gaps, results)
            if text:
                return f"strided out: {text}"
            if strides != [g.stride() for g in gaps]:
                return "out= lost its strides"
            for other in ("bool", "int64", "float64", "complex128"):
                kinds = [name_of(r.dtype) for r in results]
                if other in kinds or len(results) > 1:
                    continue
                outs = [torch.zeros(tuple(r.shape), dtype=dtype_of(other)) for r in results]
                allowed = takes_out(row, kinds[0], other)
                try:
                    run(outs)
                except RuntimeError as error:
                    if allowed:
                        return f"out={other} raised {error}"
                    continue
                if allowed is False:
                    return f"out={other} accepted a result of {kinds[0]}"
                if allowed is None and not can_cast(kinds[0], other):
                    continue  # computed in the dtype of out=
                text = difference(outs, [cast(r, other) for r in results], kinds[0])
                if text:
                    return f"out={other}: {text}"
            return None

        report.guard(dtype, sample, check)
    report.close()


@every_row
def test_meta(row):
    """On `meta` the same shapes, dtypes and strides come out, without data."""
    report = Report(row)
    for dtype, sample in cases(row, ("float32", "int64")):

        def check(dtype=dtype, sample=sample):
            args, kwargs, wanted = evaluate(row, dtype, sample)
            if not tensors_in(args) or not tensors_in(wanted):
                return None
            args, kwargs = draw(row, sample, dtype)
            try:
                move = lambda x: torch.empty_strided(tuple(x.shape), x.stride(), dtype=x.dtype, device="meta")
                got = call(row.function(), change(args, move), change(kwargs, move))
            except NotImplementedError:
                return None  # the shape depends on the data
            except RuntimeError as error:
                if "cannot be called on meta tensors" in str(error):
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


# --- Gradients ---------------------------------------------------------------------------------------------------


def inner(xs, ys):
    """Re <x, y>, the product under which gradients are directions of steepest ascent."""
    return float(sum((array(x).conj() * array(y)).real.sum() for x, y in zip(xs, ys)))


def directions(tensors, seed):
    random = np.random.default_rng(seed)
    made = []
    for x in tensors:
        values = random.uniform(-1, 1, tuple(x.shape))
        if name_of(x.dtype) in COMPLEX:
            values = values + 1j * random.uniform(-1, 1, tuple(x.shape))
        made.append(tensor(values, name_of(x.dtype)))
    return made


def gradients(outputs, inputs, cotangents, create_graph=False):
    found = torch.autograd.grad(outputs, inputs, cotangents, create_graph=create_graph, allow_unused=True)
    return [tensor(np.zeros(tuple(x.shape)), name_of(x.dtype)) if g is None else g for x, g in zip(inputs, found)]


def gradient_error(function, inputs, seed):
    """The difference between a derivative in a random direction and its estimate by finite differences, as text.

    One direction of the inputs and one of the outputs stand for all: a wrong entry of the Jacobian goes unnoticed only
    if it is orthogonal to random vectors.
    """
    step = 1e-5
    outputs = function(*inputs)
    if not outputs:
        return None
    weights = directions(outputs, seed)
    analytical = gradients(outputs, inputs, weights)
    along = directions(inputs, seed + 1)
    with torch.no_grad():
        above = function(*(shift(x, d, step) for x, d in zip(inputs, along)), count=len(outputs))
        below = function(*(shift(x, d, -step) for x, d in zip(inputs, along)), count=len(outputs))
    numerical = (inner(weights, above) - inner(weights, below)) / (2 * step)
    exact = inner(analytical, along)
    if abs(numerical - exact) <= 1e-6 + 1e-5 * max(abs(numerical), abs(exact)):
        return None
    return f"gradient {exact:.10g}, by finite differences {numerical:.10g}"


def shift(x, direction, step):
    moved = array(x) + step * array(direction)
    return tensor(moved, name_of(x.dtype)).requires_grad_()


def differentiable_call(row, sample, dtype):
    """The sample as a function of its float tensors alone, and those tensors."""
    args, kwargs = draw(row, sample, dtype)
    wanted = [x for x in covered(row, args, kwargs) if is_inexact(x)]
    chosen = {}

    def function(*inputs, count=None):
        replaced = dict(zip(map(id, wanted), inputs))
        swap = lambda x: replaced.get(id(x), x)
        own = change(args, swap)
        if row.writes():
            own = (own[0].clone(), *own[1:])
        results = tensors_in(call(row.function(), own, change(kwargs, swap)))
        if count is None:
            chosen["places"] = [at for at, r in enumerate(results) if r.requires_grad]
        return [results[at] for at in chosen["places"]]

    return function, [x.clone().requires_grad_() for x in wanted]


def covered(row, args, kwargs):
    """The tensors that have a gradient: those the derivative names, or for compositions those that a result follows."""
    bound = row.bind(args, kwargs)
    if row.derivative != "composed" and bound is not None:
        return tensors_in([bound[row.params[place]["name"]] for place in row.differentiable])
    found = []
    for x in tensors_in((args, kwargs)):
        if is_inexact(x):
            swap = lambda y, x=x: x.clone().requires_grad_().clone() if y is x else y.clone()
            results = tensors_in(call(row.function(), change(args, swap), change(kwargs, swap)))
            if row.writes() or any(r.requires_grad for r in results):
                found.append(x)
    return found


def second_order(function, inputs, seed):
    """The gradient as a function of inputs and cotangents, for a second round."""
    outputs = function(*inputs)
    weights = [w.requires_grad_() for w in directions(outputs, seed)]
    count = len(inputs)
    chosen = {}

    def gradient(*both, count_=None, **_):
        with torch.enable_grad():
            outputs = function(*both[:count])
            found = gradients(outputs, both[:count], both[count:], create_graph=True)
        if "places" not in chosen:
            chosen["places"] = [at for at, g in enumerate(found) if g.requires_grad]
        return [found[at] for at in chosen["places"]]

    return gradient, [*inputs, *weights]


def gradient_cases(row):
    for dtype, sample in cases(row, ("float64", "complex128")):
        dense = all(x.is_contiguous() for x in tensors_in(draw(row, sample, dtype)))
        if (row.name, sample) in NO_DERIVATIVE:
            continue
        if depends_on_dtype(sample) and (dense or row.name not in SEES_MEMORY):
            yield dtype, sample


@every_row
def test_gradients(row, thorough):
    """First derivatives in float64 and complex128 against finite differences."""
    if not row.is_differentiable():
        pytest.skip("not differentiable")
    report = Report(row)
    for dtype, sample in gradient_cases(row):

        def check(dtype=dtype, sample=sample):
            function, inputs = differentiable_call(row, sample, dtype)
            outputs = function(*inputs)
            if not outputs or not inputs:
                floats = [r for r in tensors_in(call(row.function(), *draw(row, sample, dtype))) if is_inexact(r)]
                lost = floats and row.derivative != "composed"
                return "no result wants a gradient" if lost else None
            if thorough:
                torch.autograd.gradcheck(lambda *inputs: tuple(function(*inputs)), inputs)
            return next((text for seed in (1, 2) if (text := gradient_error(function, inputs, seed))), None)

        report.guard(dtype, sample, check)
    report.close()


@every_row
def test_second_gradients(row, thorough):
    """Second derivatives: the gradient is itself a function of inputs and cotangents, with gradients of its own."""
    if not row.is_differentiable():
        pytest.skip("not differentiable")
    report = Report(row)
    for dtype, sample in gradient_cases(row):

        def check(dtype=dtype, sample=sample):
            function, inputs = differentiable_call(row, sample, dtype)
            if not inputs or not function(*inputs):
                return None
            gradient, both = second_order(function, inputs, 3)
            if thorough:
                torch.autograd.gradgradcheck(lambda *inputs: tuple(function(*inputs)), inputs)
            return gradient_error(gradient, both, 5)

        report.guard(dtype, sample, check)
    report.close()


@every_row
def test_rows_without_derivative(row):
    """What is stated to have no derivative records nothing."""
    if row.derivative != "none":
        pytest.skip("differentiable")
    report = Report(row)
    for dtype, sample in cases(row, ("float64",)):

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(row, sample, dtype)
            grad = lambda x: x.requires_grad_() if is_inexact(x) else x
            inputs = tensors_in((args, kwargs))
            results = tensors_in(call(row.function(), change(args, grad), change(kwargs, grad)))
            results = [r for r in results if not any(r is x for x in inputs)]
            return "a result wants a gradient" if any(r.requires_grad for r in results) else None

        report.guard(dtype, sample, check)
    report.close()


# --- Bad calls, documentation, threads ---------------------------------------------------------------------------


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
    args, kwargs = draw(row, sample, "float32", scale)
    try:
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
                args, kwargs = draw(row, sample, "float32", scale)
                inputs = [x for x in tensors_in((args, kwargs)) if is_inexact(x) and row.is_differentiable()]
                for x in inputs:
                    x.requires_grad_()
                try:
                    results = tensors_in(call(row.function(), args, kwargs))
                except (RuntimeError, IndexError, ValueError):
                    break  # the sample has numbers that do not grow with its sizes
                wanted = [r for r in results if r.requires_grad]
                grads = gradients(wanted, inputs, directions(wanted, 7)) if wanted else []
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
