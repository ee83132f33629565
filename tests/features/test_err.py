"""ERR: error messages for wrong arguments, and regressions."""

import re
import sys
import threading
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))
from soft_card import needs_soft_card
from soft_card import run as run_on_card


def refused(call, error=RuntimeError):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_err_1_the_truth_of_tensors():
    """One element has a truth value; several have none."""
    assert bool(torch.tensor([2.0])) is True and bool(torch.tensor(0)) is False
    assert "more than one value is ambiguous" in refused(lambda: bool(torch.ones(2)))


@pytest.mark.parametrize(
    ("layer", "shape", "ranks"),
    [(nn.InstanceNorm1d, (3,), "2D or 3D"), (nn.InstanceNorm2d, (3, 4), "3D or 4D"), (nn.InstanceNorm3d, (3,), "4D or 5D")],
)  # fmt: skip
def test_err_2_instance_norm(layer, shape, ranks):
    """The error contains the expected number of dimensions and the given shape."""
    said = refused(lambda: layer(3)(torch.ones(shape)), ValueError)
    assert said == f"expected {ranks} input (got {len(shape)}D input)\n  Its shape is {list(shape)}."


CALLS = {
    "dimensions": (lambda: nn.BatchNorm2d(3)(torch.ones(3)), "expected 4D input (got 1D input)\n  Its shape is [3]."),
    "channels": (lambda: nn.BatchNorm2d(3)(torch.ones(1, 4, 2, 2)), "running_mean should contain 4 elements not 3"),
    "weight": (
        lambda: F.batch_norm(torch.ones(2, 3), torch.ones(3), torch.ones(3), weight=torch.ones(2)),
        "weight should contain 3 elements not 2",
    ),
    "one value": (
        lambda: nn.BatchNorm1d(3)(torch.ones(1, 3)),
        "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])",
    ),
    "input": (
        lambda: nn.Conv2d(3, 4, 3)(torch.ones(1, 2, 5, 5)),
        "weight of size [4, 3, 3, 3], expected input[1, 2, 5, 5] to have 3 channels, but got 2 channels instead",
    ),
    "input's dimensions": (
        lambda: nn.Conv2d(3, 4, 3)(torch.ones(5)),
        "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [5]",
    ),
    "kernel": (
        lambda: nn.Conv2d(3, 4, 9)(torch.ones(1, 3, 5, 5)),
        "input size per channel: (5 x 5). Kernel size: (9 x 9). Kernel size can't be greater than actual input size",
    ),
    "bias": (
        lambda: F.conv2d(torch.ones(1, 3, 5, 5), torch.ones(2, 3, 3, 3), bias=torch.ones(3)),
        "expected bias to be 1-dimensional with 2 elements, but got bias of size [3] instead",
    ),
    "stride's length": (
        lambda: F.conv2d(torch.ones(1, 3, 5, 5), torch.ones(2, 3, 3, 3), stride=(1, 2, 3)),
        "expected stride to be a single integer value or a list of 2 values to match the convolution dimensions",
    ),
    "groups": (lambda: nn.Conv2d(3, 4, 3, groups=0), "groups must be a positive integer\n  It is 0."),
    "groups of inputs": (
        lambda: nn.Conv2d(3, 4, 3, groups=2),
        "in_channels must be divisible by groups\n  3 is not divisible by 2.",
    ),
    "groups of outputs": (
        lambda: nn.Conv2d(4, 3, 3, groups=2),
        "out_channels must be divisible by groups\n  3 is not divisible by 2.",
    ),
    "padding": (lambda: nn.Conv2d(3, 4, 3, padding="sme"), "Invalid padding string 'sme', should be one of"),
    "padding mode": (lambda: nn.Conv2d(3, 4, 3, padding_mode="x"), "but got padding_mode='x'"),
}
VALUES = {"stride": "stride is [0, 0]", "padding": "padding is [-1, -1]", "dilation": "dilation is [0, 0]"}


@pytest.mark.parametrize("name", CALLS)
def test_err_3_batch_norm_and_convolution(name):
    """The error contains the name of the wrong argument, its value, and what was expected."""
    call, sentence = CALLS[name]
    assert sentence in refused(call, (RuntimeError, ValueError))


