"""Convolutions by cuDNN, on the stand-in of the card made of software, which checks every call."""

import pytest
from convolution_forms import COUNTERS, FORMS
from soft_card import FOLDER, needs_soft_card, run

import rushlight as torch

pytestmark = needs_soft_card


def test_every_form_is_that_of_the_host():
    """Results and gradients in all dtypes, for all settings, each by one call."""
    run(
        COUNTERS
        + FORMS
        + """
torch.manual_seed(0)
cudnn.allow_tf32 = False
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    for sizes, own, settings, transposed in ALL:
        same(*operands(sizes, own, transposed, settings, dtype), settings, transposed, 3)
""",
        SOFTCUDA_SEED=5,
    )


def test_gradients_of_gradients_are_those_of_the_host():
    run(
        COUNTERS
        + FORMS
        + """
torch.manual_seed(0)
for sizes, own, settings, transposed in ALL:
    same(*operands(sizes, own, transposed, settings), settings, transposed, 3 + 6, again=True)
""",
        SOFTCUDA_SEED=7,
    )


def test_channels_last_stays_so():
    """Also the weight alone, and sequences; float64 is convolved in row-major order and stored as on the host."""
    run(
        COUNTERS
        + FORMS
        + """
torch.manual_seed(0)
cudnn.allow_tf32 = False
def last(tensor):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.to(memory_format=formats[tensor.ndim])
for dtype in (torch.float32, torch.float64, torch.bfloat16):
    for sizes, own, settings, transposed in ALL:
        x, weight, *rest = operands(sizes, own, transposed, settings, dtype)
        if len(own) == 3:
            weight = last(weight.unsqueeze(2)).squeeze(2)
            same(x, weight, *rest, settings, transposed, 3)
            continue
        same(last(x), weight, *rest, settings, transposed, 3)
        same(x, last(weight), *rest, settings, transposed, 3)
        same(last(x), last(weight), *rest, settings, transposed, 3)
""",
        SOFTCUDA_SEED=3,
    )


def test_operands_with_gaps_or_at_odd_addresses_are_copied():
    run(
        COUNTERS
        + """
cudnn.allow_tf32 = False
x, weight = torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3)
images = [
    lambda x: x, lambda x: x[:, :, 1:, ::2], lambda x: x.mT, lambda x: x[:1].expand(2, 3, 9, 9),
    lambda x: x.reshape(-1)[1:217].reshape(1, 3, 8, 9),
]
weights = [lambda w: w, lambda w: w.mT, lambda w: w[:, :1].expand(4, 3, 3, 3), lambda w: w[1:, :, :2], lambda w: w.reshape(-1)[3:75].reshape(2, 3, 3, 4)]
before = library()
for image in images:
    for own in weights:
        y = F.conv2d(image(x.cuda()), own(weight.cuda()))
        assert torch.allclose(y.cpu(), F.conv2d(image(x), own(weight)), atol=1e-4)
assert library() == before + 25
""",
    )


def test_the_settings_decide():
    """TF32, determinism, measurements, and whether cuDNN is used at all."""
    run(
        COUNTERS
        + """
x = torch.full((1, 1, 4, 4), 1 + 2.0**-12, device="cuda", requires_grad=True)
weight = torch.ones(1, 1, 1, 1, device="cuda", requires_grad=True)
def convolve():
    y = F.conv2d(x, weight)
    torch.autograd.grad(y.sum(), [x, weight])
    return y[0, 0, 0, 0].item()
assert cudnn.is_available() and cudnn.version() == 90000 and cudnn.is_acceptable(x) and not cudnn.is_acceptable(x.long())
assert cudnn.allow_tf32 and convolve() == 1.0
with cudnn.flags(enabled=True, allow_tf32=False):
    assert convolve() == 1 + 2.0**-12
assert convolve() == 1.0
assert library() == 9 and loose() == 6
with cudnn.flags(enabled=True, deterministic=True):
    convolve()
assert library() == 12 and loose() == 6
torch.use_deterministic_algorithms(True)
convolve()
assert library() == 15 and loose() == 6
torch.use_deterministic_algorithms(False)
assert measurements() == 0
with cudnn.flags(enabled=True, benchmark=True):
    for _ in range(3):
        convolve()
assert measurements() == 3 and library() == 24
with cudnn.flags(enabled=False):
    assert not cudnn.is_acceptable(x) and convolve() == 1 + 2.0**-12
assert library() == 24 and cudnn.set_flags() == (True, False, 10, False, True)
"""
    )


def test_a_graph_repeats_convolutions_with_their_workspaces():
    """Algorithms are not measured while a graph is recorded."""
    run(
        COUNTERS
        + """
cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark = False, True, True
x, weight = torch.randn(2, 3, 6, 6, device="cuda"), torch.randn(4, 3, 3, 3, device="cuda", requires_grad=True)
stream = torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
with torch.cuda.stream(stream):
    torch.autograd.grad(F.conv2d(x[:1], weight).sum(), weight)
measured = measurements()
with torch.cuda.graph(graph, stream=stream):
    y = F.conv2d(x, weight)
    (grad,) = torch.autograd.grad(y.sum(), weight)
assert measurements() == measured == 2
for _ in range(3):
    x.copy_(torch.randn(2, 3, 6, 6))
    before = library()
    graph.replay()
    assert library() == before + 2
    own = weight.detach().cpu().requires_grad_()
    expected = F.conv2d(x.cpu(), own)
    assert torch.allclose(y.detach().cpu(), expected.detach(), atol=1e-4)
    assert torch.allclose(grad.cpu(), torch.autograd.grad(expected.sum(), own)[0], atol=1e-4)
""",
        SOFTCUDA_SEED=3,
    )


