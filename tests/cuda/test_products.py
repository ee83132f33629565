"""Products of matrices by cuBLASLt, on the stand-in of the card made of software, which checks every call."""

import pytest
from soft_card import FOLDER, needs_soft_card, run

import rushlight as torch

pytestmark = needs_soft_card

#: `library()` counts the calls of the stand-in for cuBLASLt, and `launches()` the kernels.
COUNTERS = """
import ctypes
card = ctypes.CDLL("libcuda.so.1")
card.softcuda_products.restype = card.softcuda_launches.restype = ctypes.c_uint64
def library():
    torch.cuda.synchronize()
    return card.softcuda_products()
def launches():
    torch.cuda.synchronize()
    return card.softcuda_launches()
"""


def test_every_product_is_that_of_the_host():
    """Row-major, column-major, sliced, expanded and regular operands, with all kinds of addends, in all dtypes."""
    run(
        COUNTERS
        + """
torch.manual_seed(0)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128)
TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-4, torch.complex64: 1e-4}
def forms(*sizes):
    # Memory, and how a tensor of these sizes lies in it.
    def normal(*sizes):
        return torch.randn(*sizes, dtype=torch.float64)
    rest = sizes[:-1]
    yield normal(*sizes), lambda x: x
    yield normal(*sizes[:-2], sizes[-1], sizes[-2]), lambda x: x.mT
    yield normal(*rest, 2 * sizes[-1]), lambda x: x[..., ::2]
    yield normal(*rest, sizes[-1] + 3), lambda x: x[..., 1:-2]
    yield normal(*sizes[:-2], 1, sizes[-1]), lambda x: x.expand(*sizes)
    if len(sizes) > 2:
        yield normal(1, *sizes[1:]), lambda x: x.expand(*sizes)
def plain(*sizes):
    return next(forms(*sizes))
def same(function, *operands, products=1, dtype):
    host = function(*[view(x.to(dtype)) for x, view in operands])
    before = library()
    card = function(*[view(x.to(dtype).cuda()) for x, view in operands])
    assert card.dtype == host.dtype and card.stride() == host.stride(), (card.stride(), host.stride())
    far = (card.cpu() - host).abs().max().item()
    assert far <= TOLERANCE.get(dtype, 1e-10) * 10, (function, dtype, far)
    assert library() == before + products, (function, dtype, library() - before)
for dtype in DTYPES:
    for a in forms(3, 5):
        for b in forms(5, 4):
            same(torch.mm, a, b, dtype=dtype)
    for a in forms(2, 3, 5):
        for b in forms(2, 5, 4):
            same(torch.bmm, a, b, dtype=dtype)
    a, b = plain(3, 5), plain(5, 4)
    addends = [*forms(3, 4), (torch.randn(4, dtype=torch.float64), lambda x: x), plain(3, 1), plain(1, 1)]
    for addend in addends:
        for factors in ({}, {"beta": 0.5, "alpha": -2}, {"beta": 0}):
            same(lambda c, a, b: torch.addmm(c, a, b, **factors), addend, a, b, dtype=dtype)
            same(lambda c, a, b: torch.addmm(c, a, b.mT.contiguous().mT, **factors), addend, a, b, dtype=dtype)
    for addend in [*forms(2, 3, 4), *addends]:
        def batched(c, a, b):
            return torch.baddbmm(c, a.expand(2, 3, 5), b.expand(2, 5, 4), beta=2, alpha=0.5)
        same(batched, addend, a, b, dtype=dtype)
    def in_place(c, a, b):
        return c.clone().addmm_(a, b, beta=-1)
    same(in_place, plain(3, 4), a, b, dtype=dtype)
    bias = (torch.randn(4, dtype=torch.float64), lambda x: x)
    same(torch.nn.functional.linear, plain(2, 3, 5), plain(4, 5), bias, dtype=dtype)
    same(torch.mm, plain(3, 200), plain(200, 2), dtype=dtype)
    same(torch.matmul, (plain(3, 2, 2, 5)[0], lambda x: x.transpose(0, 1)), (plain(2, 1, 5, 3)[0], lambda x: x.expand(2, 3, 5, 3)),
         products=2, dtype=dtype)
""",
        SOFTCUDA_SEED=5,
    )


