"""Warnings have the line of the user's program, not a line of this package."""

import subprocess
import sys
import threading
import warnings

import pytest

import rushlight as torch
from rushlight import nn, optim
from rushlight.nn import functional as F
from rushlight.optim import lr_scheduler
from rushlight.utils import data


def scheduled():
    return lr_scheduler.StepLR(optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0), 1)


def full_hook():
    linear = nn.Linear(3, 2)
    linear.register_full_backward_hook(lambda *args: None)
    linear(torch.ones(2, 3)).sum().backward()


def linear_in_one():
    x = torch.ones(1, requires_grad=True)
    return x.sum(), x


CASES = {
    "a hook of backward": full_hook,
    "an old argument of a loss": lambda: nn.MSELoss(size_average=True),
    "of a loss with weights": lambda: nn.CrossEntropyLoss(reduce=True),
    "of a function": lambda: F.mse_loss(torch.ones(1), torch.ones(1), size_average=True),
    "a module around a function": lambda: nn.Dropout2d()(torch.ones(2, 3)),
    "softmax without a dimension": lambda: nn.Softmax()(torch.ones(2, 3)),
    "an old name": lambda: nn.init.xavier_normal(torch.ones(2, 2)),
    "a module of nothing": lambda: nn.Linear(0, 2),
    "a cell without a second layer": lambda: nn.LSTM(3, 3, dropout=0.5),
    "masks of two types": lambda: nn.MultiheadAttention(4, 1)(
        *[torch.ones(2, 1, 4)] * 3, key_padding_mask=torch.zeros(1, 2), attn_mask=torch.zeros(2, 2).bool()
    ),
    "a schedule before its optimizer": lambda: scheduled().step(),
    "a schedule in a schedule": lambda: lr_scheduler.SequentialLR(
        optimizer := optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0),
        [lr_scheduler.StepLR(optimizer, 1), lr_scheduler.StepLR(optimizer, 1)],
        [2],
    ).step(),
    "a parameter twice": lambda: optim.SGD([torch.zeros(1, requires_grad=True)] * 2, lr=1.0),
    "mixed precision by its old name": lambda: torch.cpu.amp.autocast(),
    "a scaler without a GPU": lambda: torch.cuda.amp.GradScaler(),
    "pinned memory": lambda: list(data.DataLoader(range(3), pin_memory=True)),
    "a view of storages": lambda: torch.ones(2).storage(),
    "gradients of inputs and more": lambda: torch.autograd.grad(*linear_in_one(), only_inputs=False),
    "segments in an unsaid way": lambda: torch.utils.checkpoint.checkpoint_sequential(
        [torch.relu], 1, torch.ones(1, requires_grad=True)
    ),
    "closeness by its old name": lambda: torch.testing.assert_allclose(torch.ones(1), [1]),
    "a default type": lambda: torch.set_default_tensor_type(torch.FloatTensor),
    "channels without a batch": lambda: nn.Dropout2d()(torch.ones(2, 3, 4)),
    "a module without its state": lambda: nn.utils.stateless.functional_call(nn.Identity(), {}, torch.ones(1)),
    "a graph of a graph": lambda: torch.ones(1, requires_grad=True).sum().backward(create_graph=True),
}


@pytest.fixture
def each_time():
    """Makes warnings that are normally given once per process appear each time."""
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.mark.usefixtures("each_time")
@pytest.mark.parametrize("name", CASES)
def test_the_line_is_the_users(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CASES[name]()
    assert caught and {warning.filename for warning in caught} == {__file__}


def test_a_warning_is_told_once_for_each_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            nn.MSELoss(size_average=True)
        nn.MSELoss(size_average=True)
    assert len(caught) == 2 and caught[0].lineno < caught[1].lineno


def test_a_thread_of_the_package_alone():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thread = threading.Thread(target=nn.init.eye, args=(torch.zeros(2, 2),))
        thread.start()
        thread.join()
    assert [warning.category for warning in caught] == [FutureWarning]


def test_a_warning_can_be_an_error():
    program = "import rushlight as torch\ntorch.nn.Softmax()(torch.ones(2, 2))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and "UserWarning: Implicit dimension choice for softmax" in done.stderr


@pytest.mark.parametrize("call", ["x.to(torch.float32)", "x.int()", "torch.zeros(1).copy_(x)"])
def test_dropped_imaginary_parts_are_told_of_once(call):
    program = f"import rushlight as torch; x = torch.tensor([1j]); x.to(torch.bool); {call}; {call}"
    done = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True)
    assert done.stderr.count("Casting complex values to real discards the imaginary part") == 1


