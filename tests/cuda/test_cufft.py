"""Transforms by cuFFT, on the stand-in of the card made of software, which checks every call."""

from soft_card import FOLDER, needs_soft_card, run

pytestmark = needs_soft_card

#: `library()` counts the transforms of the stand-in for cuFFT. `same()` compares the results of the card and of the host.
HELPERS = """
import ctypes
card = ctypes.CDLL("libcuda.so.1")
card.softcuda_transforms.restype = ctypes.c_uint64
def library():
    torch.cuda.synchronize()
    return card.softcuda_transforms()
TOLERANCE = {torch.float32: 1e-4, torch.complex64: 1e-4}
def same(function, x, view=lambda x: x, calls=1):
    host = function(view(x))
    before = library()
    result = function(view(x.cuda()))
    assert result.dtype == host.dtype and result.stride() == host.stride(), (result.stride(), host.stride())
    far = (result.cpu() - host).abs().max().item() if host.numel() else 0.0
    assert far <= TOLERANCE.get(host.dtype, 1e-10) * (1 + host.abs().max().item() if host.numel() else 1), (x.shape, x.dtype, far)
    assert calls is None or library() == before + calls, (x.shape, x.dtype, library() - before)
cache = torch.backends.cuda.cufft_plan_cache
torch.manual_seed(0)
"""


def test_every_transform_is_that_of_the_host():
    """One to five dimensions of all sizes, with all normalisations, from memory that lies in all kinds of ways."""
    run(
        HELPERS
        + """
fft = torch.fft
VIEWS = [
    ((2, 6, 5), lambda x: x),
    ((5, 2, 6), lambda x: x.permute(1, 2, 0)),
    ((2, 6, 10), lambda x: x[..., ::2]),
    ((2, 6, 8), lambda x: x[..., 1:-2]),
    ((2, 9, 5), lambda x: x[:, 1:7]),
    ((1, 6, 5), lambda x: x.expand(2, 6, 5)),
    ((2, 1, 5), lambda x: x.expand(2, 6, 5)),
]
for real, complex_ in ((torch.float32, torch.complex64), (torch.float64, torch.complex128)):
    for sizes, view in VIEWS:
        for dim in (0, 1, 2):
            same(lambda x: fft.fft(x, dim=dim), torch.randn(sizes, dtype=complex_), view)
            same(lambda x: fft.ifft(x, dim=dim, norm="ortho"), torch.randn(sizes, dtype=complex_), view)
            same(lambda x: fft.rfft(x, dim=dim, norm="forward"), torch.randn(sizes, dtype=real), view)
            same(lambda x: fft.irfft(x, dim=dim), torch.randn(sizes, dtype=complex_), view)
            same(lambda x: fft.hfft(x, n=7, dim=dim), torch.randn(sizes, dtype=complex_), view)
        for dim in ((0, 1), (1, 2), (2, 0), (0, 1, 2)):
            same(lambda x: fft.fftn(x, dim=dim), torch.randn(sizes, dtype=complex_), view)
            same(lambda x: fft.fftn(x, dim=dim), torch.randn(sizes, dtype=real), view)
            same(lambda x: fft.ifftn(x, dim=dim), torch.randn(sizes, dtype=complex_), view)
            same(lambda x: fft.rfftn(x, dim=dim), torch.randn(sizes, dtype=real), view)
            same(lambda x: fft.irfftn(x, dim=dim), torch.randn(sizes, dtype=complex_), view)
    for sizes in ((1,), (1, 1), (4,), (3, 1, 4), (1, 4, 1), (2, 1, 1)):
        same(fft.rfftn, torch.randn(sizes, dtype=real))
        same(fft.fftn, torch.randn(sizes, dtype=complex_), calls=int(max(sizes) > 1))
        same(lambda x: fft.irfftn(x, s=sizes), torch.randn(sizes, dtype=complex_))
    x = torch.randn(2, 3, 4, 5, 2, dtype=complex_)
    for function in (fft.fftn, fft.ifftn, fft.irfftn):
        same(lambda y: function(y, dim=(0, 2, 3, 4)), x, calls=4)
        same(lambda y: function(y, dim=(1, 2, 3, 4)), x, calls=3)
        same(function, x, calls=2)
    same(fft.rfftn, x.real.contiguous(), calls=2)
    same(lambda x: fft.fft(x, dim=0), torch.randn(3, 0, dtype=complex_), calls=0)
    same(lambda x: fft.irfft(x, n=1), torch.randn(3, 1, dtype=complex_))
same(fft.fft, torch.arange(6), calls=1)
same(fft.rfft, torch.randn(7)[1:], lambda x: x)
same(lambda x: fft.rfft(x[1:]), torch.randn(7))
same(lambda x: fft.fft(x.conj()), torch.randn(6, dtype=torch.complex64))
window = torch.hann_window(8)
same(lambda x: torch.stft(x, 8, window=window.to(x.device), return_complex=True), torch.randn(2, 40))
same(lambda x: torch.istft(torch.stft(x, 8, window=window.to(x.device), return_complex=True), 8, window=window.to(x.device)),
     torch.randn(2, 40), calls=2)
""",
        SOFTCUDA_SEED=5,
    )