def test_what_it_does_not_take_runs_on_the_kernel():
    """Integers and empty sums; results that have gaps stay right."""
    run(
        COUNTERS
        + """
before = library()
x = torch.arange(6).reshape(2, 3).cuda()
assert torch.equal((x @ x.mT).cpu(), torch.tensor([[5, 14], [14, 50]]))
assert torch.equal(torch.mm(torch.ones(2, 0, device="cuda"), torch.ones(0, 3, device="cuda")).cpu(), torch.zeros(2, 3))
assert library() == before
wide = torch.zeros(2, 6, device="cuda")
torch.mm(x.float(), x.float().mT, out=wide[:, ::3])
assert wide[:, ::3].tolist() == [[5.0, 14.0], [14.0, 50.0]] and wide[:, 1].tolist() == [0.0, 0.0]
"""
    )


def test_a_bias_is_added_without_a_kernel():
    run(
        COUNTERS
        + """
layer = torch.nn.Linear(5, 4).cuda()
x = torch.randn(3, 5, device="cuda")
before = library(), launches()
y = layer(x)
assert (library(), launches()) == (before[0] + 1, before[1])
"""
    )


def test_an_algorithm_is_asked_for_once():
    """Neither other addresses nor other biases ask again; other sizes, orders, alignments and settings do."""
    run(
        COUNTERS
        + """
card.softcuda_choices.restype = ctypes.c_uint64
def same(result, expected):
    return torch.allclose(result, expected, atol=1e-5)
def asks(call):
    before = card.softcuda_choices()
    result = call()
    return card.softcuda_choices() - before, result.cpu()
x, y = torch.randn(2, 4, 4)
a, b = x.cuda(), y.cuda()
assert asks(lambda: a @ b)[0] == 1
for _ in range(3):
    count, result = asks(lambda: a.clone() @ b.clone())
    assert count == 0 and same(result, x @ y)
assert [asks(lambda: a @ b.T)[0], asks(lambda: a[:3] @ b)[0], asks(lambda: a.double() @ b.double())[0]] == [1, 1, 1]
torch.backends.cuda.matmul.allow_tf32 = True
assert [asks(lambda: a @ b)[0] for _ in range(2)] == [1, 0]
torch.backends.cuda.matmul.allow_tf32 = False
assert asks(lambda: a @ b)[0] == 0
unaligned = torch.empty(17, device="cuda")[1:].view(4, 4).copy_(b)
count, result = asks(lambda: a @ unaligned)
assert count == 1 and same(result, x @ y)
for n, bias in enumerate(torch.randn(3, 4)):
    count, result = asks(lambda: torch.addmm(bias.cuda(), a, b))
    assert count == (n == 0) and same(result, torch.addmm(bias, x, y))
"""
    )


def test_the_precision_of_float32_and_of_long_sums():
    """TF32 keeps ten bits, and parts of sums are rounded, only where the program permits it."""
    run(
        """
matmul = torch.backends.cuda.matmul
x = torch.full((1, 1), 1 + 2.0**-12, device="cuda")
def product():
    return torch.mm(x, torch.ones(1, 1, device="cuda")).item()
assert product() == 1 + 2.0**-12
matmul.allow_tf32 = True
assert torch.get_float32_matmul_precision() == "high" and product() == 1.0
matmul.allow_tf32 = False
assert torch.get_float32_matmul_precision() == "highest" and product() == 1 + 2.0**-12
torch.set_float32_matmul_precision("medium")
assert matmul.allow_tf32 and product() == 1.0
torch.set_float32_matmul_precision("highest")
for dtype, name in ((torch.float16, "allow_fp16_reduced_precision_reduction"), (torch.bfloat16, "allow_bf16_reduced_precision_reduction")):
    a = torch.ones(1, 128, dtype=dtype, device="cuda")
    a[0, :64] = 33.03125 if dtype == torch.float16 else 33.25
    a[0, 64:] = -a[0, :64]
    b = torch.ones(128, 1, dtype=dtype, device="cuda")
    b[0, 0] = 1.25
    exact = 0.25 * a[0, 0].item()
    def off():
        return abs(torch.mm(a, b).item() - exact) > 1e-2 * exact
    assert off()
    for value in (False, (False, True), (False, False)):
        setattr(matmul, name, value)
        assert not off() and getattr(matmul, name) is False, (name, value)
    setattr(matmul, name, True)
    assert off()
"""
    )


