"""What a step of each optimizer does: torch's trajectories, recorded."""

import pytest

import rushlight as torch
from rushlight import nn, optim

START = [1.0, -2.0, 0.5]


def trajectory(make, steps=4, dtype=torch.float64):
    """Four steps of two parameters; the second gets its first gradient in the second step."""
    p = nn.Parameter(torch.tensor(START, dtype=dtype))
    q = nn.Parameter(torch.tensor([[2.0]], dtype=dtype))
    optimizer = make([p, q])
    for i in range(steps):
        p.grad = p.detach() * (i + 1) - 0.5
        q.grad = None if i == 0 else q.detach() ** 2
        optimizer.step()
    return p.tolist() + q.flatten().tolist()


SGD = [
    ({}, [0.4202, -0.487, 0.269, 1.1633664]),
    ({"weight_decay": 0.1}, [0.40216746, -0.45652857, 0.259051455, 1.12860760064]),
    ({"momentum": 0.9}, [-0.01, 0.8, 0.125, 0.3327744]),
    ({"momentum": 0.9, "dampening": 0.3}, [0.1897046, 0.355139, 0.217277, 0.4967492352]),
    (
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        [-0.108858860934, 0.799040149203, 0.042457640755, 0.060244820978],
    ),
    ({"maximize": True, "momentum": 0.5}, [2.4637, -6.4025, 0.986, 4.5726976]),
]
ADAM = [
    ({}, [0.616671670549, -1.606304294263, 0.25028358082, 1.701487728971]),
    ({"weight_decay": 0.1}, [0.613433687697, -1.605389132085, 0.133774101083, 1.701439257861]),
    ({"maximize": True}, [1.37157386523, -2.389394112706, 0.73965949565, 2.300493790049]),
    (
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "amsgrad": True},
        [0.582318946878, -1.532972808705, 0.23265164626, 1.645495997313],
    ),
    ({"betas": (0.5, 0.6), "eps": 1e-3}, [0.605100925059, -1.599859672032, 0.222433272212, 1.70207416481]),
]
ADAMW = [0.613185879204, -1.598866885321, 0.248493222121, 1.695833799932]


@pytest.mark.parametrize(("options", "expected"), SGD)
@pytest.mark.parametrize("differentiable", [False, True])
def test_sgd(options, expected, differentiable):
    def make(params):
        return optim.SGD(params, lr=0.1, differentiable=differentiable, **options)

    if differentiable:
        # Only results of operations may be changed in place while recording.
        make_recorded, make = make, lambda params: Recorded(make_recorded, params)
    assert trajectory(make) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize(("options", "expected"), ADAM)
@pytest.mark.parametrize("differentiable", [False, True])
def test_adam(options, expected, differentiable):
    def make(params):
        return optim.Adam(params, lr=0.1, differentiable=differentiable, **options)

    if differentiable:
        make_recorded, make = make, lambda params: Recorded(make_recorded, params)
    # Where gradients flow, torch corrects the averages in single precision.
    assert trajectory(make) == pytest.approx(expected, abs=1e-5 if differentiable else 1e-11)


class Recorded:
    """Steps an optimizer on copies of parameters and copies the values back."""

    def __init__(self, make, params):
        self.params = params
        self.copies = [param.clone() for param in params]
        self.optimizer = make(self.copies)

    def step(self):
        for param, copied in zip(self.params, self.copies):
            copied.grad = param.grad
        self.optimizer.step()
        with torch.no_grad():
            for param, copied in zip(self.params, self.copies):
                param.copy_(copied)


def test_adamw():
    assert trajectory(lambda params: optim.AdamW(params, lr=0.1)) == pytest.approx(ADAMW, abs=1e-11)


def test_amsgrad_remembers_the_largest_square():
    def run(amsgrad):
        p = nn.Parameter(torch.tensor(START, dtype=torch.float64))
        optimizer = optim.Adam([p], lr=0.1, betas=(0.5, 0.3), amsgrad=amsgrad)
        for i in range(4):
            p.grad = (p.detach() + 1) * (4 - i) ** 3
            optimizer.step()
        return p.tolist()

    assert run(False) == pytest.approx([0.613694190194, -1.617673898607, 0.114966938245], abs=1e-11)
    assert run(True) == pytest.approx([0.77465496889, -1.778426872587, 0.275914808041], abs=1e-11)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
