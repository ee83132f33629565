"""The 8-bit floats: rounding, storage, and the operators that accept them. Expected bits come from lists of all numbers."""

import bisect
import copy
import math
import pickle
import struct

import numpy as np
import pytest

import rushlight as torch
from rushlight import safetensors

nan, inf = math.nan, math.inf
# exponent bits, fraction bits, bias, the codes of infinities and of NaN, what a number above the greatest becomes
FORMATS = {
    "float8_e5m2": (5, 2, 15, {0x7C: inf, 0xFC: -inf}, {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}),
    "float8_e4m3fn": (4, 3, 7, {}, {0x7F, 0xFF}),
    "float8_e5m2fnuz": (5, 2, 16, {}, {0x80}),
    "float8_e4m3fnuz": (4, 3, 8, {}, {0x80}),
    "float8_e8m0fnu": (8, 0, 127, {}, {0xFF}),
}
SIGNED = [name for name in FORMATS if name != "float8_e8m0fnu"]
DTYPES = {name: getattr(torch, name) for name in FORMATS}
OTHERS = "uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 bool"


def number(name, code):
    _, fraction_bits, bias, infinities, nans = FORMATS[name]
    if code in nans:
        return nan
    if code in infinities:
        return infinities[code]
    if name == "float8_e8m0fnu":
        return 2.0 ** (code - bias)
    sign = -1.0 if code & 0x80 else 1.0
    exponent, fraction = code >> fraction_bits & (0x7F >> fraction_bits), code & ((1 << fraction_bits) - 1)
    if exponent == 0:
        return sign * 2.0 ** (1 - bias) * fraction / 2**fraction_bits
    return sign * 2.0 ** (exponent - bias) * (1 + fraction / 2**fraction_bits)


def nearest(name, x):
    """The code for a float32: the nearest number, of two equally near ones the even code."""
    nans = FORMATS[name][4]
    sign = 0x80 if name in SIGNED and math.copysign(1, x) < 0 else 0
    unsigned = min(nans)  # the only NaN of the formats whose zero has no sign
    signed_zero = len(nans) > 1
    if math.isnan(x):
        return sign | 0x7F if signed_zero else unsigned
    codes = [code for code in range(0x80 if name in SIGNED else 0xFF) if math.isfinite(number(name, code))]
    numbers = [number(name, code) for code in codes]
    size = abs(x)
    place = bisect.bisect_left(numbers, size)
    # Beyond the greatest number lies one that the format does not have: a fifth of e8m0's distance is its own value.
    above = 2 * numbers[-1] - numbers[-2] if name in SIGNED else 2 * numbers[-1]
    low, high = (numbers[max(place - 1, 0)], [*numbers, above][place]) if size < above else (above, above)
    down, up = size - low, high - size
    code = place if up < down else max(place - 1, 0)
    if up == down:
        # A half is even with the even code; without a fraction it is rounded up, except below the smallest normal float32.
        code = place - 1 + (place - 1) % 2 if name in SIGNED else place
        code = 0 if not place else code
    if name == "float8_e8m0fnu" and size < 2.0**-126:
        code = int(size > 2.0**-127)
    if code == len(codes):
        return sign | {"float8_e5m2": 0x7C, "float8_e4m3fn": 0x7E}.get(name, unsigned)
    return code | sign if code or signed_zero else 0


def bits(tensor):
    return tensor.view(torch.uint8).tolist()


def all_codes(name):
    return torch.arange(256, dtype=torch.uint8).view(DTYPES[name])


