"""complex32: pairs of float16, with the operators that torch has for them. Expected numbers are those of NumPy, rounded."""

import pickle

import numpy as np
import pytest

import rushlight as torch
from rushlight import safetensors

OTHERS = "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 bool"


def halves(z):
    """A tensor's parts as NumPy's float16."""
    return torch.view_as_real(z).numpy()


def rounded(array):
    """The parts of complex numbers, rounded to float16."""
    with np.errstate(over="ignore"):
        return np.stack([array.real, array.imag], -1).astype(np.float32).astype(np.float16)


def numbers(n=400, seed=0):
    random = np.random.default_rng(seed)
    array = (random.normal(size=n) + 1j * random.normal(size=n)).astype(np.complex64)
    return rounded(array).astype(np.float32) @ np.array([1, 1j], dtype=np.complex64)


def test_casts():
    wide = (np.random.default_rng(1).normal(size=(600, 2)) * 10.0 ** np.arange(-9, 6).repeat(40)[:, None]).astype(
        np.float64
    )
    array = wide @ np.array([1, 1j])
    z = torch.from_numpy(array).to(torch.complex32)
    np.testing.assert_array_equal(halves(z), rounded(array))
    np.testing.assert_array_equal(halves(torch.from_numpy(array.astype(np.complex64)).chalf()), rounded(array))
    np.testing.assert_array_equal(torch.view_as_real(z.to(torch.complex128)).numpy(), halves(z).astype(np.float64))
    for name in OTHERS.split():
        x = torch.tensor([0, 1, 3, 100], dtype=getattr(torch, name))
        assert x.chalf().tolist() == x.to(torch.complex64).tolist(), name
        assert torch.equal(
            torch.tensor([0, 1, 2 + 3j], dtype=torch.chalf).to(x.dtype), torch.tensor([0, 1, 2 + 3j]).to(x.dtype)
        )
    assert torch.tensor([1 + 2j, 1000j], dtype=torch.chalf).to(torch.float8_e4m3fn).tolist() == [1, 0]
    assert torch.tensor([1.0, 448.0]).to(torch.float8_e4m3fn).chalf().tolist() == [1, 448]
    assert torch.tensor([1j, 0], dtype=torch.chalf).bool().tolist() == [True, False]


def test_facts():
    kind = torch.complex32
    assert torch.chalf is kind and (kind.itemsize, kind.is_complex, kind.is_floating_point, kind.is_signed) == (
        4,
        True,
        False,
        True,
    )
    assert kind.to_real() is torch.float16 and kind.to_complex() is torch.float16.to_complex() is kind
    assert torch.bfloat16.to_complex() is torch.complex64 and pickle.loads(pickle.dumps(kind)) is kind
    assert torch.finfo(kind) == torch.finfo(torch.float16)
    z = torch.tensor([1 + 2j, 0.5], dtype=kind)
    assert z.type() == "torch.ComplexHalfTensor" and z.float().type("torch.ComplexHalfTensor").dtype is kind
    assert repr(z) == "tensor([1.0000+2.j, 0.5000+0.j], dtype=torch.complex32)"
    assert z[0].item() == 1 + 2j and z.tolist() == [1 + 2j, 0.5] and complex(z[1]) == 0.5
    for maker in (torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn):
        assert maker(3, dtype=kind).dtype is kind
    assert torch.full((2,), 1e6, dtype=kind).real.tolist() == [float("inf")] * 2


def test_promotion():
    kind = torch.complex32
    expected = dict.fromkeys("uint8 int8 int16 int32 int64 float16 bool".split(), kind) | {
        "bfloat16": torch.complex64,
        "float32": torch.complex64,
        "float64": torch.complex128,
        "complex64": torch.complex64,
        "complex128": torch.complex128,
    }
    for name, result in expected.items():
        assert (
            torch.promote_types(kind, getattr(torch, name)) is torch.promote_types(getattr(torch, name), kind) is result
        )
    with pytest.raises(RuntimeError, match="^Promotion for uint16, uint32, uint64 types is not supported"):
        torch.promote_types(kind, torch.uint16)
    assert torch.result_type(torch.ones(1, dtype=torch.float16), 1j) is kind
    assert torch.result_type(torch.ones(1, dtype=torch.bfloat16), 1j) is torch.complex64
    assert (torch.ones(2, dtype=torch.float16) * 1j).tolist() == [1j, 1j]