def test_float32_follows_float64(make):
    single = trajectory(lambda params: make(params, lr=0.1), dtype=torch.float32)
    assert single == pytest.approx(trajectory(lambda params: make(params, lr=0.1)), abs=1e-5)


@pytest.mark.parametrize("options", [{"lr": 0.1}, {"lr": torch.tensor(0.1, dtype=torch.float64)}])
def test_rate_as_a_tensor(options):
    assert trajectory(lambda params: optim.SGD(params, **options)) == pytest.approx(SGD[0][1], abs=1e-9)
    assert trajectory(lambda params: optim.Adam(params, **options)) == pytest.approx(ADAM[0][1], abs=1e-9)


def test_groups_have_their_own_options():
    def make(params):
        return optim.SGD([{"params": params[:1], "momentum": 0.9}, {"params": params[1:]}], lr=0.1)

    assert trajectory(make) == pytest.approx(SGD[2][1][:3] + SGD[0][1][3:], abs=1e-11)


def test_steps_are_in_place_and_not_recorded():
    p = nn.Parameter(torch.ones(3))
    place = p.data_ptr()
    for optimizer in (optim.SGD([p], lr=0.1, momentum=0.9), optim.Adam([p]), optim.AdamW([p])):
        version = p._version
        p.grad = torch.ones(3)
        optimizer.step()
        assert p.data_ptr() == place and p.is_leaf and p.grad_fn is None
        assert p._version > version
        assert all(not state.requires_grad for state in optimizer.state[p].values())


def test_gradients_flow_through_a_differentiable_step():
    for make, gradient in (
        (lambda w: optim.SGD(w, lr=0.1, differentiable=True), 0.8),
        (lambda w: optim.SGD(w, lr=0.1, differentiable=True, momentum=0.9, weight_decay=0.1, nesterov=True), 0.79),
        (lambda w: optim.AdamW(w, lr=0.1, differentiable=True), 0.999),
    ):
        x = torch.ones(3, requires_grad=True)
        w = x.clone()
        optimizer = make([w])
        w.grad = x**2
        optimizer.step()
        (grad,) = torch.autograd.grad(w.sum(), x)
        assert grad.tolist() == pytest.approx([gradient] * 3, abs=1e-5)


def test_closures_record_and_return_the_loss():
    p = nn.Parameter(torch.ones(1))
    optimizer = optim.SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (p * 3).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 3
    assert p.item() == pytest.approx(0.7)


def test_parameters_without_gradients_stay():
    p, q = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = optim.Adam([p, q], lr=0.1)
    p.grad = torch.ones(1)
    optimizer.step()
    assert q.item() == 1 and q not in optimizer.state
    optimizer.zero_grad()
    assert p.grad is None
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 1


def test_curve_fitting():
    """5 x**2 + 3 by Adam with the rate as second positional argument."""
    torch.manual_seed(0)
    w = torch.randn(3, 1, requires_grad=True)
    x = torch.arange(-10, 10, 0.5)
    features = torch.stack([x * x, x, torch.ones_like(x)], 1)
    target = (5 * x * x + 3).unsqueeze(1)
    optimizer = optim.Adam([w], 0.1)
    for _ in range(1000):
        optimizer.zero_grad()
        nn.functional.mse_loss(features @ w, target).backward()
        optimizer.step()
    assert abs(w[0].item() - 5) <= 0.05 and abs(w[1].item()) <= 0.02 and 2.5 <= w[2].item() <= 5.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, lr=0.1),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda p: optim.Adam(p, lr=0.1),
        lambda p: optim.Adam(p, lr=0.1, amsgrad=True),
    ],
)
@pytest.mark.parametrize("n", [1, 15, 16, 17, 100, 1337])
def test_every_element_steps_as_it_does_alone(n, make, dtype):
    """A step takes elements in blocks: none is forgotten, and none is computed differently."""
    start = torch.arange(n, dtype=torch.float64).sin().to(dtype)
    whole = nn.Parameter(start.clone())
    alone = [nn.Parameter(start[i : i + 1].clone()) for i in range(0, n, max(1, n // 20))]
    optimizer = make([whole, *alone])
    for _ in range(3):
        for param in (whole, *alone):
            param.grad = param.detach() * 2 - 1
        optimizer.step()
    assert torch.equal(whole.detach()[:: max(1, n // 20)], torch.cat([param.detach() for param in alone]))
    assert not torch.equal(whole.detach(), start)
