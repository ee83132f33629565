"""Products of groups of matrices, and of 8-bit floats with factors."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F


def numbers(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def ends(*values):
    return torch.tensor(values, dtype=torch.int32)


def test_groups_of_rows():
    rows, weights = numbers(16, 8).requires_grad_(), numbers(3, 8, 12, seed=1).requires_grad_()
    result = F.grouped_mm(rows, weights, offs=ends(4, 4, 13))
    expected = torch.zeros(16, 12)
    expected[:4], expected[4:13] = rows[:4] @ weights[0], rows[4:13] @ weights[2]
    assert torch.equal(result, expected.detach())
    torch.testing.assert_close(torch._grouped_mm(rows, weights.mT.contiguous().mT, ends(4, 4, 13)), result)
    grads = torch.autograd.grad(result.sum(), (rows, weights))
    assert grads[0][13:].count_nonzero() == 0 and grads[1][1].count_nonzero() == 0
    # A product may add in another order than a sum.
    torch.testing.assert_close(grads[0][:4], weights.detach()[0].sum(1).expand(4, 8))


def test_groups_of_columns_and_of_summed_elements():
    a, b = numbers(2, 4, 8), numbers(8, 12, seed=1)
    result = F.grouped_mm(a, b, offs=ends(4, 12))
    assert torch.equal(result, torch.cat([a[0] @ b[:, :4], a[1] @ b[:, 4:]], 1))
    a, b = numbers(4, 8), numbers(8, 12, seed=1)
    assert torch.equal(F.grouped_mm(a, b, offs=ends(3, 8)), torch.stack([a[:, :3] @ b[:3], a[:, 3:] @ b[3:]]))


def test_pairs_of_matrices():
    a, b = numbers(2, 3, 8).bfloat16(), numbers(2, 8, 8, seed=1).bfloat16()
    assert torch.equal(F.grouped_mm(a, b), torch.bmm(a, b))


ROWS, WEIGHTS = torch.ones(16, 32), torch.ones(2, 32, 16)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: F.grouped_mm(ROWS.double(), WEIGHTS),
            "Expected mat_a to be Float32, BFloat16 or Float16 matrix, got Double",
        ),
        (
            lambda: F.grouped_mm(ROWS, WEIGHTS.int()),
            "Expected mat_b to be Float32, BFloat16 or Float16 matrix, got Int",
        ),
        (lambda: F.grouped_mm(ROWS[0], WEIGHTS), "mat_a has to be 2 or 3d"),
        (lambda: F.grouped_mm(ROWS, WEIGHTS[:, :8]), "contraction dimension of mat_a and mat_b must match"),
        (lambda: F.grouped_mm(torch.ones(3, 4, 5), torch.ones(3, 5, 6)), "strides should be multiple of 16 bytes"),
        (lambda: F.grouped_mm(ROWS, WEIGHTS), "Have to provide offsets if there is a 2d matrix"),
        (lambda: F.grouped_mm(ROWS, WEIGHTS, offs=ends(4, 16)[None]), "offs has to be 1D"),
        (lambda: F.grouped_mm(ROWS, WEIGHTS, offs=torch.tensor([4, 16])), "Offsets have to be int32"),
        (lambda: F.grouped_mm(ROWS, WEIGHTS, offs=ends(4, 16), bias=torch.ones(16)), "Bias not supported yet"),
        (
            lambda: F.grouped_mm(ROWS, WEIGHTS, offs=ends(4, 16), out_dtype=torch.float16),
            "Grouped gemm output dtype must match `mat_a` dtype",
        ),
        (lambda: F.grouped_mm(ROWS, WEIGHTS, offs=ends(4)), "matrix batch sizes have to match"),
    ],
)
def test_groups_that_do_not_fit(call, sentence):
    with pytest.raises(RuntimeError, match=f"^{sentence}"):
        call()


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_factors_are_multiplied_first(dtype):
    a, b = numbers(6, 8).to(dtype), numbers(8, 4, seed=1).to(dtype)
    whole = (torch.tensor(0.3), torch.tensor(2.5))
    lines = (numbers(6, 1, seed=2).abs(), numbers(1, 4, seed=3).abs())
    for (first, second), recipe in ((whole, F.ScalingType.TensorWise), (lines, F.ScalingType.RowWise)):
        exact = (a.float() * first) @ (b.float() * second)
        assert torch.equal(torch._scaled_mm(a, b, first, second, out_dtype=torch.float32), exact)
        assert torch.equal(F.scaled_mm(a, b, first, recipe, second, recipe), exact.bfloat16())
        own = torch._scaled_mm(a, b, first, second)
        assert own.dtype is dtype and torch.equal(own.float(), exact.to(dtype).float())
        halved = torch._scaled_mm(a, b, first, second, scale_result=torch.tensor(2.0))
        assert torch.equal(halved.float(), (exact / 2).to(dtype).float())
    bias = numbers(4)
    result = torch._scaled_mm(a, b, *whole, bias=bias, out_dtype=torch.float32)
    assert torch.equal(result, (a.float() * whole[0]) @ (b.float() * whole[1]) + bias)


def test_factors_that_do_not_fit():
    x, one = torch.ones(4, 4).to(torch.float8_e5m2), torch.tensor(1.0)
    kinds, swizzles = F.ScalingType, F.SwizzleType
    wrong = "^Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8"
    for call in (
        lambda: torch._scaled_mm(x.float(), x, one, one),
        lambda: torch._scaled_mm(x, x, one.double(), one),
        lambda: torch._scaled_mm(x, x, torch.ones(3), one),
        lambda: F.scaled_mm(x, x, [one, one], [kinds.TensorWise], one, kinds.TensorWise),
        lambda: F.scaled_mm(x, x, torch.ones(4, 1), kinds.BlockWise1x32, torch.ones(4, 1), kinds.BlockWise1x32),
    ):
        with pytest.raises(ValueError, match=wrong):
            call()
    with pytest.raises(ValueError, match="^CPU does not support swizzle"):
        F.scaled_mm(x, x, one, kinds.TensorWise, one, kinds.TensorWise, swizzles.SWIZZLE_32_4_4)
    with pytest.raises(ValueError, match="^scale_a must have 1 Float element$"):
        F.scaled_mm(x, x, torch.ones(4, 1), kinds.TensorWise, torch.ones(1, 4), kinds.TensorWise)
    with pytest.raises(RuntimeError, match=r"^mat_a and mat_b shapes cannot be multiplied \(4x4 and 3x4\)"):
        torch._scaled_mm(x, x[:3], one, one)
    with pytest.raises(RuntimeError, match="^Bias must be size 4 but got 3$"):
        torch._scaled_mm(x, x, one, one, bias=torch.ones(3))


def test_integers_of_eight_bits_are_summed_in_32():
    x = torch.tensor([[-128, 127, 1], [3, -4, 5]], dtype=torch.int8)
    y = torch.tensor([[127, -128], [127, 1], [-1, 2]], dtype=torch.int8)
    expected = x.numpy().astype(int) @ y.numpy().astype(int)
    product = torch._int_mm(x, y)
    assert product.dtype == torch.int32 and product.tolist() == expected.tolist()
    out = torch.empty(2, 2, dtype=torch.int32)
    assert torch._int_mm(x, y, out=out) is out and torch.equal(out, product)
    assert (
        torch._int_mm(x.view(torch.uint8), y).tolist() == (x.view(torch.uint8).numpy().astype(int) @ y.numpy()).tolist()
    )
    assert torch._int_mm(x[:, :0], y[:0]).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda x, y: (x.float(), y), "Expected self dtype to be int8 or uint8 but got float"),
        (lambda x, y: (x, y.int()), "Expected mat2 dtype to be of type int8 but got int"),
        (lambda x, y: (x, x), r"self.size\(1\) needs to match mat2.size\(0\) but got 3 and 2"),
        (lambda x, y: (x[0], y), "Expected self to be of dimension 2 but got 1"),
    ],
)
def test_products_of_other_integers_are_refused(change, sentence):
    x, y = torch.ones(2, 3, dtype=torch.int8), torch.ones(3, 2, dtype=torch.int8)
    with pytest.raises(RuntimeError, match=f"^int_mm_out_cpu: {sentence}"):
        torch._int_mm(*change(x, y))
    with pytest.raises(RuntimeError, match="Expected result dtype to be of type kInt but got long int"):
        torch._int_mm(x, y, out=torch.empty(2, 2, dtype=torch.int64))