def test_views():
    z = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.chalf)
    assert z.real.tolist() == [1, 3] and z.imag.tolist() == [2, -4] and z.real.dtype is torch.float16
    assert z.view(torch.float16).tolist() == [1, 2, 3, -4] and z.view(torch.int16).numel() == 4
    pairs = torch.tensor([[1.0, 2.0], [3.0, -4.0]], dtype=torch.float16)
    assert torch.view_as_complex(pairs).dtype is z.dtype and torch.equal(torch.view_as_real(z), pairs)
    assert torch.complex(pairs[:, 0], pairs[:, 1]).tolist() == z.tolist()
    z.real[0] = 7
    assert (
        z[0].item() == 7 + 2j
        and z.conj().tolist() == [7 - 2j, 3 + 4j]
        and z.conj().resolve_conj().imag.tolist() == [-2, 4]
    )


def test_arithmetic():
    a, b = numbers(seed=1), numbers(seed=2)
    x, y = torch.from_numpy(a).chalf(), torch.from_numpy(b).chalf()
    np.testing.assert_array_equal(halves(x + y), rounded(a + b))
    np.testing.assert_array_equal(halves(x - y), rounded(a - b))
    np.testing.assert_array_equal(halves(x * 2), rounded(a * 2))
    np.testing.assert_array_equal(halves(x * 2.1), halves(x * torch.full((1,), 2.1, dtype=x.dtype)))
    np.testing.assert_array_equal(halves(-x), rounded(-a))
    np.testing.assert_allclose(halves(x * y), rounded(a * b), rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(x.abs().numpy(), abs(a), rtol=1e-3)
    assert x.abs().dtype is torch.float16
    assert (x == y).tolist() == (a == b).tolist() and (x != x).sum().item() == 0
    assert x.isfinite().all() and not x.isnan().any() and not x.isinf().any() and torch.allclose(x, x)
    assert torch.equal(x.index_select(0, torch.tensor([3, 1])).real, x.real[[3, 1]])
    assert x[:2].masked_fill(torch.tensor([True, False]), 1j).tolist() == [1j, x[1].item()]
    assert x[:2].index_add(0, torch.tensor([0]), x[1:2])[0].item() == (x[0] + x[1]).item()
    assert x[:4].view(2, 2).tril()[0, 1].item() == 0 and torch.tensor([0, 1j], dtype=x.dtype).nonzero().tolist() == [
        [1]
    ]


def test_norms_and_moments():
    a = numbers(seed=3).reshape(20, 20)
    x = torch.from_numpy(a).chalf()
    for norm in (torch.linalg.vector_norm, torch.norm):
        assert norm(x).dtype is torch.float16
        np.testing.assert_allclose(norm(x, 2, 1).numpy(), np.linalg.norm(a, 2, 1), rtol=1e-3)
    for order in (0, 1, 3, float("inf"), -float("inf")):
        np.testing.assert_allclose(
            torch.linalg.vector_norm(x, order, 0).numpy(), np.linalg.norm(a, order, 0), rtol=1e-3
        )
    assert torch.equal(torch.dist(x, x.conj()), torch.linalg.vector_norm(x - x.conj()))
    deviation, mean = torch.std_mean(x, 0)
    np.testing.assert_allclose(deviation.numpy(), a.std(0, ddof=1), rtol=2e-3)
    np.testing.assert_allclose(torch.var(x, 1, correction=0).numpy(), a.var(1), rtol=2e-3)
    np.testing.assert_allclose(halves(mean), rounded(a.mean(0)), atol=1e-3)
    assert (deviation.dtype, mean.dtype) == (torch.float16, torch.complex32)


def test_convolutions():
    random = np.random.default_rng(4)
    a, b = (random.normal(size=(2, 3, 8, 2)) @ [1, 1j] for _ in range(2))
    x, w = (torch.from_numpy(part).chalf().requires_grad_() for part in (a, b[:, :, :3]))
    bias = torch.tensor([1j, 2], dtype=torch.chalf, requires_grad=True)
    wide = [t.detach().to(torch.complex64).requires_grad_() for t in (x, w, bias)]
    result, exact = torch.nn.functional.conv1d(x, w, bias), torch.nn.functional.conv1d(*wide)
    assert result.dtype is torch.chalf
    np.testing.assert_allclose(halves(result.detach()), halves(exact.detach().chalf()), rtol=2e-3, atol=2e-2)
    direction = torch.ones_like(result)
    for found, expected in zip(
        torch.autograd.grad(result, (x, w, bias), direction),
        torch.autograd.grad(exact, wide, direction.to(torch.complex64)),
        strict=True,
    ):
        np.testing.assert_allclose(halves(found), halves(expected.chalf()), rtol=3e-3, atol=3e-2)
    transposed = torch.nn.functional.conv_transpose1d(result, w)
    assert transposed.shape == (2, 3, 8) and transposed.dtype is torch.chalf


def test_spaced_numbers():
    assert torch.linspace(4.25, 0, 1, dtype=torch.chalf).tolist() == [4.25]
    assert torch.logspace(2, 0, 1, 2.0, dtype=torch.chalf).tolist() == [4]
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexHalf'"):
        torch.linspace(0, 1, 2, dtype=torch.chalf)


def test_softmax_of_the_real_parts():
    z = torch.tensor([1 + 2j, 3.0], dtype=torch.chalf)
    assert torch.equal(z.softmax(0, dtype=torch.float32), z.real.float().softmax(0))


REFUSED = {
    "div_cpu": lambda z: z / 2,
    "sum_cpu": lambda z: z.sum(),
    "pow": lambda z: z**2,
    "lt_cpu": lambda z: z < z,
    "sqrt_vml_cpu": lambda z: z.sqrt(),
    "take_cpu": lambda z: z.take(torch.tensor([0])),
    "cumsum_out_cpu": lambda z: z.cumsum(0),
    "angle_cpu": lambda z: z.angle(),
    "logical_not_cpu": lambda z: z.logical_not(),
}


@pytest.mark.parametrize("kernel", REFUSED)
def test_other_operators_refuse_them(kernel):
    with pytest.raises(NotImplementedError, match=f"^\"{kernel}\" not implemented for 'ComplexHalf'"):
        REFUSED[kernel](torch.ones(2, dtype=torch.chalf))


def test_gradients():
    x = torch.tensor([1 + 2j, 3.0], dtype=torch.chalf, requires_grad=True)
    (x * x).abs().sum().backward()
    assert x.grad.dtype is torch.chalf and x.grad.tolist()[1] == 6


def test_storages_files_and_other_libraries(tmp_path):
    z = torch.tensor([1 + 2j, 3.0], dtype=torch.chalf)
    assert list(z.storage()) == [1 + 2j, 3]
    torch.save(z, tmp_path / "file.pt")
    assert torch.load(tmp_path / "file.pt").tolist() == z.tolist() and torch.load(tmp_path / "file.pt").dtype is z.dtype
    assert torch.from_dlpack(z).dtype is z.dtype
    with pytest.raises(TypeError, match="^Got unsupported ScalarType ComplexHalf$"):
        z.numpy()
    with pytest.raises(safetensors.SafetensorError, match="no dtype torch.complex32"):
        safetensors.save({"z": z})


def test_reductions_of_no_elements():
    """torch does not reach the kernels that would reject complex32."""
    z = torch.zeros(0, 5, dtype=torch.complex32)
    for result, expected in ((z.sum(), 0), (z.sum(0), 0), (z.prod(), 1), (z.prod(0), 1)):
        assert result.dtype is torch.complex32 and (result.to(torch.complex64) == expected).all()
    assert z.sum(0).shape == (5,) and z.sum(1).shape == (0,)
    assert z.cumsum(0).shape == z.cumprod(1).shape == (0, 5)
    x = torch.zeros(5, 5, dtype=torch.complex32, requires_grad=True)
    values = torch.ones(5, dtype=torch.complex32, requires_grad=True)
    result = x.index_put((torch.zeros(5, dtype=torch.bool),), values, accumulate=True)
    found = torch.autograd.grad(result, (x, values), torch.ones_like(result))
    assert (found[0].to(torch.complex64) == 1).all() and not found[1].to(torch.complex64).any()