@pytest.mark.parametrize("name", VALUES)
def test_err_3_values_of_settings(name):
    """The same holds for strides and paddings that convolutions do not support."""
    value = -1 if name == "padding" else 0
    said = refused(lambda: F.conv2d(torch.ones(1, 3, 5, 5), torch.ones(2, 3, 3, 3), **{name: value}))
    assert VALUES[name] in said


def shapes(call):
    """The shapes in the lines of an error."""
    lines = refused(call, (RuntimeError, ValueError, IndexError, AssertionError)).split("\n")[1:]
    broadcasts = any(line.endswith("with shapes, aligned to the right:") for line in lines)
    # The names of operands may follow.
    lines = [line[: line.index(")") + 1] for line in lines if line.startswith("    (")]
    found = [line.strip() for line in lines]
    assert not broadcasts or len({len(line) for line in lines}) <= 1, "aligned to the right"
    return ["".join(shape.split()) for shape in found]


def ones(*sizes):
    return [torch.ones(size) for size in sizes]


MISFITS = {
    "add": (torch.add, (2, 3), (4,)),
    "where": (lambda a, b: torch.where(a > 0, b, 1), (2, 3), (4,)),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.5), (2,), (3,)),
    "cat": (lambda a, b: torch.cat([a, b]), (2, 3), (3, 2)),
    "mm": (torch.mm, (3, 5), (4, 6)),
    "mv": (torch.mv, (2, 3), (2,)),
    "bmm": (torch.bmm, (2, 3, 4), (3, 4, 5)),
    "dot": (torch.dot, (2,), (3,)),
    "conv2d": (F.conv2d, (1, 2, 5, 5), (4, 3, 3, 3)),
    "copy": (torch.Tensor.copy_, (3,), (2,)),
    "mse_loss": (F.mse_loss, (2,), (3,)),
    "cross_entropy": (lambda a, b: F.cross_entropy(a, b.long()), (2, 3), (3,)),
    "stack": (lambda a, b: torch.stack([a, b]), (2,), (3,)),
    "gather": (lambda a, b: a.gather(1, b.long()), (2, 3), (3, 3)),
    "index_add": (lambda a, b: a.index_add_(0, torch.tensor([0]), b), (2, 3), (1, 4)),
    "einsum": (lambda a, b: torch.einsum("ij,jk", a, b), (2, 3), (4, 5)),
    "cross": (lambda a, b: torch.linalg.cross(a, b), (3,), (4,)),
    "solve": (torch.linalg.solve, (3, 3), (4,)),
    "batch_norm": (lambda a, b: F.batch_norm(a, b, b), (2, 3), (2,)),
    "lstm": (lambda a, b: nn.LSTM(4, 3)(a), (2, 5, 7), (12, 4)),
    "gru": (lambda a, b: nn.GRU(3, 4)(torch.ones(2, 5, 3), a), (1, 2, 4), (1, 5, 4)),
    "attention": (lambda a, b: nn.MultiheadAttention(5, 1)(a, b, b), (2, 3, 4), (6, 3, 4)),
    "attention mask": (
        lambda a, b: nn.MultiheadAttention(4, 1)(*[torch.ones(2, 2, 4)] * 3, attn_mask=a),
        (3, 3),
        (2, 2),
    ),
    "transformer": (nn.Transformer(4, 2, 1, 1, 8), (2, 3, 4), (2, 5, 4)),
    "TensorDataset": (torch.utils.data.TensorDataset, (3, 2), (4,)),
    "vmap": (torch.func.vmap(torch.add), (3, 2), (4, 2)),
    "log_prob": (lambda a, b: torch.distributions.Normal(b, 1.0).log_prob(a), (3,), (2,)),
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(
    ("function", "first", "second"),
    [pytest.param(*case, id=name) for name, case in MISFITS.items()],
)
def test_err_4_shapes_below_each_other(function, first, second):
    """An error about shapes shows those of all operands, aligned to the right if they broadcast."""
    shown = shapes(lambda: function(*ones(first, second)))
    assert shown[:2] == [str(shape).replace(" ", "").replace(",)", ")") for shape in (first, second)]


