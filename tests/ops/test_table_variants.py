"""Tests the in-place and `out=` forms of every operator of the table."""

import re
import warnings
from contextlib import suppress

import pytest
from table_cases import (
    ALL,
    FEW,
    Report,
    array,
    call,
    can_cast,
    cases,
    cast,
    difference,
    draw,
    dtype_of,
    evaluate,
    every_operator,
    has_number_for_out,
    is_tensor,
    name_of,
    strided,
)

import rushlight as torch

#: The warning about an ``out=`` of the wrong size.
RESIZED = "was resized since it had shape|does not match the computed number of elements"

#: Operators that refuse an `out=` of another dtype with a TypeError, as in torch.
JOINS = {"cat", "stack", "hstack", "vstack", "dstack", "column_stack"}

#: Operators without this warning, as in torch. Factories have none either, except those that compute their size.
SILENT = {"addbmm", "bernoulli", "linspace", "logsigmoid", "logspace", "multinomial"}
#: Operators that compute a vector as a row of a matrix, to which ``out=`` is resized, as in torch.
ROWS = {"linear", "matmul"}
COUNTED = {"arange", "arange.start_step", "fftfreq", "rfftfreq"}
#: In place they accumulate in the tensor's own dtype; a single number is copied in any.
ACCUMULATED = {"cumsum", "cumprod"}


@every_operator
def test_in_place(op):
    """`name_` computes the same values in the tensor's memory, or raises an error and does not change the tensor."""
    if "inplace" not in op.variants:
        pytest.skip("no in-place variant")
    report = Report(op)
    for dtype, sample in cases(op):
        if not is_tensor(next(iter(draw(op, sample, dtype)[0]), None)):
            continue

        def check(dtype=dtype, sample=sample):
            try:
                wanted = evaluate(op, dtype, sample)[-1]
            except (RuntimeError, ValueError, ZeroDivisionError):
                return None  # tested in test_table_values
            for make in (torch.clone,) if op.is_stride_dependent() else (torch.clone, strided):
                args, kwargs = draw(op, sample, dtype)
                own = make(args[0])
                before, version, place = array(own), own._version, own.data_ptr()
                kinds = name_of(wanted.dtype), name_of(own.dtype)
                copied = op.python_name in ACCUMULATED and own.dim() == 0
                fits = copied or op.implementation == "view" or (own.shape == wanted.shape and can_cast(*kinds))
                try:
                    got = call(op.method("_"), (own, *args[1:]), kwargs)
                except RuntimeError as error:
                    if fits and "restricted in place" not in op.tags:
                        return f"{op.python_name}_ raised {error}"
                    if array(own).tobytes() != before.tobytes():
                        return f"{op.python_name}_ refused after changing values"
                    continue
                if not fits and "reshapes in place" not in op.tags:
                    return f"{op.python_name}_ wrote {list(wanted.shape)} {kinds[0]} into {list(own.shape)} {kinds[1]}"
                if got is not own or (
                    op.implementation != "view" and "reshapes in place" not in op.tags and own.data_ptr() != place
                ):
                    return f"{op.python_name}_ returned another tensor"
                if own._version <= version:
                    return f"{op.python_name}_ did not count its change"
                text = difference(own, cast(wanted, kinds[1]))
                if text:
                    return f"in place: {text}"
            return None

        report.guard(dtype, sample, check)
    report.close()


@every_operator
def test_in_place_refuses(op):
    """Shared elements, read-only memory, and leaves that require gradients."""
    if "inplace" not in op.variants or op.implementation == "view" or "restricted in place" in op.tags:
        pytest.skip("no in-place variant that writes")
    dtype = next((d for d in ("float32", "int64", "bool", "complex64") if d in op.dtypes), None)
    for sample in op.samples:
        args, kwargs = draw(op, sample, dtype)
        if not args or not is_tensor(args[0]) or args[0].numel() < 2:
            continue
        wanted = evaluate(op, dtype, sample)[-1]
        if wanted.shape != args[0].shape or not can_cast(name_of(wanted.dtype), dtype):
            continue
        method, rest = op.method("_"), args[1:]
        shared = torch.as_strided(args[0].clone(), tuple(wanted.shape), (0,) * wanted.dim())
        if "writes expanded" in op.tags:
            # If several threads would write to one element, it is an error anyway.
            with pytest.warns(UserWarning, match="on expanded tensors is deprecated"), suppress(RuntimeError):
                method(shared, *rest, **kwargs)
        else:
            with pytest.raises(
                RuntimeError, match="more than one element of the written-to tensor refers to a single memory"
            ):
                method(shared, *rest, **kwargs)
        if dtype == "float32" and "no grad in place" not in op.tags:
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


