"""Initial values: torch's numbers for the same seed, gains and errors."""

import pytest

import rushlight as torch
from rushlight.nn import init

# From torch 2.13 with manual_seed(0), for an empty tensor of shape (2, 3).
RECORDED = [
    ("uniform_", (-1.0, 2.0), [[0.4887697696685791, 1.3046653270721436, -0.7345677018165588], [-0.6039085388183594, -0.07773154973983765, 0.9022360444068909]]),
    ("normal_", (1.0, 2.0), [[4.081992149353027, 0.4131421744823456, -3.357578754425049], [2.1368625164031982, -1.1690447330474854, -1.79719078540802]]),
    ("xavier_uniform_", (2.0,), [[-0.016402801498770714, 1.1752890348434448, -1.8032015562057495], [-1.6123616695404053, -0.843830943107605, 0.5875033736228943]]),
    ("xavier_normal_", (), [[0.9746115207672119, -0.18558073043823242, -1.3779873847961426], [0.3595075011253357, -0.6859121322631836, -0.8845493793487549]]),
    ("kaiming_uniform_", (0.2, "fan_out"), [[-0.012715731747448444, 0.911104142665863, -1.3978726863861084], [-1.2499302625656128, -0.6541521549224854, 0.4554426372051239]]),
    ("kaiming_normal_", (0, "fan_in", "relu"), [[1.2582180500030518, -0.23958370089530945, -1.7789740562438965], [0.4641222059726715, -0.8855087757110596, -1.1419483423233032]]),
    ("trunc_normal_", (), [[1.5409960746765137, -0.293428897857666, -0.7192575931549072], [0.5684312582015991, -1.0845223665237427, -1.3985954523086548]]),
    ("trunc_normal_", (0.0, 1.0, 2.0, 3.0), [[2.0223257541656494, 2.1688590049743652, 2.088477373123169], [2.132030487060547, 2.3074228763580322, 2.373417377471924]]),
    ("sparse_", (0.5,), [[0.0, -0.002934289164841175, 0.0], [0.005684312898665667, 0.0, -0.013985954225063324]]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "expected"), RECORDED)
def test_numbers(name, args, expected):
    torch.manual_seed(0)
    tensor = torch.empty(2, 3)
    assert getattr(init, name)(tensor, *args) is tensor
    assert tensor.tolist() == expected


def test_a_generator_is_used():
    first, second = (init.uniform_(torch.empty(3), generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)


def test_constants():
    assert init.eye_(torch.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert init.dirac_(torch.empty(4, 2, 3), 2).tolist() == [
        [[0, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 1, 0]],
    ]  # fmt: skip
    parameter = torch.nn.Parameter(torch.empty(2))
    assert init.ones_(parameter).requires_grad and parameter.grad_fn is None
    assert init.constant_(torch.empty(2, dtype=torch.int64), 3).tolist() == [3, 3]
    assert init.zeros_(torch.ones(2)).tolist() == [0, 0]


def test_gains():
    assert [init.calculate_gain(name) for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu")] == [
        1, 1, 1, 1.6666666666666667, 1.4142135623730951, 1.4141428569978354, 0.75,
    ]  # fmt: skip
    assert init.calculate_gain("leaky_relu", 0.3) == 1.3545709229571927


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: init.calculate_gain("x"), "Unsupported nonlinearity x"),
        (lambda: init.calculate_gain("leaky_relu", True), "negative_slope True not a valid number"),
        (lambda: init.eye_(torch.empty(3)), "Only tensors with 2 dimensions are supported"),
        (lambda: init.dirac_(torch.empty(3)), "Only tensors with 3, 4, or 5 dimensions are supported"),
        (lambda: init.dirac_(torch.empty(3, 1, 1), 2), "dim 0 must be divisible by groups"),
        (lambda: init.xavier_uniform_(torch.empty(3)), "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"),
        (lambda: init.kaiming_uniform_(torch.empty(3, 3), mode="x"), "Mode x not supported, please use one of ['fan_in', 'fan_out']"),
    ],
)  # fmt: skip
def test_misuse(act, message):
    with pytest.raises(ValueError) as caught:
        act()
    assert str(caught.value) == message


@pytest.mark.filterwarnings("ignore:mean is more than 2 std")
@pytest.mark.parametrize(
    "mean, std, low, high, wanted",
    [
        (0.0, 1.0, 30.0, 1e18, (30.0, 31.4)),
        (0.0, 1e-3, 1.0, 1e300, (1.0, 1.1)),
        (0.0, 1.0, 1e6, 1e6 + 4, (1e6, 1e6)),
        (-(2.0**63), 2.5, -2.0, 2.0, (-2.0, -2.0)),
        (2.0**63, 2.5, -2.0, 2.0, (2.0, 2.0)),
        (0.0, 1.0, 30.0, float("inf"), (30.0, 31.4)),
    ],
)
def test_far_tails_are_drawn_from_in_time(mean, std, low, high, wanted):
    """The density is almost zero in nearly all of the interval."""
    drawn = init.trunc_normal_(torch.empty(100), mean, std, low, high)
    assert wanted[0] <= drawn.min() and drawn.max() <= wanted[1]


def test_a_tail_has_its_distribution():
    """Far out in the tail it is exponential: the mean distance from the bound is 1 / (bound - mean)."""
    torch.manual_seed(0)
    with pytest.warns(UserWarning):
        drawn = init.trunc_normal_(torch.empty(20_000, dtype=torch.float64), 0.0, 1.0, 50.0, 1e9)
    assert abs((drawn - 50).mean() * 50 - 1) < 0.05


def test_the_sign_of_a_deviation_does_not_matter():
    torch.manual_seed(0)
    drawn = init.trunc_normal_(torch.empty(3), std=-1)
    assert drawn.tolist() == pytest.approx([-0.0150, 1.0729, -0.1775], abs=1e-4)


def test_warnings():
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        init.kaiming_uniform_(torch.empty(0, 3))
    with pytest.warns(FutureWarning, match="`nn.init.uniform` is now deprecated in favor of `nn.init.uniform_`."):
        init.uniform(torch.empty(3))
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        init.trunc_normal_(torch.empty(3), 3.5, 0.5)
