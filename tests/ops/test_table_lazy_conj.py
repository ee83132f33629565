"""Tests every operator with lazy conjugates and lazy negatives (torch's conj and neg bits)."""

import copy
import pickle

import pytest
from table_cases import (
    Report,
    array,
    call,
    cases,
    change,
    draw,
    every_operator,
    has_number_for_out,
    is_inexact,
    is_tensor,
    name_of,
    tensors_in,
)

import rushlight as torch
from rushlight import _C

DTYPES = ("float32", "float64", "complex64", "complex128")
#: Views of the stored bytes, which differ from the elements.
REFUSES = ("view_as_real", "view_as_complex", "view")


def lazy_conj(x):
    """A lazy conjugate or negative with the same elements."""
    if not is_inexact(x):
        return x
    if x.is_complex():
        return torch.conj(torch.conj_physical(x)).detach()
    return _C._functions[""]["_neg_view"](torch.neg(x)).detach()


def contents(value):
    return [(name_of(found.dtype), list(found.shape), array(found).tobytes()) for found in tensors_in(value)]


def outcome(function, args, kwargs):
    """The result or the exception of a call, and its arguments afterwards."""
    try:
        result = call(function, args, kwargs)
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
        return type(error), contents([args, kwargs])
    return contents(result), contents([args, kwargs])


def lazy_conj_cases(op):
    for dtype, sample in cases(op, DTYPES):
        args, kwargs = draw(op, sample, dtype)
        if any(map(is_inexact, tensors_in([args, kwargs]))):
            yield dtype, sample


@every_operator
def test_operands(op):
    """Results and changed arguments are the same bits, or the operator raises an error about the stored bytes."""
    if op.python_name in ("data_ptr", "untyped_storage"):
        pytest.skip("about memory")
    report = Report(op)
    for dtype, sample in lazy_conj_cases(op):

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(op, sample, dtype)
            wanted = outcome(op.function(), args, kwargs)
            args, kwargs = draw(op, sample, dtype)
            got = outcome(op.function(), change(args, lazy_conj), change(kwargs, lazy_conj))
            if got[0] is RuntimeError and op.python_name in REFUSES:
                return None
            return None if got == wanted else f"{got} instead of {wanted}"

        report.guard(dtype, sample, check)
    report.close()


@every_operator
def test_targets(op):
    """Values that are written in place or to `out=` are the elements of such a tensor afterwards."""
    if not {"inplace", "out"} & set(op.variants):
        pytest.skip("neither in place nor out=")
    report = Report(op)
    for dtype, sample in lazy_conj_cases(op):

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(op, sample, dtype)
            if "inplace" in op.variants and is_tensor(args[0]):
                rest = args[1:], kwargs
                own, other = args[0].clone(), lazy_conj(args[0])
                wanted = outcome(op.method("_"), (own, *rest[0]), rest[1])
                if (got := outcome(op.method("_"), (other, *rest[0]), rest[1])) != wanted:
                    return f"in place {got} instead of {wanted}"
            if "out" in op.variants and "dtype" not in kwargs and not has_number_for_out(op, args):
                try:
                    results = tensors_in(call(op.function(), args, kwargs))
                except (RuntimeError, ValueError):
                    return None  # tested in test_table_values
                outs = [lazy_conj(torch.ones_like(result)) for result in results]
                if not any(is_inexact(out) for out in outs):
                    return None
                call(op.function(), args, {**kwargs, "out": outs[0] if len(outs) == 1 else tuple(outs)})
                if contents(outs) != contents(results):
                    return f"out= {contents(outs)} instead of {contents(results)}"
            return None

        report.guard(dtype, sample, check)
    report.close()


def test_written_through():
    """Values that are written to a conjugate, its imaginary part or its transpose are stored conjugated in the tensor."""
    x = torch.tensor([[1 + 2j, 3 - 1j], [0j, 2j]])
    y = x.conj()
    assert y.is_conj() and y.data_ptr() == x.data_ptr() and not y.conj().is_conj()
    y.add_(1j)
    assert x.tolist() == [[1 + 1j, 3 - 2j], [-1j, 1j]]
    y.imag.fill_(5.0)
    assert y.imag.is_neg() and x.imag.tolist() == [[-5.0, -5.0], [-5.0, -5.0]]
    x.mH[0, 1] = 7 + 1j
    assert x[1, 0].item() == 7 - 1j and y[1, 0].item() == 7 + 1j
    y.real[0, 0] = 9.0
    assert x[0, 0].item() == 9 - 5j


def test_gradients_of_views_and_of_changes_through_them():
    for change_ in (lambda v: v.mul_(2j), lambda v: v.imag.mul_(3.0), lambda v: v[0].copy_(v[1])):

        def by_view(x, change_=change_):
            base = x * 1
            change_(base.conj())
            return base

        x = torch.randn(2, 3, dtype=torch.complex128, requires_grad=True)
        assert torch.autograd.gradcheck(by_view, x) and torch.autograd.gradgradcheck(by_view, x)
    assert torch.autograd.gradcheck(lambda x: x.mH @ x.conj().imag.to(x.dtype), x)


def test_exports_without_a_conjugate_bit():
    y = torch.tensor([1 + 2j]).conj()
    for export in (y.numpy, y.__array__, lambda: memoryview(y), y.__dlpack__):
        with pytest.raises((RuntimeError, BufferError), match="conj"):
            export()
    with pytest.raises(RuntimeError, match="negative bit"):
        y.imag.numpy()
    assert y.numpy(force=True).tolist() == [1 - 2j] and y.imag.numpy(force=True).tolist() == [-2.0]
    assert y.tolist() == [1 - 2j] and y.item() == 1 - 2j and repr(y) == "tensor([1.-2.j])"


def test_set_keeps_the_conjugate_bit_of_the_receiver():
    x = torch.tensor([1 + 2j])
    plain, conjugate = torch.zeros(1, dtype=torch.complex64), torch.tensor([5j]).conj()
    assert plain.set_(x.conj()).tolist() == [1 + 2j] and conjugate.set_(x).tolist() == [1 - 2j]


def test_the_conjugate_bit_is_pickled(tmp_path):
    x = torch.tensor([[1 + 2j, 3 - 1j]])
    y = x.conj()
    torch.save([x, y], tmp_path / "file")
    torch.save(y.imag, tmp_path / "negative")
    base, conjugate = torch.load(tmp_path / "file")
    base[0, 0] = 5j
    assert conjugate.is_conj() and conjugate.tolist() == [[-5j, 3 + 1j]]
    negative = torch.load(tmp_path / "negative")
    assert negative.is_neg() and negative.tolist() == [[-2.0, 1.0]]
    for made in (pickle.loads(pickle.dumps([x, y, y.imag])), copy.deepcopy([x, y, y.imag])):
        assert made[1].is_conj() and made[2].is_neg()
        assert made[1].tolist() == [[1 - 2j, 3 + 1j]] and made[2].tolist() == [[-2.0, 1.0]]
    made[0][0, 0] = 5j
    assert made[1][0, 0].item() == -5j and made[2][0, 0].item() == -5.0
    assert copy.copy(y).is_conj()
