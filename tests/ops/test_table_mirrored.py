"""Every row with tensors whose memory holds the conjugates, or the negatives, of their elements (torch's conj and neg bits)."""

import copy
import pickle

import pytest
from table_cases import Report, array, call, cases, change, draw, every_row, is_inexact, is_tensor, name_of, tensors_in

import rushlight as torch
from rushlight import _C

MARKED = ("float32", "float64", "complex64", "complex128")
#: Views of the bytes, which are not those of the elements.
REFUSES = ("view_as_real", "view_as_complex", "view")


def mirrored(x):
    """A tensor of the same elements, marked."""
    if not is_inexact(x):
        return x
    if x.is_complex():
        return torch.conj(torch.conj_physical(x)).detach()
    return _C._functions[""]["_neg_view"](torch.neg(x)).detach()


def contents(value):
    return [(name_of(found.dtype), list(found.shape), array(found).tobytes()) for found in tensors_in(value)]


def outcome(function, args, kwargs):
    """What a call gives or raises, and what its arguments hold afterwards."""
    try:
        result = call(function, args, kwargs)
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
        return type(error), contents([args, kwargs])
    return contents(result), contents([args, kwargs])


def marked_cases(row):
    for dtype, sample in cases(row, MARKED):
        args, kwargs = draw(row, sample, dtype)
        if any(map(is_inexact, tensors_in([args, kwargs]))):
            yield dtype, sample


@every_row
def test_operands(row):
    """The same results, bit for bit, and the same changes of arguments, or a refusal of bytes that are others."""
    if row.python_name in ("data_ptr", "untyped_storage"):
        pytest.skip("about memory")
    report = Report(row)
    for dtype, sample in marked_cases(row):

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(row, sample, dtype)
            wanted = outcome(row.function(), args, kwargs)
            args, kwargs = draw(row, sample, dtype)
            got = outcome(row.function(), change(args, mirrored), change(kwargs, mirrored))
            if got[0] is RuntimeError and row.python_name in REFUSES:
                return None
            return None if got == wanted else f"{got} instead of {wanted}"

        report.guard(dtype, sample, check)
    report.close()


@every_row
def test_targets(row):
    """What is written in place or to `out=` is what such a tensor shows afterwards."""
    if not {"inplace", "out"} & set(row.variants):
        pytest.skip("neither in place nor out=")
    report = Report(row)
    for dtype, sample in marked_cases(row):

        def check(dtype=dtype, sample=sample):
            args, kwargs = draw(row, sample, dtype)
            if "inplace" in row.variants and is_tensor(args[0]):
                rest = args[1:], kwargs
                own, other = args[0].clone(), mirrored(args[0])
                wanted = outcome(row.method("_"), (own, *rest[0]), rest[1])
                if (got := outcome(row.method("_"), (other, *rest[0]), rest[1])) != wanted:
                    return f"in place {got} instead of {wanted}"
            if "out" in row.variants and "dtype" not in kwargs:
                try:
                    results = tensors_in(call(row.function(), args, kwargs))
                except (RuntimeError, ValueError):
                    return None  # the tests of values judge it
                outs = [mirrored(torch.ones_like(result)) for result in results]
                if not any(is_inexact(out) for out in outs):
                    return None
                call(row.function(), args, {**kwargs, "out": outs[0] if len(outs) == 1 else tuple(outs)})
                if contents(outs) != contents(results):
                    return f"out= {contents(outs)} instead of {contents(results)}"
            return None

        report.guard(dtype, sample, check)
    report.close()


def test_written_through():
    """What is written to a conjugate, its imaginary part or its transpose stands in the tensor as its conjugate."""
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


def test_what_cannot_show_marks():
    y = torch.tensor([1 + 2j]).conj()
    for export in (y.numpy, y.__array__, lambda: memoryview(y), y.__dlpack__):
        with pytest.raises((RuntimeError, BufferError), match="conj"):
            export()
    with pytest.raises(RuntimeError, match="negative bit"):
        y.imag.numpy()
    assert y.numpy(force=True).tolist() == [1 - 2j] and y.imag.numpy(force=True).tolist() == [-2.0]
    assert y.tolist() == [1 - 2j] and y.item() == 1 - 2j and repr(y) == "tensor([1.-2.j])"


def test_set_keeps_the_mark_of_the_receiver():
    x = torch.tensor([1 + 2j])
    plain, marked = torch.zeros(1, dtype=torch.complex64), torch.tensor([5j]).conj()
    assert plain.set_(x.conj()).tolist() == [1 + 2j] and marked.set_(x).tolist() == [1 - 2j]


def test_marks_travel(tmp_path):
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