def samples(name):
    """Every number, the middles between neighbours, their neighbours in float32, and numbers at random."""
    numbers = np.array([number(name, code) for code in range(256)])
    finite = np.unique(numbers[np.isfinite(numbers)])
    wanted = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, finite[-1:] * 1.0625, finite[-1:] * 1.5]).astype(
        np.float32
    )
    wanted = np.concatenate(
        [wanted, np.nextafter(wanted, np.float32(inf)), np.nextafter(wanted, np.float32(-inf)), -wanted]
    )
    random = np.random.default_rng(0).integers(0, 1 << 32, 4000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    special = np.array([0.0, -0.0, inf, -inf, nan, 3.4e38, -3.4e38, 1e-45, 2.0**-127, 2.0**-126], dtype=np.float32)
    return np.concatenate([wanted, random, special])


def same(got, expected):
    return all(
        (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
        for a, b in zip(got, expected, strict=True)
    )


@pytest.mark.parametrize("name", FORMATS)
def test_every_byte_is_its_number(name):
    expected = [number(name, code) for code in range(256)]
    x = all_codes(name)
    assert same(x.tolist(), expected)
    assert same(x.float().tolist(), expected) and same(x.double().tolist(), expected)
    assert same(x[::3].float().tolist(), expected[::3])
    assert same([z.real for z in x.to(torch.complex128).tolist()], expected)


@pytest.mark.parametrize("name", FORMATS)
def test_float32_is_rounded_to_the_nearest(name):
    numbers = samples(name)
    expected = [nearest(name, float(x)) for x in numbers]
    assert bits(torch.from_numpy(numbers.copy()).to(DTYPES[name])) == expected
    # A row of another tensor: element by element and with strides.
    wide = torch.from_numpy(np.stack([numbers, numbers], 1))
    assert bits(wide[:, 0].to(DTYPES[name])) == expected


@pytest.mark.parametrize("name", FORMATS)
def test_other_dtypes_are_rounded_through_float32(name):
    kind = DTYPES[name]
    for other in OTHERS.split():
        x = torch.tensor([0, 1, 3, 17, 100, 127], dtype=getattr(torch, other))
        assert bits(x.to(kind)) == bits(x.to(torch.float32).to(kind)), other
        back = all_codes(name)[:100].to(getattr(torch, other))
        assert torch.equal(back, all_codes(name)[:100].float().to(getattr(torch, other))), other
    # First to float32, which loses the last bit, and then to the even number.
    x = torch.tensor([1.0625 + 2.0**-40, 1.125 + 2.0**-40], dtype=torch.float64)
    assert bits(x.to(kind)) == bits(x.float().to(kind))
    for other in DTYPES.values():
        assert bits(all_codes(name).to(other)) == bits(all_codes(name).float().to(other)) or other == kind


@pytest.mark.parametrize("name", FORMATS)
def test_new_tensors(name):
    kind = DTYPES[name]
    assert torch.empty(2, 3, dtype=kind).shape == (2, 3) and torch.zeros(2, dtype=kind).dtype is kind
    assert torch.ones(2, dtype=kind).tolist() == torch.ones_like(torch.zeros(2, dtype=kind)).tolist() == [1, 1]
    assert torch.full((2,), 2.0, dtype=kind).tolist() == [2, 2]
    assert (
        torch.tensor([1, 2.0, True], dtype=kind).tolist()
        == torch.as_tensor([1, 2, 1], dtype=kind).tolist()
        == [1, 2, 1]
    )
    assert torch.zeros(2, dtype=kind).new_tensor([4.0]).dtype is kind
    assert torch.zeros(2, dtype=kind, requires_grad=True).requires_grad
    assert torch.zeros(2, dtype=kind, device="meta").dtype is kind
    with pytest.raises(TypeError, match="must be real number, not complex"):
        torch.tensor([1j], dtype=kind)
    with pytest.raises(NotImplementedError, match='"arange_cpu" not implemented for'):
        torch.arange(3, dtype=kind)


def test_numbers_that_do_not_fit():
    for name, value in [
        ("e4m3fn", 449.0),
        ("e4m3fn", inf),
        ("e4m3fnuz", 241),
        ("e5m2", 1e6),
        ("e5m2fnuz", inf),
    ]:
        with pytest.raises(
            RuntimeError, match=rf"value cannot be converted to type c10::Float8_{name} without overflow"
        ):
            torch.full((2,), value, dtype=DTYPES[f"float8_{name}"])
    assert torch.full((2,), inf, dtype=torch.float8_e5m2).tolist() == [inf, inf]
    # Powers of two take the magnitude of every number.
    powers = [torch.full((1,), value, dtype=torch.float8_e8m0fnu).item() for value in (-5, 0, 1e38, inf)]
    assert same(powers, [4.0, 2.0**-127, 2.0**126, nan])
    # From Python's numbers they are rounded as from a tensor.
    assert torch.tensor([1000, -inf], dtype=torch.float8_e4m3fn).tolist() == [448, -448]


@pytest.mark.parametrize("name", FORMATS)
def test_elements_are_moved(name):
    x = all_codes(name)
    order = torch.arange(255, -1, -1)
    assert bits(x[order]) == bits(x.index_select(0, order)) == list(range(255, -1, -1))
    assert bits(x[10:20:3]) == [10, 13, 16, 19] and bits(x[x.view(torch.uint8) < 3]) == [0, 1, 2]
    assert bits(x.view(16, 16).t().reshape(-1)) == [16 * i + j for j in range(16) for i in range(16)]
    assert bits(torch.cat([x[:2], x[5:6]])) == [0, 1, 5] and bits(torch.stack([x[1], x[0]])) == [1, 0]
    assert bits(x[:2].repeat(2)) == [0, 1, 0, 1] and bits(x[:3].roll(1)) == [2, 0, 1]
    assert bits(torch.where(torch.tensor([True, False]), x[3:5], x[7:9])) == [3, 8]
    y = torch.ones(4, dtype=x.dtype)
    y[1] = x[9]
    y[2:] = 2.0
    assert bits(y)[1] == 9 and y[2:].tolist() == [2, 2]
    y.copy_(torch.tensor([1, 2, 4, 8]))
    assert y.tolist() == [1, 2, 4, 8] and y.clone().fill_(4).tolist() == [4] * 4
    y.index_put_((torch.tensor([0, 0]),), torch.ones(2, dtype=x.dtype), accumulate=True)
    assert y[0].item() in (2.0, 3.0, 4.0)
    assert bits(torch.nn.functional.embedding(torch.tensor([2]), x.view(64, 4)))[0] == [8, 9, 10, 11]


@pytest.mark.parametrize("name", FORMATS)
def test_comparison_and_arithmetic(name):
    x = all_codes(name)
    expected = [number(name, code) for code in range(256)]
    assert (x == x).tolist() == [value == value for value in expected]
    assert (x != 1).tolist() == [value != 1 for value in expected]
    assert x.isnan().tolist() == [value != value for value in expected]
    assert same(x.abs().tolist(), [abs(value) for value in expected])
    y = x.view(torch.uint8).roll(77).view(x.dtype)
    assert bits(x * y) == bits((x.float() * y.float()).to(x.dtype))
    assert not x[:0].any() and x[:0].all() and torch.equal(x[1:5], x[1:5].clone())
    assert x[1:4].bool().tolist() == [True] * 3


def matrices(name, seed=0):
    random = np.random.default_rng(seed)
    shapes = {"a": (5, 9), "b": (9, 4), "c": (5, 4)}
    return [
        torch.from_numpy(random.normal(size=shape).astype(np.float32) * 3).to(DTYPES[name]) for shape in shapes.values()
    ]


@pytest.mark.parametrize("name", SIGNED)
def test_products_are_rounded_once(name):
    a, b, c = matrices(name)
    exact = a.float() @ b.float()
    expected = bits(exact.to(a.dtype))
    assert bits(a @ b) == bits(torch.mm(a, b)) == bits(torch.nn.functional.linear(a, b.t())) == expected
    assert bits((b.t() @ a.t()).t()) == bits(torch.matmul(a[None], b)[0]) == expected
    assert bits(a[0] @ b) == expected[0]
    assert bits(a[:, ::2] @ b[::2]) == bits((a.float()[:, ::2] @ b.float()[::2]).to(a.dtype))
    added = (0.5 * c.float() + 2 * exact).to(a.dtype)
    assert bits(torch.addmm(c, a, b, beta=0.5, alpha=2)) == bits(added)
    assert bits(torch.nn.functional.linear(a, b.t(), c[0])) == bits((exact + c[0].float()).to(a.dtype))
    out = torch.empty(5, 8, dtype=a.dtype)[:, ::2]
    assert bits(torch.mm(a, b, out=out)) == bits(out) == expected
    # The sum of several products is rounded after each.
    first = (c.float() + exact).to(a.dtype)
    both = (first.float() + exact).to(a.dtype)
    assert bits(torch.addbmm(c, torch.stack([a, a]), torch.stack([b, b]))) == bits(both)
    x, y = (torch.ones(2, 2, dtype=a.dtype, requires_grad=True) for _ in range(2))
    for grad in torch.autograd.grad(x @ y, (x, y), torch.ones(2, 2, dtype=a.dtype)):
        assert grad.tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("name", FORMATS)
def test_a_dtype_converts_them_first(name):
    x = matrices(name)[0]
    wide = x.float()
    assert torch.equal(x.sum(dtype=torch.float32), wide.sum())
    assert torch.equal(x.cumsum(1, dtype=torch.float64), wide.double().cumsum(1))
    assert torch.equal(x.softmax(1, dtype=torch.float32), wide.softmax(1))
    assert torch.equal(x.log_softmax(0, dtype=torch.float64), wide.double().log_softmax(0))
    for kernel, call in {"softmax": x.softmax, "log_softmax": x.log_softmax}.items():
        with pytest.raises(NotImplementedError, match=f'^"{kernel}_lastdim_kernel_impl" not implemented for'):
            call(1)


def test_infinities():
    x = torch.tensor([1.0, inf, nan]).to(torch.float8_e5m2)
    assert x.isinf().tolist() == [False, True, False] and x.isfinite().tolist() == [True, False, False]
    assert torch.tensor([1.0, nan]).to(torch.float8_e8m0fnu).isfinite().tolist() == [True, False]


def test_windows():
    kind = torch.float8_e5m2
    assert torch.hann_window(1, dtype=kind).tolist() == [1] and torch.hann_window(0, dtype=kind).tolist() == []
    with pytest.raises(NotImplementedError, match="^\"arange_cpu\" not implemented for 'Float8_e5m2'"):
        torch.hann_window(3, dtype=kind)


REFUSED = {
    "add_stub": lambda x: x + x,
    "mul_cpu_reduced_float": lambda x: x * 2,
    "lt_cpu": lambda x: x < x,
    "neg_cpu": lambda x: -x,
    "sum_cpu": lambda x: x.sum(),
    "masked_fill": lambda x: x.masked_fill(x == x, 1),
    "index_fill_cpu": lambda x: x.index_fill(0, torch.tensor([0]), 1),
    "index_copy_cpu": lambda x: x.index_copy(0, torch.tensor([0]), x[:1]),
    "nonzero_count_cpu": lambda x: x.nonzero(),
    "tril": lambda x: x.view(1, 2).tril(),
    "take_cpu": lambda x: x.take(torch.tensor([0])),
    "maximum_cpu": lambda x: x.maximum(x),
    "exp_vml_cpu": lambda x: x.exp(),
    "sqrt_vml_cpu": lambda x: x.sqrt(),
    "dot": lambda x: x @ x,
    "addmv_impl_cpu": lambda x: x.view(1, 2) @ x,
    "baddbmm_with_gemm": lambda x: x.view(1, 1, 2).bmm(x.view(1, 2, 1)),
    "norm_cpu": lambda x: torch.linalg.vector_norm(x),
    "cumsum_out_cpu": lambda x: x.cumsum(0),
    "random_kernel_cpu": lambda x: x.random_(),
    "normal_kernel_cpu": lambda x: x.normal_(),
}


@pytest.mark.parametrize("kernel", REFUSED)
@pytest.mark.parametrize("name", FORMATS)
def test_other_operators_refuse_them(name, kernel):
    x = torch.ones(2, dtype=DTYPES[name])
    with pytest.raises(NotImplementedError, match=f"^\"{kernel}\" not implemented for 'F{name[1:]}'"):
        REFUSED[kernel](x)


@pytest.mark.parametrize("name", FORMATS)
def test_promotion(name):
    x, kind = torch.ones(2, dtype=DTYPES[name]), DTYPES[name]
    shown = f"F{name[1:]}"
    for other in [*OTHERS.split(), "complex32", *FORMATS]:
        if other == name:
            assert torch.promote_types(kind, kind) is kind
            continue
        with pytest.raises(
            RuntimeError, match=f"^Promotion for Float8 Types is not supported, attempted to promote {shown} and "
        ):
            torch.promote_types(kind, getattr(torch, other))
        with pytest.raises(
            RuntimeError, match="^Promotion for Float8 Types is not supported, attempted to promote .* and F"
        ):
            torch.promote_types(getattr(torch, other), kind)
    with pytest.raises(RuntimeError, match=f"attempted to promote {shown} and Float"):
        torch.cat([x, torch.ones(1)])
    assert torch.result_type(x, 1) is torch.result_type(x, 1.5) is torch.result_type(x, torch.tensor(1.0)) is kind
    with pytest.raises(RuntimeError, match=f"^Unknown Complex ScalarType for {shown}"):
        torch.result_type(x, 1j)
    assert torch.can_cast(kind, torch.float32) and not torch.can_cast(kind, torch.int8)


def test_the_default_dtype_is_another():
    with pytest.raises(TypeError, match="^couldn't find storage object Float8_e5m2Storage$"):
        torch.set_default_dtype(torch.float8_e5m2)
    assert torch.get_default_dtype() is torch.float32


def test_facts():
    for name, kind in DTYPES.items():
        assert (kind.itemsize, kind.is_floating_point, kind.is_complex) == (1, True, False)
        assert kind.is_signed == (name in SIGNED) and kind.to_real() is kind and repr(kind) == f"torch.{name}"
        with pytest.raises(RuntimeError, match=f"^Unknown Complex ScalarType for F{name[1:]}$"):
            kind.to_complex()
        assert pickle.loads(pickle.dumps(kind)) is kind
        x = torch.ones(2, dtype=kind)
        assert x.type() == f"torch.F{name[1:]}Tensor" and x.float().type(x.type()).dtype is kind
        assert repr(x) == f"tensor([1., 1.], dtype=torch.{name})"
        info = torch.finfo(kind)
        assert (info.max, info.bits, info.dtype, info.resolution) == (
            max(v for v in (number(name, code) for code in range(256)) if math.isfinite(v)),
            8,
            name,
            1.0,
        )
        assert info.min == (-info.max if name in SIGNED else info.tiny)
    tiny = [torch.finfo(kind).smallest_normal for kind in DTYPES.values()]
    assert tiny == [2.0**-14, 2.0**-6, 2.0**-15, 2.0**-7, 2.0**-127]
    assert [torch.finfo(kind).eps for kind in DTYPES.values()] == [0.25, 0.125, 0.125, 0.125, 1.0]


@pytest.mark.parametrize("name", FORMATS)
def test_storages_and_files(name, tmp_path):
    x = all_codes(name)
    storage = x.storage()
    assert storage.dtype is x.dtype and len(storage) == 256 and storage[0] == number(name, 0)
    with pytest.raises(KeyError, match=f"dtype torch.{name} is not recognized"):
        storage.pickle_storage_type()
    torch.save({"x": x, "row": x.view(16, 16)[3]}, tmp_path / "file.pt")
    found = torch.load(tmp_path / "file.pt")
    assert (
        found["x"].dtype is x.dtype
        and bits(found["x"]) == list(range(256))
        and bits(found["row"]) == list(range(48, 64))
    )
    assert bits(copy.deepcopy(x)) == bits(x)
    data = safetensors.save({"x": x})
    code = {"e5m2": "F8_E5M2", "e4m3fn": "F8_E4M3", "e8m0fnu": "F8_E8M0"}.get(name[7:], f"F8_{name[7:].upper()}")
    assert f'"dtype":"{code}"'.encode() in data
    assert bits(safetensors.load(data)["x"]) == list(range(256)) and safetensors.load(data)["x"].dtype is x.dtype


@pytest.mark.parametrize("name", FORMATS)
def test_other_libraries(name):
    x = all_codes(name)
    for export in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=f"^Got unsupported ScalarType F{name[1:]}$"):
            export()
    again = torch.from_dlpack(x)
    assert again.dtype is x.dtype and again.data_ptr() == x.data_ptr()
    assert torch.frombuffer(bytearray(range(4)), dtype=x.dtype).view(torch.uint8).tolist() == [0, 1, 2, 3]
    assert struct.pack("4B", *bits(x[:4])) == bytes(range(4))


def test_storages_of_bytes_and_numbers_are_cast():
    storage = torch.tensor([1.0, 300.0]).storage()
    assert list(storage.float8_e4m3fn()) == [1, 288] and storage.float8_e5m2().dtype is torch.float8_e5m2
    assert list(torch.tensor([1, 2], dtype=torch.uint8).untyped_storage().float8_e5m2fnuz()) == [1, 2]


def test_assert_close_compares_them():
    x = torch.tensor([1.0, 2.0]).to(torch.float8_e5m2)
    torch.testing.assert_close(x, x.clone())
    with pytest.raises(AssertionError, match="^Tensor-likes are not equal!"):
        torch.testing.assert_close(x, torch.ones_like(x))


def test_gradients_pass_through_casts():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.to(torch.float8_e5m2)
    assert y.requires_grad and y.dtype is torch.float8_e5m2
    (y.float() * torch.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [2, 3] and x.grad.dtype is torch.float32


@pytest.mark.parametrize("name", ["int3", "uint7", "bits8", "bits16", "float4_e2m1fn_x2"])
def test_packed_dtypes_are_named(name):
    dtype = getattr(torch, name)
    assert repr(dtype) == f"torch.{name}" and dtype.itemsize == (2 if name == "bits16" else 1)
    assert dtype.is_floating_point == name.startswith("float") and dtype.is_signed == name.startswith(("int", "float"))
    with pytest.raises(NotImplementedError, match="not implemented for"):
        torch.ones(1, dtype=dtype)
