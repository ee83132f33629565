"""Counts of operations: torch's numbers by module and operation, its table, and the modules that run."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula
from rushlight.utils.module_tracker import ModuleTracker


def counts(function, **options):
    with FlopCounterMode(display=False, **options) as counter:
        function()
    found = counter.get_flop_counts()
    assert counter.get_total_flops() == sum(found["Global"].values())
    return {module: {name.removeprefix("aten."): count for name, count in of.items()} for module, of in found.items()}


def test_modules_forward_and_backward():
    """torch's numbers."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10))
    convolution = {"convolution": 55296, "convolution_backward": 55296}
    linear = {"addmm": 20480, "mm": 40960}
    expected = {"Global": convolution | linear, "Sequential": convolution | linear}
    expected |= {"Sequential.0": convolution, "Sequential.3": linear}
    assert counts(lambda: model(torch.randn(2, 3, 8, 8)).sum().backward()) == expected


def test_an_encoder():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.enc = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)

        def forward(self, x):
            return self.enc(self.a(x))

    found = counts(lambda: Model()(torch.randn(2, 3, 4)).sum().backward())
    assert found["Global"] == {"addmm": 1152, "mm": 3840, "bmm": 864} and found["Model.a"] == {"addmm": 192, "mm": 192}
    assert found["Model.enc.self_attn"] == {"mm": 2112, "bmm": 864, "addmm": 192}
    assert found["Model.enc.linear1"] == {"addmm": 384, "mm": 768}


def conv(*sizes, **options):
    x, weight = (torch.randn(size, requires_grad=True) for size in sizes)
    F.conv2d(x, weight, **options).sum().backward()


def conv_transpose(*sizes, **options):
    x, weight = (torch.randn(size, requires_grad=True) for size in sizes)
    F.conv_transpose2d(x, weight, **options).sum().backward()


R = torch.randn


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda: R(3, 4) @ R(4, 5), {"mm": 120}),
        (lambda: (R(3, 4, requires_grad=True) @ R(4, 5, requires_grad=True)).sum().backward(), {"mm": 360}),
        (lambda: torch.addmm(R(5), R(3, 4), R(4, 5)), {"addmm": 120}),
        (lambda: R(2, 1, 3, 4) @ R(2, 4, 5), {"bmm": 480}),
        (lambda: torch.baddbmm(R(2, 3, 5), R(2, 3, 4), R(2, 4, 5)), {"baddbmm": 240}),
        (lambda: torch.einsum("bij,bjk->bik", R(2, 3, 4), R(2, 4, 5)), {"bmm": 240}),
        (lambda: F.linear(R(2, 3, 4), R(5, 4), R(5)), {"addmm": 240}),
        (lambda: F.linear(R(2, 3, 4), R(5, 4)), {"mm": 240}),
        (lambda: F.linear(R(4), R(5, 4), R(5)), {"addmm": 40}),
        (lambda: R(3, 4) @ R(4), {}),
        (lambda: F.conv1d(R(2, 4, 9), R(6, 2, 3), groups=2, stride=2), {"convolution": 576}),
        (lambda: F.conv1d(R(4, 9), R(6, 2, 3), groups=2, stride=2), {"convolution": 288}),
        (
            lambda: conv((2, 4, 9, 9), (6, 2, 3, 3), groups=2, stride=2),
            {"convolution": 6912, "convolution_backward": 20736},
        ),
        (
            lambda: conv_transpose((2, 4, 5, 5), (4, 3, 3, 3), stride=2),
            {"convolution": 10800, "convolution_backward": 21600},
        ),
        (lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True)(R(5, 2, 3)), {"addmm": 9120}),
        (lambda: nn.RNN(3, 4)(R(5, 2, 3)), {"addmm": 560}),
        (lambda: nn.LSTMCell(3, 4)(R(2, 3)), {"addmm": 448}),
        # torch counts nothing for it on the CPU
        (lambda: nn.LSTM(3, 4)(R(5, 2, 3)), {"addmm": 2240}),
        (
            lambda: F.scaled_dot_product_attention(R(2, 3, 6, 8), R(2, 3, 6, 8), R(2, 3, 6, 8)),
            {"_scaled_dot_product_flash_attention": 6912},
        ),
    ],
)
def test_operations(function, expected):
    assert counts(function)["Global"] == expected


def test_the_table(capsys):
    with FlopCounterMode():
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert capsys.readouterr().out == (
        "Module       FLOP    % Total\n---------  ------  ---------\nGlobal         16    100.00%\n- aten.mm      16    100.00%\n"
    )
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Flatten(), nn.Sequential(nn.Linear(8 * 64, 10)))
    with FlopCounterMode(depth=1) as counter:
        model(torch.randn(2, 3, 8, 8))
    assert capsys.readouterr().out.splitlines() == [
        "Module                 FLOP    % Total",
        "------------------  -------  ---------",
        "Sequential          75.776K    100.00%",
        "- aten.convolution  55.296K     72.97%",
        "- aten.addmm        20.480K     27.03%",
    ]
    assert "Sequential.2.0      20.480K     27.03%" in counter.get_table(3)
    with FlopCounterMode(display=False) as counter:
        pass
    assert counter.get_table().splitlines()[-1] == "Global         0         0%"


def test_further_formulas():
    def three(*sizes, **options):
        return 3

    assert counts(lambda: torch.dot(torch.ones(2), torch.ones(2)), custom_mapping={torch.dot: three})["Global"] == {
        "dot": 3
    }
    assert counts(lambda: torch.dot(torch.ones(2), torch.ones(2)))["Global"] == {}
    register_flop_formula("aten.outer")(lambda first, second, **_: first[0] * second[0])
    try:
        assert counts(lambda: torch.outer(torch.ones(2), torch.ones(3)))["Global"] == {"outer": 6}
    finally:
        del flop_registry["aten.outer"]
    with pytest.warns(UserWarning, match="mods argument is not needed anymore"):
        FlopCounterMode(nn.Linear(1, 1))


def test_what_runs_after_a_backward_pass_belongs_to_no_module():
    model = nn.Linear(4, 4)

    def step():
        model(torch.ones(1, 4)).sum().backward()
        torch.ones(2, 2) @ torch.ones(2, 2)

    found = counts(step)
    assert found["Linear"] == {"addmm": 32, "mm": 32} and found["Global"] == {"addmm": 32, "mm": 48}


def test_modules_that_run():
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    seen = []
    with ModuleTracker() as tracker:
        model[0].register_forward_pre_hook(lambda *_: seen.append((sorted(tracker.parents), tracker.is_bw)))
        model[0].weight.register_hook(lambda *_: seen.append((sorted(tracker.parents), tracker.is_bw)))
        model(torch.ones(1, 2)).sum().backward()
        assert tracker.parents == {"Global"}
    inside = ["Global", "Sequential", "Sequential.0"]
    assert seen == [(inside, False), (inside, True)]