#: Warnings that are given once per process: a call, and the beginning of the message.
ONCE = {
    "torch.chain_matmul(torch.ones(2, 2), torch.ones(2, 2))": "torch.chain_matmul is deprecated",
    "torch.ones(2, 2, 2).T": "The use of `x.T` on tensors of dimension other than 2",
    "torch.ones(()).T": "Tensor.T is deprecated on 0-D tensors. This function is the identity",
    "torch.ones(()).mT": "Tensor.mT is deprecated on 0-D tensors. This function is the identity",
    "torch.ones(()).H": "Tensor.H is deprecated on 0-D tensors. Consider using x.conj().",
    "torch.ones(()).mH": "Tensor.mH is deprecated on 0-D tensors. Consider using x.conj().",
    "torch.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 2), padding='same')": "Using padding='same' with even kernel",
    "torch.where(torch.ones(2, dtype=torch.uint8), 1, 2)": "where received a uint8 condition tensor.",
    "torch.searchsorted(torch.ones(4), torch.ones(4)[::2])": "torch.searchsorted(): input value tensor is non-cont",
    "torch.searchsorted(torch.ones(4)[::2], 1)": "torch.searchsorted(): boundary tensor is non-contiguous",
    "torch.searchsorted(torch.ones(2), 1, sorter=torch.zeros(4).long()[::2])": "torch.searchsorted(): sorter tensor is",
    "torch.lu(torch.eye(2))": "torch.lu is deprecated in favor of torch.linalg.lu_factor",
    "torch.qr(torch.eye(2))": "torch.qr is deprecated in favor of torch.linalg.qr",
    "torch.cholesky(torch.eye(2))": "torch.cholesky is deprecated in favor of torch.linalg.cholesky",
    "torch.triangular_solve(torch.ones(2, 1), torch.eye(2))": "torch.triangular_solve is deprecated in favor of",
    "torch.lu_solve(torch.ones(2, 1), torch.eye(2), torch.tensor([1, 2]).int())": "torch.lu_solve is deprecated in",
    "torch.stft(torch.ones(8), 4, return_complex=True)": "A window was not provided. A rectangular window will be applied,",
    "torch.stft(torch.ones(8), 4, None, None, torch.ones(4), return_complex=False)": "stft with return_complex=False",
    "torch.istft(torch.ones(3, 3).cfloat(), 4)": "A window was not provided. A rectangular window will be applied.Please",
    "torch.ones(2).index_reduce(0, torch.tensor([0]), torch.ones(1), 'prod')": "index_reduce() is in beta",
    "torch.ones(2).cfloat().softmax(0, dtype=torch.float32)": "Casting complex values to real discards the imaginary",
    "torch.cross(torch.ones(3), torch.ones(3))": "Using torch.cross without specifying the dim arg is deprecated.",
    "torch.meshgrid(torch.ones(3))": "torch.meshgrid: in an upcoming release, it will be required",
    "torch.ones(2).scatter(0, torch.tensor([0]), torch.ones(1), reduce='add')": "The reduce argument of torch.scatter",
    "float(torch.ones(1, requires_grad=True))": "Converting a tensor with requires_grad=True to a scalar",
    "torch.ones(1).storage()": "TypedStorage is deprecated.",
    "torch.set_default_tensor_type(torch.FloatTensor)": "torch.set_default_tensor_type() is deprecated",
}


