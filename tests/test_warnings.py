"""Warnings name the line of the user's program, and no line of this package."""

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
    "a scaler without a card": lambda: torch.cuda.amp.GradScaler(),
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
