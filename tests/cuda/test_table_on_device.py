"""Tests every operator of the table on a device: results, dtypes and strides are those of the CPU, or the operator is refused.

It needs a GPU, or the card made of software: `make test-cuda`.
"""

import sys
import warnings
from pathlib import Path

import pytest
from card import needs_device

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
from table_cases import ALL, FEW, Report, call, cases, change, difference, draw, every_operator, is_tensor, tensors_in

import rushlight as torch

pytestmark = [
    needs_device,
    pytest.mark.usefixtures("full_precision"),
]

#: A sample with dropout, of an operator that is not random without.
DROPS = ("scaled_dot_product_attention", "t(3, 3), 0.5")
#: GPUs have one driver for least squares, which gives other results than the CPU's default one.
DRIVER = ("lstsq", {"driver": "gels"})
#: torch takes the positions from the CPU alone.
POSITIONS = "tensor_split.tensor_indices_or_sections"
#: Vectors that are unique up to a factor of absolute value one; `test_cusolver.py` looks at the vectors themselves.
VECTORS = ("_linalg_eigh", "_linalg_svd", "eigh", "svd")
REFUSED = "with arguments from the 'CUDA' backend."


def on_device(value):
    return change(value, lambda x: x.detach().to("cuda"))


def narrowed(tensors, dtype):
    """Floats that are wider than the dtype they were computed in, in that dtype."""
    own = getattr(torch, dtype)
    wide = [x.is_floating_point() and own.is_floating_point and x.dtype.itemsize > own.itemsize for x in tensors]
    return [x.to(own) if change else x for x, change in zip(tensors, wide, strict=True)]


def shape_of(result):
    return [(x.dtype, x.shape, x.stride()) for x in tensors_in(result)]


def outcome(function, args, kwargs):
    """The results of a call, or its error."""
    try:
        return call(function, args, kwargs)
    except Exception as error:
        return error


@every_operator
def test_results_are_those_of_the_cpu(op, thorough):
    if op.is_random():
        pytest.skip("random numbers of a GPU are another stream")
    report, ran = Report(op), 0
    for dtype, sample in cases(op, ALL if thorough else FEW):

        def check(dtype=dtype, sample=sample):
            nonlocal ran
            if op.name == DROPS[0] and DROPS[1] in sample:
                return None
            args, kwargs = draw(op, sample, dtype)
            if op.name == DRIVER[0]:
                kwargs = {**kwargs, **DRIVER[1]}
            there = (args, {**kwargs, "device": "cuda"}) if op.is_factory() else on_device((args, kwargs))
            if op.full_name() == POSITIONS:
                there = ((there[0][0], *args[1:]), kwargs)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got, wanted = outcome(op.function(), *there), outcome(op.function(), args, kwargs)
            if isinstance(got, NotImplementedError) and REFUSED in str(got):
                return "has no form for CUDA" if op.implementation == "pointwise" else None
            if isinstance(wanted, Exception):
                return None if type(got) is type(wanted) else f"{got!r} instead of {wanted!r}"
            if isinstance(got, Exception):
                return repr(got)
            ran += 1
            if not all(x.device.type == "cuda" for x in tensors_in(got)):
                return "the result is on another device"
            if shape_of(got) != shape_of(wanted):
                return f"{shape_of(got)} instead of {shape_of(wanted)}"
            changed = tensors_in(there) if op.writes() else []
            before = tensors_in((args, kwargs)) if op.writes() else []
            found = [x.cpu() for x in (*tensors_in(got), *changed)]
            known = [*tensors_in(wanted), *before]
            if op.reference.startswith("np.empty"):
                return None
            if op.name in VECTORS:
                found, known = [x.abs() for x in found], [x.abs() for x in known]
            return difference(narrowed(found, dtype), narrowed(known, dtype)) or (
                None
                if is_tensor(got) or isinstance(got, (list, tuple)) or got == wanted
                else f"{got} instead of {wanted}"
            )

        report.guard(dtype, sample, check)
    report.close()
    if not ran:
        pytest.skip("has no form for CUDA")