def other_factory_dtype(op, dtype, sample, other):
    """A factory fills `out` in its dtype, as if that dtype had been requested, or raises the same error."""
    results = []
    for options in ({"dtype": dtype_of(other)}, {"out": torch.zeros(0, dtype=dtype_of(other))}):
        args, kwargs = draw(op, sample, dtype)
        kwargs.pop("dtype", None)
        try:
            results.append(call(op.function(), args, {**kwargs, **options}))
        except RuntimeError as error:
            results.append(f"{type(error).__name__}: {error}".split("\n")[0])
    wanted, got = results
    if isinstance(wanted, str) or isinstance(got, str):
        return None if wanted == got else f"got {got}, wanted {wanted}"
    return difference(got, wanted) if got.dtype == wanted.dtype else f"got {got.dtype}, wanted {wanted.dtype}"


def takes_out(op, source, target):
    """Whether `out=` of another dtype is accepted, by the operator's definition. None if it depends on the call."""
    if isinstance(op.out, list):
        return target in op.out
    if op.out == "any":
        return None
    if op.out == "same" or not can_cast(source, target):
        return False
    return True if op.out == "cast" else None


@every_operator
def test_out(op, thorough):
    """`out=` fills an empty tensor, resizes another with a warning, keeps strides, and accepts the defined dtypes."""
    if "out" not in op.variants:
        pytest.skip("no out=")
    if op.name == "normal.Tensor_float":
        pytest.skip("its result has the size to which the means and out= broadcast; test_create.py tests it")
    report = Report(op)
    for dtype, sample in cases(op, ALL if thorough else FEW):

        def check(dtype=dtype, sample=sample):
            if op.is_factory() and "memory_format" in sample:
                return None  # refused beside out=, as tests/ops/test_create.py tests
            *_, wanted = evaluate(op, dtype, sample)
            results = [wanted] if is_tensor(wanted) else list(wanted)

            def run(outs):
                args, kwargs = draw(op, sample, dtype)
                return call(op.function(), args, {**kwargs, "out": outs[0] if is_tensor(wanted) else tuple(outs)})

            fresh = [torch.empty(0, dtype=r.dtype) for r in results]
            operands = draw(op, sample, dtype)[0]
            if has_number_for_out(op, operands):
                with pytest.raises(TypeError):
                    run(fresh)
                return None
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
            warned = [str(w.message) for w in caught if re.search(RESIZED, str(w.message))]
            if bool(warned) == (op.name in SILENT or (op.is_factory() and op.name not in COUNTED)):
                return f"of an out of the wrong size it says {warned or 'nothing'}"
            text = difference(wrong, results)
            if text:
                return f"resized out: {text}"
            gaps = [strided(r.clone()) for r in results]
            ranks = [arg.dim() for arg in draw(op, sample, dtype)[0] if is_tensor(arg)][:2]
            is_row = op.name in ROWS and ranks == [1, 2]
            strides = [r.stride() if is_row else g.stride() for r, g in zip(results, gaps, strict=True)]
            run(gaps)
            text = None if op.is_random() else difference(gaps, results)
            if text:
                return f"strided out: {text}"
            if strides != [g.stride() for g in gaps]:
                return "out= lost its strides"
            for other in ("bool", "int64", "float64", "complex128"):
                kinds = [name_of(r.dtype) for r in results]
                if other in kinds or len(results) > 1:
                    continue
                if op.is_factory():
                    text = other_factory_dtype(op, dtype, sample, other)
                    if text:
                        return f"out={other}: {text}"
                    continue
                outs = [torch.zeros(tuple(r.shape), dtype=dtype_of(other)) for r in results]
                allowed = takes_out(op, kinds[0], other)
                refusal = TypeError if op.name in JOINS else RuntimeError
                try:
                    run(outs)
                except refusal as error:
                    if allowed:
                        return f"out={other} raised {error}"
                    continue
                if allowed is False:
                    return f"out={other} accepted a result of {kinds[0]}"
                if allowed is None and (op.is_random() or not can_cast(kinds[0], other)):
                    continue  # it computes in the dtype of out=
                text = difference(outs, [cast(r, other) for r in results], kinds[0])
                if text:
                    return f"out={other}: {text}"
            return None

        report.guard(dtype, sample, check)
    report.close()