@pytest.mark.usefixtures("each_time")
@pytest.mark.parametrize("call", ONCE)
def test_what_is_told_once_can_be_told_each_time(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            eval(call)
    sentence = ONCE[call]
    assert [str(warning.message).startswith(sentence) for warning in caught] == [True, True]
    assert {(warning.category, warning.filename) for warning in caught} == {(UserWarning, "<string>")}


def test_what_is_told_once():
    """In a separate process, because the calls may already have been made in this one."""
    calls = "\n".join(call for call in ONCE for _ in range(2))
    program = f"import rushlight as torch\n{calls}\nassert not torch.is_warn_always_enabled()"
    done = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {sentence: done.stderr.count(f"Warning: {sentence}") for sentence in ONCE.values()} == dict.fromkeys(
        ONCE.values(), 1
    )


@pytest.mark.parametrize("shape", [(2,), (2, 2, 2)])
@pytest.mark.usefixtures("each_time")
def test_reversed_dimensions_of_what_is_no_matrix_are_told(shape):
    with pytest.warns(UserWarning, match=r"^The use of `x.T` on tensors of dimension other than 2"):
        torch.ones(shape).T


@pytest.mark.parametrize(
    "call",
    [
        "torch.ones(2, 2).T",
        "torch.stft(torch.ones(8), 4, window=torch.ones(4), return_complex=True)",
        "torch.linalg.qr(torch.eye(2))",
        "torch.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 3), padding='same')",
        "torch.searchsorted(torch.ones(4), torch.ones(4))",
        "torch.zeros(3, out=torch.ones(2))",
        "torch.linspace(0, 1, 3, out=torch.ones(2))",
        "torch.randn(3, out=torch.ones(2))",
        "torch.multinomial(torch.ones(3), 2, out=torch.ones(1).long())",
        "torch.nn.functional.logsigmoid(torch.ones(3), out=torch.ones(2))",
    ],
)
@pytest.mark.usefixtures("each_time")
def test_what_is_not_told(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eval(call)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            "torch.arange(3, out=torch.ones(2))",
            "The number of elements in the out tensor of shape [2] is 2 which does not",
        ),
        ("torch.fft.fftfreq(3, out=torch.ones(2))", "The number of elements in the out tensor of shape [2] is 2"),
        ("torch.add(torch.ones(3), 1, out=torch.ones(2))", "An output with one or more elements was resized since it"),
        (
            "F.l1_loss(torch.ones(1), torch.ones(1), reduction='elementwise_mean')",
            "reduction='elementwise_mean' is depr",
        ),
        (
            "nn.NLLLoss(reduction='elementwise_mean')(torch.ones(1, 2), torch.zeros(1).long())",
            "reduction='elementwise_",
        ),
        ("torch.ones(1).new_tensor(torch.ones(1))", "To copy construct from a tensor"),
        ("torch.ones(2)[torch.ones(2, dtype=torch.uint8)]", "indexing with dtype torch.uint8 is now deprecated"),
    ],
)
def test_what_is_told_each_time(call, sentence):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            eval(call)
    assert [str(warning.message)[: len(sentence)] for warning in caught] == [sentence, sentence]


def test_a_range_counts_its_elements():
    out = torch.ones(2)
    with pytest.warns(UserWarning, match=r"will be resized to a tensor of shape \(3,\)\.$"):
        torch.arange(3, out=out)
    assert out.tolist() == [0, 1, 2]
    with pytest.warns(UserWarning, match=r"rather than tensor\.new_tensor\(sourceTensor\)\.$"):
        out.new_tensor(out)


@pytest.mark.parametrize("wrong", [1, None, "yes"])
def test_always_is_a_bool(wrong):
    with pytest.raises(RuntimeError, match=f"setWarnOnlyOnce expects a bool, but got {type(wrong).__name__}"):
        torch.set_warn_always(wrong)