def test_a_graph_repeats_products_with_their_workspaces():
    run(
        """
a, b = torch.randn(4, 100, device="cuda"), torch.randn(100, 3, device="cuda")
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    torch.mm(a, b)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    y = torch.mm(a, b)
for _ in range(3):
    a.copy_(torch.randn(4, 100))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(y.cpu(), a.cpu() @ b.cpu(), atol=1e-4)
""",
        SOFTCUDA_SEED=3,
    )


def test_streams_and_devices_have_their_own_calls():
    run(
        """
from concurrent.futures import ThreadPoolExecutor
def work(n):
    torch.cuda.set_device(n % 2)
    a = torch.full((8, 90), float(n), device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()) as _:
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        results = [torch.mm(a, a.mT) for _ in range(5)]
    torch.cuda.synchronize()
    return all((y == 90.0 * n * n).all().item() and y.get_device() == n % 2 for y in results)
with ThreadPoolExecutor(4) as pool:
    assert all(pool.map(work, range(8)))
""",
        SOFTCUDA_SEED=9,
        SOFTCUDA_DEVICES=2,
    )


@pytest.mark.parametrize("how", ["missing", "old"])
def test_without_it_the_kernel_multiplies(how, tmp_path):
    settings = {"SOFTCUDA_BLAS_VERSION": "110000"}
    if how == "missing":
        for name in ("libcuda.so.1", "libnvrtc.so.13"):
            (tmp_path / name).symlink_to(FOLDER / "libcuda.so.1")
        settings = {"LD_LIBRARY_PATH": str(tmp_path)}
    shown = run(
        COUNTERS
        + """
a, b = torch.randn(3, 5), torch.randn(5, 4)
assert torch.allclose((a.cuda() @ b.cuda()).cpu(), a @ b, atol=1e-5)
assert library() == 0
from rushlight.cuda._doctor import report
print([line for line in report() if "cuBLASLt" in line[1]])
""",
        **settings,
    )
    assert "(False, 'cuBLASLt, which multiplies matrices: " in shown and "rushlight[cuda13]" in shown
    assert ("not installed" if how == "missing" else "11.0, which is older than 12.0") in shown


def test_settings_are_checked_as_in_torch():
    matmul = torch.backends.cuda.matmul
    for name in ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"):
        with pytest.raises(TypeError, match=f"{name} expects a bool or a tuple/list of bools, but got <class 'int'>"):
            setattr(matmul, name, 1)
        with pytest.raises(TypeError, match="expects a bool for allow_reduced_precision, but got <class 'int'>"):
            setattr(matmul, name, (1, 2))
        with pytest.raises(RuntimeError, match="allow_splitk=False is not supported"):
            setattr(matmul, name, (True, False))
        assert getattr(matmul, name) is True
    with pytest.raises(RuntimeError, match="set_allow_tf32_cublas expects a bool, but got int"):
        matmul.allow_tf32 = 1
    with pytest.raises(RuntimeError, match="set_allow_fp16_accumulation_cublas expects a bool, but got str"):
        matmul.allow_fp16_accumulation = "x"
    with pytest.raises(RuntimeError, match="set_float32_matmul_precision expects a str, but got int"):
        torch.set_float32_matmul_precision(3)
    with pytest.warns(UserWarning, match="x is not one of 'highest', 'high', or 'medium'"):
        torch.set_float32_matmul_precision("x")
    assert torch.get_float32_matmul_precision() == "highest"
