"""Tests programs on a device: their numbers are the host's, errors leave the device usable, random numbers are torch's.

It needs a GPU, or the card made of software: `make test-cuda`.
"""

import pytest
from card import needs_device

import rushlight as torch
from rushlight import nn

pytestmark = [
    needs_device,
    pytest.mark.usefixtures("full_precision"),
]


def close(got, wanted, rtol=1e-4, atol=1e-5):
    got = got.detach().cpu()
    assert got.dtype == wanted.dtype and torch.allclose(got, wanted.detach(), rtol=rtol, atol=atol), (got, wanted)


def gradients(module, x, loss):
    """The result, and the gradients of the input and of all parameters."""
    x = x.detach().requires_grad_()
    result = module(x)
    result = result[0] if isinstance(result, tuple) else result
    loss(result).backward()
    return [result, x.grad, *(param.grad for param in module.parameters())]


MODULES = {
    "Conv1d": (lambda: nn.Conv1d(3, 4, 3, stride=2, padding=1), (2, 3, 9)),
    "Conv2d": (lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2), (2, 4, 7, 6)),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 3)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1), (2, 4, 3, 3)),
    "LayerNorm": (lambda: nn.LayerNorm((3, 4)), (2, 3, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (3, 4, 5)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), (4, 3, 2, 2)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), (1, 2, 4, 4)),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, padding=1), (1, 2, 5, 5)),
    "LSTM": (lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True), (5, 2, 3)),
    "GRU": (lambda: nn.GRU(3, 4), (5, 2, 3)),
    "RNN": (lambda: nn.RNN(3, 4), (5, 2, 3)),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), (3, 2, 8)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_the_hosts_results_and_gradients(name):
    make, shape = MODULES[name]
    torch.manual_seed(0)
    module, x = make(), torch.randn(shape)
    weights = None

    def loss(result):
        nonlocal weights
        weights = torch.randn(result.shape) if weights is None else weights
        return (result * weights.to(result.device)).sum()

    wanted = gradients(module, x, loss)
    module.zero_grad()
    got = gradients(module.to("cuda"), x.to("cuda"), loss)
    for one, other in zip(got, wanted, strict=True):
        close(one, other)


def test_a_network_trains_as_on_the_host():
    def train(device):
        torch.manual_seed(0)
        images, labels = torch.randn(8, 1, 8, 8), torch.randint(4, (8,))
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64, 4),
        )
        model, images, labels = model.to(device), images.to(device), labels.to(device)
        optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    got, wanted = train("cuda"), train("cpu")
    assert got == pytest.approx(wanted, rel=1e-3) and got[-1] < got[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x[i],
        lambda x, i: torch.index_select(x, 0, i),
        lambda x, i: torch.gather(x, 0, i[:, None]),
        lambda x, i: torch.take(x, i),
        lambda x, i: nn.functional.embedding(i, x),
        lambda x, i: x.index_put((i,), x[:1]),
        lambda x, i: x.scatter_add(0, i[:, None], torch.ones_like(i, dtype=x.dtype)[:, None]),
        lambda x, i: x.index_add(0, i, torch.ones(len(i), 3, device=x.device)),
        lambda x, i: x.index_fill(0, i, 1.0),
        lambda x, i: nn.functional.nll_loss(x[[0] * len(i)], i),
    ],
)
def test_an_index_out_of_range_is_an_error_after_which_the_device_works(call):
    x, bad = torch.ones(4, 3), torch.tensor([1, 99, 2])
    with pytest.raises((IndexError, RuntimeError)) as wanted:
        call(x, bad)
    on_card, index = x.to("cuda"), bad.to("cuda")
    for _ in range(3):
        with pytest.raises(wanted.type) as found:
            call(on_card, index)
        assert str(found.value) == str(wanted.value)
    close(on_card[torch.tensor([1, 2], device="cuda")] + 1, torch.full((2, 3), 2.0))


def test_sums_at_equal_indices_are_taken_in_the_order_of_the_indices():
    torch.manual_seed(0)
    index, values = torch.randint(5, (300,)), torch.randn(300)
    wanted = torch.zeros(5).scatter_add(0, index, values)
    got = [torch.zeros(5, device="cuda").scatter_add(0, index.to("cuda"), values.to("cuda")).cpu() for _ in range(2)]
    assert torch.equal(got[0], wanted) and torch.equal(got[1], wanted)


def test_long_lines_are_sorted_and_summed():
    torch.manual_seed(0)
    x = torch.randn(3, 1000)
    there = x.to("cuda")
    for got, wanted in zip(there.sort(dim=1, descending=True), x.sort(dim=1, descending=True), strict=True):
        assert torch.equal(got.cpu(), wanted)
    for got, wanted in zip(there.topk(7), x.topk(7), strict=True):
        assert torch.equal(got.cpu(), wanted)
    for got, wanted in zip(there.cummax(1), x.cummax(1), strict=True):
        assert torch.equal(got.cpu(), wanted)
    close(there.cumsum(1), x.cumsum(1))
    close(there.logcumsumexp(1), x.logcumsumexp(1))
    assert torch.equal(there.argmin(1).cpu(), x.argmin(1))


def test_random_numbers_are_those_of_torch():
    # Of torch on a GPU, after `manual_seed(0)`.
    torch.manual_seed(0)
    close(torch.rand(3, device="cuda"), torch.tensor([0.3990, 0.5167, 0.0249]), atol=5e-5)
    torch.manual_seed(0)
    close(torch.randn(3, device="cuda"), torch.tensor([-0.9247, -0.4253, -2.6438]), atol=5e-5)


def test_random_numbers_continue_and_are_repeated_by_the_seed():
    def draw():
        torch.manual_seed(3)
        x = torch.empty(1000, device="cuda")
        each = [
            torch.rand(5, 7, device="cuda"),
            torch.randn(1000, device="cuda", dtype=torch.float64),
            torch.randint(-5, 9, (1000,), device="cuda"),
            torch.randint(2**40, (1000,), device="cuda"),
            x.exponential_(2.0).clone(),
            x.bernoulli_(0.25).clone(),
            torch.bernoulli(torch.full((1000,), 0.25, device="cuda")),
            x.geometric_(0.5).clone(),
            nn.functional.dropout(torch.ones(1000, device="cuda"), 0.25),
            torch.rand(5, 7, device="cuda"),
        ]
        return [one.cpu() for one in each]

    first, again = draw(), draw()
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[-1])
    uniform, normal, small, large, exponential, bernoulli, chances, geometric, kept, _ = first
    assert 0 <= uniform.min() and uniform.max() < 1
    assert abs(normal.mean()) < 0.1 and abs(normal.std() - 1) < 0.1
    assert small.min() == -5 and small.max() == 8 and large.max() > 2**39
    assert abs(exponential.mean() - 0.5) < 0.1 and abs(geometric.mean() - 2) < 0.3
    assert abs(bernoulli.mean() - 0.25) < 0.06 and abs(chances.mean() - 0.25) < 0.06
    assert abs((kept == 0).float().mean() - 0.25) < 0.06
    close(kept[kept != 0], torch.full((int((kept != 0).sum()),), 4 / 3))


def test_linear_algebra_and_transforms():
    torch.manual_seed(0)
    a, b = torch.randn(4, 4), torch.randn(4, 2)
    close(torch.linalg.solve(a.to("cuda"), b.to("cuda")), torch.linalg.solve(a, b))
    assert torch.fft.rfft(a.to("cuda")).device.type == "cuda"
    close(torch.fft.rfft(a.to("cuda")), torch.fft.rfft(a))