@needs_soft_card
def test_err_5_gpus_in_a_forked_child():
    """torch's sentence, and what to do instead."""
    program = """
import os
torch.cuda.init()
if os.fork() == 0:
    try:
        torch.zeros(1).cuda()
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""
    sentence = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
    assert run_on_card(program).startswith(sentence)


@needs_soft_card
def test_err_6_an_old_cudnn():
    """It is not used, and `python -m rushlight doctor` tells so."""
    program = """
from rushlight.cuda._doctor import report
assert torch.backends.cudnn.is_available() is False
print(torch.nn.functional.conv1d(torch.ones(1, 1, 3).cuda(), torch.ones(1, 1, 2).cuda()).tolist())
print(*(sentence for found, sentence, _ in report() if "cuDNN" in sentence and not found))
"""
    shown = run_on_card(program, SOFTCUDA_DNN_VERSION=8907)
    assert (
        shown
        == "[[[2.0, 2.0]]]\ncuDNN, which computes convolutions and recurrent networks: 8.9.7, which is older than 9.0.0\n"
    )


def test_err_7_data():
    """`x.data` shares the memory without history. Changes through it do not change the version."""
    x = torch.ones(2, requires_grad=True)
    data = x.data
    data[0] = 5
    assert not data.requires_grad and x.tolist() == [5, 1] and x._version == 0


def test_err_8_division_in_place():
    """`x /= 2` halves floats. For integers it is an error, because they cannot store the quotient."""
    x = torch.tensor([7.0])
    x /= 2
    assert x.tolist() == [3.5]
    n = torch.tensor([7])
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        n /= 2
    assert n.tolist() == [7]


def test_err_9_one_pool(fresh):
    """Loops, products, convolutions, sorting and factorisations share the configured threads. No other pool is started."""
    started = fresh("""
import os
import rushlight as torch
torch.set_num_threads(3)
x = torch.rand(400, 400)
for work in (
    lambda: torch.rand(1_000_000).exp().sum(),
    lambda: x @ x,
    lambda: torch.nn.functional.conv2d(torch.rand(8, 16, 32, 32), torch.rand(16, 16, 3, 3)),
    lambda: torch.rand(1_000_000).sort(),
    lambda: torch.linalg.svd(x),
    lambda: torch.fft.fft(torch.rand(512, 512)),
):
    work()
libraries = [line for line in open("/proc/self/maps") if "libgomp" in line or "libiomp" in line or "libmkl" in line]
print(len(os.listdir("/proc/self/task")) - 1, len(libraries))
""")
    assert started == "2 0"


def test_err_12_negative_padding():
    """A negative padding crops, and cropped elements get no gradient."""
    x = torch.arange(16.0).reshape(1, 1, 4, 4).requires_grad_()
    cut = F.pad(x, (-1, -1, -1, 0))
    assert cut[0, 0].tolist() == [[5, 6], [9, 10], [13, 14]]
    cut.sum().backward()
    assert x.grad[0, 0].tolist() == [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0]]


def test_err_13_factorisations():
    """Inverses and QR are correct for both memory orders and for batches. See also LIN-3 and LIN-5."""
    torch.manual_seed(0)
    a = torch.randn(2, 3, 3, dtype=torch.float64)
    for matrix in (a, a.mT, a[::-1]):
        q, r = torch.linalg.qr(matrix)
        assert torch.allclose(q @ r, matrix)
        assert torch.allclose(torch.inverse(matrix) @ matrix, torch.eye(3, dtype=torch.float64).expand(2, 3, 3))


def test_err_14_exceptions_keep_their_context(capfd):
    """A panic in the engine becomes an exception at the user's line, with the id of a backtrace on standard error. The process
    and its threads continue."""
    capfd.readouterr()
    for panic in (torch._C._panic, torch._C._panic_in_kernel):
        with pytest.raises(RuntimeError, match="asked for") as caught:
            panic()
        (marked,) = re.findall(r"backtrace id \d+-\d+", str(caught.value))
        assert f"rushlight: internal error, {marked}: panicked at rust/" in capfd.readouterr().err
        assert caught.traceback[-1].path.samefile(__file__)
        with pytest.raises(KeyError) as chained:
            try:
                panic()
            except Exception:
                raise KeyError from None
        assert isinstance(chained.value.__context__, RuntimeError)
    sums = []
    thread = threading.Thread(target=lambda: sums.append((torch.ones(200_000) + 1).sum().item()))
    thread.start()
    thread.join()
    assert sums == [400_000]