def test_gradients_are_transforms_too():
    run(
        HELPERS
        + """
for function, dtype in ((torch.fft.fft, torch.complex128), (torch.fft.rfft2, torch.float64), (torch.fft.irfft, torch.complex128)):
    x = torch.randn(3, 4, dtype=dtype, device="cuda", requires_grad=True)
    before = library()
    assert torch.autograd.gradcheck(function, (x,))
    assert library() > before
"""
    )


def test_plans_are_kept_up_to_a_number():
    run(
        HELPERS
        + """
assert (cache.size, cache.max_size) == (0, 4096)
x = torch.randn(4, 6, device="cuda")
def transform(n):
    return torch.fft.rfft(x[:, :n])
transform(6), transform(6)
assert cache.size == 1 and cache[0].size == 1
transform(5)
assert cache.size == 2
torch.fft.rfft(x, dim=0)
assert cache.size == 3
cache.max_size = 2
assert (cache.size, cache.max_size) == (2, 2)
transform(4)
assert cache["cuda"].size == 2
cache.clear()
assert cache.size == 0
cache[0].max_size = 0
assert torch.allclose(transform(6).cpu(), torch.fft.rfft(x.cpu()), atol=1e-5) and cache.size == 0
for wrong, told in (
    (lambda: setattr(cache, "size", 3), ".size is a read-only property"),
    (lambda: setattr(cache, "max_size", -1), "cuFFT plan cache size must be non-negative, but got -1"),
    (lambda: cache[1], "cufft_plan_cache: expected 0 <= device index < 1, but got device with index 1"),
):
    try:
        wrong()
    except RuntimeError as error:
        assert told in str(error), error
    else:
        raise AssertionError(told)
"""
    )


def test_a_graph_repeats_transforms_whose_plans_were_removed():
    run(
        HELPERS
        + """
x = torch.randn(3, 10, device="cuda")
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    torch.fft.irfft(torch.fft.rfft(x))
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    y = torch.fft.rfft(x)
    z = torch.fft.irfft(y)
cache.clear()
for _ in range(3):
    x.copy_(torch.randn(3, 10))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(y.cpu(), torch.fft.rfft(x.cpu()), atol=1e-4)
    assert torch.allclose(z.cpu(), x.cpu(), atol=1e-4)
""",
        SOFTCUDA_SEED=3,
    )


def test_threads_streams_and_devices_share_plans():
    run(
        HELPERS
        + """
from concurrent.futures import ThreadPoolExecutor
def work(n):
    torch.cuda.set_device(n % 2)
    a = torch.full((8, 9), float(n), device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        results = [torch.fft.fft(a) for _ in range(5)]
    torch.cuda.synchronize()
    return all((y[:, 0] == 9.0 * n).all().item() and y.get_device() == n % 2 for y in results)
with ThreadPoolExecutor(4) as pool:
    assert all(pool.map(work, range(8)))
assert cache[0].size == cache[1].size == 1
""",
        SOFTCUDA_SEED=9,
        SOFTCUDA_DEVICES=2,
    )


def test_without_it_the_host_transforms(tmp_path):
    for name in ("libcuda.so.1", "libnvrtc.so.13"):
        (tmp_path / name).symlink_to(FOLDER / "libcuda.so.1")
    shown = run(
        HELPERS
        + """
same(torch.fft.rfft2, torch.randn(3, 5), calls=0)
same(torch.fft.irfft, torch.randn(3, 5, dtype=torch.complex64), calls=0)
same(torch.fft.fft, torch.randn(3, 5), calls=0)
assert cache.size == 0
from rushlight.cuda._doctor import report
print([line for line in report() if "cuFFT" in line[1]])
""",
        LD_LIBRARY_PATH=tmp_path,
    )
    assert "(False, 'cuFFT, which computes transforms: not installed'" in shown and "rushlight[cuda13]" in shown
