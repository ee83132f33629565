"""Every row of the operator table in its other forms: in place and `out=`."""

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
    every_row,
    is_tensor,
    name_of,
    strided,
)

import rushlight as torch

#: What is said of an ``out=`` of the wrong size.
RESIZED = "was resized since it had shape|does not match the computed number of elements"

#: Those that say nothing, as torch; the factories say nothing either, but for those that count their elements.
SILENT = {"addbmm", "bernoulli", "linspace", "logsigmoid", "logspace", "multinomial"}
COUNTED = {"arange", "arange.start_step", "fftfreq", "rfftfreq"}


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
            try:
                wanted = evaluate(row, dtype, sample)[-1]
            except (RuntimeError, ValueError, ZeroDivisionError):
                return None  # test_values judges it
            for make in (torch.clone,) if row.sees_memory() else (torch.clone, strided):
                args, kwargs = draw(row, sample, dtype)
                own = make(args[0])
                before, version, place = array(own), own._version, own.data_ptr()
                kinds = name_of(wanted.dtype), name_of(own.dtype)
                fits = row.run == "view" or (own.shape == wanted.shape and can_cast(*kinds))
                try:
                    got = call(row.method("_"), (own, *args[1:]), kwargs)
                except RuntimeError as error:
                    if fits and "refuses in place" not in row.traits:
                        return f"{row.python_name}_ raised {error}"
                    if array(own).tobytes() != before.tobytes():
                        return f"{row.python_name}_ refused after changing values"
                    continue
                if not fits and "reshapes in place" not in row.traits:
                    return f"{row.python_name}_ wrote {list(wanted.shape)} {kinds[0]} into {list(own.shape)} {kinds[1]}"
                if got is not own or (
                    row.run != "view" and "reshapes in place" not in row.traits and own.data_ptr() != place
                ):
                    return f"{row.python_name}_ returned another tensor"
                if own._version <= version:
                    return f"{row.python_name}_ did not count its change"
                text = difference(own, cast(wanted, kinds[1]))
                if text:
                    return f"in place: {text}"
            return None

        report.guard(dtype, sample, check)
    report.close()


@every_row
def test_in_place_refuses(row):
    """Shared elements, read-only memory, and leaves that want gradients."""
    if "inplace" not in row.variants or row.run == "view" or "refuses in place" in row.traits:
        pytest.skip("no in-place variant that writes")
    dtype = next((d for d in ("float32", "int64", "bool", "complex64") if d in row.dtypes), None)
    for sample in row.samples:
        args, kwargs = draw(row, sample, dtype)
        if not args or not is_tensor(args[0]) or args[0].numel() < 2:
            continue
        wanted = evaluate(row, dtype, sample)[-1]
        if wanted.shape != args[0].shape or not can_cast(name_of(wanted.dtype), dtype):
            continue
        method, rest = row.method("_"), args[1:]
        shared = torch.as_strided(args[0].clone(), tuple(wanted.shape), (0,) * wanted.dim())
        if "writes expanded" in row.traits:
            # Where threads would meet in one element it refuses all the same.
            with pytest.warns(UserWarning, match="on expanded tensors is deprecated"), suppress(RuntimeError):
                method(shared, *rest, **kwargs)
        else:
            with pytest.raises(
                RuntimeError, match="more than one element of the written-to tensor refers to a single memory"
            ):
                method(shared, *rest, **kwargs)
        if dtype == "float32" and "unrecorded in place" not in row.traits:
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


def other_factory_dtype(row, dtype, sample, other):
    """A factory makes what `out` holds, as if its dtype had been asked for, or refuses it as it refuses the dtype."""
    results = []
    for options in ({"dtype": dtype_of(other)}, {"out": torch.zeros(0, dtype=dtype_of(other))}):
        args, kwargs = draw(row, sample, dtype)
        kwargs.pop("dtype", None)
        try:
            results.append(call(row.function(), args, {**kwargs, **options}))
        except RuntimeError as error:
            results.append(f"{type(error).__name__}: {error}".split("\n")[0])
    wanted, got = results
    if isinstance(wanted, str) or isinstance(got, str):
        return None if wanted == got else f"got {got}, wanted {wanted}"
    return difference(got, wanted) if got.dtype == wanted.dtype else f"got {got.dtype}, wanted {wanted.dtype}"


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
            told = [str(w.message) for w in caught if re.search(RESIZED, str(w.message))]
            if bool(told) == (row.name in SILENT or (row.is_factory() and row.name not in COUNTED)):
                return f"of an out of the wrong size it says {told or 'nothing'}"
            text = difference(wrong, results)
            if text:
                return f"resized out: {text}"
            gaps = [strided(r.clone()) for r in results]
            strides = [g.stride() for g in gaps]
            run(gaps)
            text = None if row.draws() else difference(gaps, results)
            if text:
                return f"strided out: {text}"
            if strides != [g.stride() for g in gaps]:
                return "out= lost its strides"
            for other in ("bool", "int64", "float64", "complex128"):
                kinds = [name_of(r.dtype) for r in results]
                if other in kinds or len(results) > 1:
                    continue
                if row.is_factory():
                    text = other_factory_dtype(row, dtype, sample, other)
                    if text:
                        return f"out={other}: {text}"
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
                if allowed is None and (row.draws() or not can_cast(kinds[0], other)):
                    continue  # computed in the dtype of out=
                text = difference(outs, [cast(r, other) for r in results], kinds[0])
                if text:
                    return f"out={other}: {text}"
            return None

        report.guard(dtype, sample, check)
    report.close()
