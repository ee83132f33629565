"""Compares the gradients of every differentiable operator of the table with finite differences, to second order."""

import pytest
from table_cases import (
    Report,
    array,
    call,
    cases,
    change,
    depends_on_dtype,
    difference,
    directions,
    draw,
    every_operator,
    gradients,
    inner,
    is_inexact,
    may_require_grad,
    name_of,
    strided,
    tensor,
    tensors_in,
    transposed,
    unless_unknown,
)

import rushlight as torch


def gradient_error(function, inputs, seed):
    """The difference between a derivative in a random direction and its estimate by finite differences, as text.

    One direction of the inputs and one of the outputs are sufficient: an error in the Jacobian is missed only if it is
    orthogonal to random vectors.
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


def differentiable_call(op, sample, dtype):
    """The sample as a function of its floating-point tensors, and these tensors."""
    args, kwargs = draw(op, sample, dtype)
    wanted = [x for x in covered(op, args, kwargs) if is_inexact(x)]
    chosen = {}

    def function(*inputs, count=None):
        replaced = dict(zip(map(id, wanted), inputs))
        swap = lambda x: replaced.get(id(x), x)
        own = change(args, swap)
        if op.writes():
            own = (own[0].clone(), *own[1:])
        results = tensors_in(call(op.function(), own, change(kwargs, swap)))
        if count is None:
            chosen["places"] = [at for at, r in enumerate(results) if r.requires_grad]
        return [results[at] for at in chosen["places"]]

    return function, [x.clone().requires_grad_() for x in wanted]


def covered(op, args, kwargs):
    """The tensors with a gradient: those of the derivative, or for composite operators those on which a result depends."""
    bound = op.bind(args, kwargs)
    if op.derivative != "composite" and bound is not None:
        return tensors_in([bound[op.params[place]["name"]] for place in op.differentiable])
    found = []
    for x in may_require_grad(op, args, kwargs):
        swap = lambda y, x=x: x.clone().requires_grad_().clone() if y is x else y.clone()
        results = tensors_in(call(op.function(), change(args, swap), change(kwargs, swap)))
        if op.writes() or any(r.requires_grad for r in results):
            found.append(x)
    return found


#: Arguments of composite operators on whose values no result depends, as in torch.
UNFOLLOWED = {
    "expand_as": "other",
    "view_as": "other",
    "reshape_as": "other",
    "ldl_factor": "self",
    "hinge_embedding_loss": "target",
}


def lost(op, args, kwargs, results):
    """The arguments of a composite operator on which no result depends although it could."""
    if op.derivative != "composite" or not any(is_inexact(r) and r.numel() for r in results):
        return []
    followed = covered(op, args, kwargs)
    names = {id(x): name for name, x in (op.bind(args, kwargs) or {}).items() if isinstance(x, torch.Tensor)}
    inputs = [x for x in may_require_grad(op, args, kwargs) if x.numel()]
    missed = [names.get(id(x), "a tensor") for x in inputs if not any(x is y for y in followed)]
    return [name for name in missed if name != UNFOLLOWED.get(op.name)]


def second_order(function, inputs, seed):
    """The gradient as a function of inputs and cotangents, for second derivatives."""
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


def gradient_cases(op):
    for dtype, sample in cases(op, ("float64", "complex128")):
        dense = all(x.is_contiguous() for x in tensors_in(draw(op, sample, dtype)))
        if depends_on_dtype(sample) and (dense or not op.is_stride_dependent()):
            yield dtype, sample


@every_operator
def test_gradients(op, thorough):
    """First derivatives in float64 and complex128 against finite differences."""
    if not op.is_differentiable():
        pytest.skip("not differentiable")
    if any(p["kind"] == "Generator" for p in op.params):
        pytest.skip("draws do not follow their parameters: torch gives those zeros")
    if op.python_name == "as_strided_scatter":
        pytest.skip("its gradient is torch's, which is not the derivative: tests/ops/test_join.py")
    report = Report(op)
    for dtype, sample in gradient_cases(op):

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(op, sample, dtype)
            results = tensors_in(call(op.function(), *draw(op, sample, dtype)))
            if missed := lost(op, args, kwargs, results):
                return f"no result needs a gradient of {', '.join(missed)}"
            function, inputs = differentiable_call(op, sample, dtype)
            outputs = function(*inputs)
            if not outputs or not inputs:
                stated = op.derivative != "composite" and any(is_inexact(r) for r in results)
                return "no result needs a gradient" if stated else None
            if thorough:
                torch.autograd.gradcheck(lambda *inputs: tuple(function(*inputs)), inputs)
            return next((text for seed in (1, 2) if (text := gradient_error(function, inputs, seed))), None)

        report.guard(dtype, sample, unless_unknown(check))
    report.close()


@every_operator
def test_gradients_in_narrow_dtypes(op):
    """Derivatives work in every dtype of the operator. Gradients have the dtype of their tensor."""
    if not op.is_differentiable():
        pytest.skip("not differentiable")
    report = Report(op)
    for dtype, sample in cases(op, ("float16", "bfloat16", "float32", "complex64")):
        if not depends_on_dtype(sample):
            continue

        def check(dtype=dtype, sample=sample):
            function, inputs = differentiable_call(op, sample, dtype)
            outputs = function(*inputs)
            if not outputs or not inputs:
                return None
            for x, grad in zip(inputs, gradients(outputs, inputs, directions(outputs, 0))):
                if grad is not None and grad.dtype != x.dtype:
                    return f"a gradient of {grad.dtype} for {x.dtype}"
            return None

        report.guard(dtype, sample, unless_unknown(check))
    report.close()


@every_operator
def test_second_gradients(op, thorough):
    """Second derivatives: the gradient is a function of inputs and cotangents and has gradients itself."""
    if not op.is_differentiable():
        pytest.skip("not differentiable")
    if any(p["kind"] == "Generator" for p in op.params):
        pytest.skip("draws do not follow their parameters")
    report = Report(op)
    for dtype, sample in gradient_cases(op):

        def check(dtype=dtype, sample=sample):
            function, inputs = differentiable_call(op, sample, dtype)
            if not inputs or not function(*inputs):
                return None
            gradient, both = second_order(function, inputs, 3)
            if thorough:
                torch.autograd.gradgradcheck(lambda *inputs: tuple(function(*inputs)), inputs)
            return gradient_error(gradient, both, 5)

        report.guard(dtype, sample, unless_unknown(check))
    report.close()


@every_operator
@pytest.mark.parametrize("layout", [strided, transposed])
def test_gradients_of_other_memory(op, layout):
    """Inputs and cotangents with gaps or in column-major order give the same gradients to second order."""
    if not op.is_differentiable():
        pytest.skip("not differentiable")
    if op.is_stride_dependent():
        pytest.skip("another layout is another question")
    report = Report(op)
    for dtype, sample in gradient_cases(op):

        def check(dtype=dtype, sample=sample):
            function, inputs = differentiable_call(op, sample, dtype)
            outputs = function(*inputs)
            if not outputs or not inputs:
                return None
            weights = directions(outputs, 1)
            found = []
            for laid in (lambda x: x, layout):
                places = [laid(x.detach()).requires_grad_() for x in inputs]
                starts = [laid(w).requires_grad_() for w in weights]
                first = gradients(function(*places), places, starts, create_graph=True)
                again = [g for g in first if g.requires_grad]
                second = gradients(again, [*places, *starts], list(map(laid, directions(again, 2)))) if again else []
                found.append([g.detach() for g in (*first, *second)])
            return difference(found[1], found[0])

        report.guard(dtype, sample, unless_unknown(check))
    report.close()


@every_operator
def test_rows_without_derivative(op):
    """Operators that are declared non-differentiable record nothing."""
    if op.derivative != "none":
        pytest.skip("differentiable")
    report = Report(op)
    for dtype, sample in cases(op, ("float64",)):

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(op, sample, dtype)
            grad = lambda x: x.requires_grad_() if is_inexact(x) else x
            inputs = tensors_in((args, kwargs))
            try:
                results = tensors_in(call(op.function(), change(args, grad), change(kwargs, grad)))
            except RuntimeError as error:
                if op.writes() and "require" in str(error):
                    return None  # changing a tensor that requires a gradient may be an error
                raise
            results = [r for r in results if not any(r is x for x in inputs)]
            return "a result needs a gradient" if any(r.requires_grad for r in results) else None

        report.guard(dtype, sample, check)
    report.close()