def test_a_first_convolution_may_be_captured():
    run(
        COUNTERS
        + """
cudnn.allow_tf32 = False
x, weight = torch.randn(2, 3, 6, 6, device="cuda"), torch.randn(4, 3, 3, 3, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = F.conv2d(x, weight)
graph.replay()
assert torch.allclose(y.cpu(), F.conv2d(x.cpu(), weight.cpu()), atol=1e-4) and library() == 1
"""
    )


def test_streams_threads_and_devices_have_their_own_calls():
    run(
        COUNTERS
        + """
from concurrent.futures import ThreadPoolExecutor
cudnn.deterministic = True
def work(n):
    torch.cuda.set_device(n % 2)
    x = torch.full((2, 3, 8, 8), float(n), device="cuda")
    weight = torch.ones(4, 3, 3, 3, device="cuda", requires_grad=True)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        results = [F.conv2d(x, weight) for _ in range(5)]
        grads = [torch.autograd.grad(y.sum(), weight)[0] for y in results]
    torch.cuda.synchronize()
    found = [bool((y == 27.0 * n).all()) and y.get_device() == n % 2 for y in results]
    return all(found) and all(bool((grad == 72.0 * n).all()) for grad in grads)
with ThreadPoolExecutor(4) as pool:
    assert all(pool.map(work, range(8)))
""",
        SOFTCUDA_SEED=9,
        SOFTCUDA_DEVICES=2,
    )


def test_without_memory_for_a_workspace_another_algorithm_runs():
    """Also for one that was measured with more memory."""
    run(
        COUNTERS
        + """
cudnn.benchmark = True
x = torch.ones(1, 1, 34, 34, device="cuda", requires_grad=True)
weight = torch.ones(2, 1, 3, 3, device="cuda")
seeds = {1: torch.ones(1, 2, 32, 32, device="cuda"), 2: torch.ones(1, 2, 16, 16, device="cuda")}
def convolve(stride):
    y = F.conv2d(x, weight, stride=stride)
    return y[0, 0, 5, 5].item(), torch.autograd.grad(y, x, seeds[stride])[0][0, 0, 5, 5].item()
assert convolve(1) == (9.0, 18.0) and (library(), loose(), measurements()) == (2, 0, 2)
torch.cuda.set_per_process_memory_fraction(4 / 1024)
blocks = []
try:
    while True:
        blocks.append(torch.empty(2048, device="cuda"))
except torch.OutOfMemoryError:
    pass
# There is room for results, and not for sums of 64 bits.
del blocks[3::8]
found = convolve(1), library(), loose(), measurements()
assert found == ((9.0, 18.0), 4, 1, 2), found
found = convolve(2), library(), loose(), measurements()
assert found == ((9.0, 2.0), 6, 2, 4), found
""",
    )


@pytest.mark.parametrize("what", ["algorithms", "calls"])
def test_what_it_refuses_is_computed_without_it(what):
    run(
        COUNTERS
        + FORMS
        + """
for sizes, own, settings, transposed in ALL:
    same(*operands(sizes, own, transposed, settings), settings, transposed, 0)
""",
        SOFTCUDA_DNN_REFUSES=what,
    )


def test_integers_and_complex_numbers_are_computed_without_it():
    run(
        COUNTERS
        + """
for dtype in (torch.int64, torch.complex64):
    x, weight = torch.ones(1, 2, 4, 4, dtype=dtype), torch.ones(3, 2, 2, 2, dtype=dtype)
    assert torch.equal(F.conv2d(x.cuda(), weight.cuda()).cpu(), F.conv2d(x, weight))
assert library() == 0
"""
    )


@pytest.mark.parametrize("how", ["missing", "old"])
def test_without_it_products_convolve(how, tmp_path):
    settings = {"SOFTCUDA_DNN_VERSION": "8907"}
    if how == "missing":
        for name in ("libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13"):
            (tmp_path / name).symlink_to(FOLDER / "libcuda.so.1")
        settings = {"LD_LIBRARY_PATH": str(tmp_path)}
    shown = run(
        COUNTERS
        + """
x, weight = torch.randn(1, 2, 4, 4), torch.randn(3, 2, 2, 2)
assert torch.allclose(F.conv2d(x.cuda(), weight.cuda()).cpu(), F.conv2d(x, weight), atol=1e-5)
assert library() == 0 and not cudnn.is_available() and cudnn.version() is None and not cudnn.is_acceptable(x.cuda())
from rushlight.cuda._doctor import report
print([line for line in report() if "cuDNN" in line[1]])
""",
        **settings,
    )
    assert (
        "(False, 'cuDNN, which computes convolutions and recurrent networks: " in shown and "rushlight[cuda13]" in shown
    )
    assert ("not installed" if how == "missing" else "8.9.7, which is older than 9.0.0") in shown


def test_settings_are_checked_as_in_torch():
    cudnn = torch.backends.cudnn
    for name in ("enabled", "benchmark", "deterministic"):
        with pytest.raises(RuntimeError, match=f"set_{name}_cudnn expects a bool, but got int"):
            setattr(cudnn, name, 1)
    with pytest.raises(RuntimeError, match="set_allow_tf32_cublas expects a bool, but got str"):
        cudnn.allow_tf32 = "x"
    with pytest.raises(RuntimeError, match="set_benchmark_limit_cudnn expects an int, but got float"):
        cudnn.benchmark_limit = 2.5
    with pytest.raises(RuntimeError, match="set_enabled_cudnn expects a bool, but got int"):
        cudnn.set_flags(1)
    assert cudnn.set_flags() == (True, False, 10, False, True)
