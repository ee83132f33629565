"""OPT: optimizers, learning rates, and training loops."""

import math

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.optim import lr_scheduler


def problem(torch):
    """Two parameters and a loss with a curved valley."""
    p = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([[2.0]], dtype=torch.float64, requires_grad=True)
    return [p, q], lambda: (p * p * torch.tensor([1.0, 4.0, 9.0])).sum().sin() + ((q - p[0] ** 2) ** 2).sum() + p.sum()


def hundred_steps(torch, name, options):
    params, loss = problem(torch)
    optimizer = getattr(torch.optim, name)(params, **options)

    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    for _ in range(100):
        closure()
        optimizer.step(closure) if name == "LBFGS" else optimizer.step()
    return [value for param in params for value in param.detach().flatten().tolist()]


# The results of a hundred steps of torch.
ENDS = [
    ("SGD", {"lr": 0.01}, [1.1405221162, -2.0092220911, -0.394883601, 1.4758377868]),
    (
        "SGD",
        {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        [-1.197249902, -0.7646415604, -0.3486905383, 1.3323872035],
    ),
    (
        "SGD",
        {"lr": 0.01, "momentum": 0.5, "dampening": 0.2, "maximize": False},
        [0.978669161, -1.8142437088, -0.5991732844, 1.187780775],
    ),
    ("Adam", {"lr": 0.01}, [1.1288778856, -1.9969287466, 0.1029076826, 1.4631416102]),
    (
        "Adam",
        {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1, "betas": (0.8, 0.95)},
        [1.1232150065, -1.9787248403, 0.202728225, 1.4601498202],
    ),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1}, [1.0748505447, -1.9861395986, 0.1871364994, 1.3263920677]),
    ("Adamax", {"lr": 0.01}, [1.2020314982, -1.9435335153, 0.2862283237, 1.6220286879]),
    ("Adamax", {"lr": 0.01, "weight_decay": 0.1}, [1.1766213062, -1.9444972127, 0.2919019888, 1.5685645359]),
    ("Adagrad", {"lr": 0.1}, [0.6497582729, -2.0043066855, -0.3089686963, 0.6873901213]),
    (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
        [1.1364343808, -1.9827970156, 0.1787437323, 1.5105464855],
    ),
    ("Adadelta", {}, [1.2473357342, -1.9255323966, 0.3234014667, 1.7672706398]),
    (
        "Adadelta",
        {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1},
        [1.2050914833, -1.9090124591, 0.3796766233, 1.8396232257],
    ),
    ("RMSprop", {"lr": 0.01}, [0.430474015, -1.9832064969, -0.3992878682, 0.4680843334]),
    (
        "RMSprop",
        {"lr": 0.01, "centered": True, "momentum": 0.5, "weight_decay": 0.1},
        [-0.9212516323, -1.7586005422, -0.6782516604, 0.6838148894],
    ),
    ("Rprop", {"lr": 0.01}, [-1.8832683185, -1.7544091981, -0.4103091516, 3.5265044236]),
    (
        "Rprop",
        {"lr": 0.01, "etas": (0.6, 1.1), "step_sizes": (0.0001, 0.1)},
        [-1.549384255, -1.8545358899, -0.3780001966, 2.311758499],
    ),
    ("ASGD", {"lr": 0.01}, [1.140440268, -2.009217981, -0.3948867958, 1.4756690733]),
    (
        "ASGD",
        {"lr": 0.01, "lambd": 0.01, "alpha": 0.5, "t0": 10, "weight_decay": 0.1},
        [1.0473551901, -2.0143453078, -0.4057088035, 1.2880509716],
    ),
    ("LBFGS", {"lr": 0.1, "max_iter": 2}, [-3.2525100379, -1.0187187687, -0.549559669, 10.5522927722]),
    (
        "LBFGS",
        {"lr": 0.5, "max_iter": 3, "line_search_fn": "strong_wolfe"},
        [-3.5773789013, -0.8943490617, -0.3974780479, 12.7976361277],
    ),
]


@pytest.mark.parametrize(
    ("name", "options", "expected"), ENDS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_opt_1_a_hundred_steps(name, options, expected):
    """Every optimizer gives torch's results, in float64 within 1e-6."""
    assert hundred_steps(torch, name, options) == pytest.approx(expected, abs=1e-6)


def test_opt_1_sparse_adam():
    """Only the rows of a sparse gradient change."""
    w = torch.ones(3, 2, requires_grad=True)
    optimizer = optim.SparseAdam([w], lr=0.1)
    F.embedding(torch.tensor([0, 2]), w, sparse=True).sum().backward()
    optimizer.step()
    assert w[1].tolist() == [1.0, 1.0] and w[0].tolist() == pytest.approx([0.9, 0.9])


@pytest.mark.parametrize("name", sorted({name for name, _, _ in ENDS if name != "LBFGS"}))
def test_opt_1_states_go_on(name):
    """A new optimizer with a loaded state makes the same steps as the old one."""

    def run(interrupted):
        params, loss = problem(torch)
        optimizer = getattr(optim, name)(params, lr=0.01)
        for step in range(6):
            if interrupted and step == 3:
                state, optimizer = optimizer.state_dict(), getattr(optim, name)(params, lr=0.5)
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
        return [param.tolist() for param in params]

    assert run(True) == run(False)


def test_opt_2_momentum():
    """Only the last layer is optimised. Two steps agree with a manual computation."""
    model = nn.Sequential()
    model.base, model.fc = nn.Linear(2, 2), nn.Linear(2, 1)
    optimizer = optim.SGD(model.fc.parameters(), lr=1e-2, momentum=0.9)
    assert optimizer.param_groups[0]["params"] == [model.fc.weight, model.fc.bias]
    start = model.fc.bias.item()
    for _ in range(2):
        model.fc.bias.grad = torch.ones(1)
        optimizer.step()
    assert model.fc.bias.item() == pytest.approx(start - 0.01 * 1 - 0.01 * 1.9, rel=1e-5)
    with pytest.raises(ValueError, match="Nesterov momentum requires a momentum and zero dampening"):
        optim.SGD(model.parameters(), lr=0.1, nesterov=True)


def test_opt_3_bias_correction():
    """The learning rate as a positional argument. The first step of Adam has the size of the rate, for any gradient."""
    for grad in (1e-3, 1e3):
        w = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.Adam([w], 0.1)
        w.grad = torch.full_like(w, grad)
        optimizer.step()
        assert w.item() == pytest.approx(-0.1, rel=1e-4)
    w = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.RMSprop([w], 0.1)
    w.grad = torch.full_like(w, 5.0)
    optimizer.step()
    assert w.item() == pytest.approx(-0.1 / math.sqrt(0.01), rel=1e-6)


def test_opt_4_the_loop():
    """Zero, backward, step; groups with separate rates; a closure for optimizers that evaluate several times."""
    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (a + b).sum().backward()
        optimizer.step()
    assert a.item() == pytest.approx(0.8) and b.item() == 0
    w = torch.tensor([3.0, -4.0], requires_grad=True)
    calls = []
    lbfgs = optim.LBFGS([w], lr=0.5)

    def closure():
        lbfgs.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        calls.append(loss.item())
        return loss

    assert lbfgs.step(closure).item() == 25
    assert len(calls) > 1 and w.abs().max() < 1e-3


def curve(steps, w, x):
    features = torch.stack([x * x, x, torch.ones_like(x)], 1)
    y = 5 * x * x + 3
    optimizer = torch.optim.Adam([w], 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss((features @ w).squeeze(1), y).backward()
        optimizer.step()
    return w.detach().flatten().tolist()


def test_opt_5_a_curve():
    """Adam minimises 5 x^2 + 3: the square quickly, the constant slowly."""
    torch.manual_seed(0)
    x = torch.rand(100) * 20 - 10
    w = torch.randn(3, 1, requires_grad=True)
    first = curve(1000, w, x)
    assert abs(first[0] - 5) <= 0.05 and abs(first[1]) <= 0.02 and 2.5 <= first[2] <= 5.5
    assert abs(curve(4000, w, x)[2] - 3) <= 0.2


def test_opt_5_step_for_step():
    """With given data the weights after fifty steps are torch's."""
    x = torch.linspace(-10, 10, 100, dtype=torch.float64)
    w = torch.tensor([[0.5], [-0.5], [1.0]], dtype=torch.float64, requires_grad=True)
    assert curve(50, w, x) == pytest.approx(CURVE, rel=1e-9)


# Recorded from torch.
CURVE = [4.444064828143, -0.02731672326, 4.931406713971]


def rates(scheduler, steps, *metrics):
    """The rate before each step."""
    found = []
    for step in range(steps):
        found.append(round(scheduler.optimizer.param_groups[0]["lr"], 10))
        scheduler.optimizer.step()
        scheduler.step(*(metric[step] for metric in metrics))
    return found


def plain(lr=1.0):
    return optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)


@pytest.mark.parametrize(
    ("options", "metrics", "expected"),
    [
        ({"patience": 1}, [1, 1, 1, 1, 1, 1], [1, 1, 1, 0.1, 0.1, 0.01]),
        ({"patience": 0, "mode": "max", "factor": 0.5}, [1, 2, 2, 3, 3, 3], [1, 1, 1, 0.5, 0.5, 0.25]),
        ({"patience": 0, "cooldown": 2, "factor": 0.5}, [1, 1, 1, 1, 1, 1], [1, 1, 0.5, 0.5, 0.5, 0.25]),
        ({"patience": 0, "threshold": 0.2, "threshold_mode": "rel"}, [10, 9, 7, 7, 5, 5], [1, 1, 0.1, 0.1, 0.01, 0.01]),
        ({"patience": 0, "threshold": 2, "threshold_mode": "abs"}, [10, 9, 7, 7, 4, 4], [1, 1, 0.1, 0.1, 0.01, 0.01]),
        ({"patience": 0, "min_lr": 0.05}, [1, 1, 1, 1, 1, 1], [1, 1, 0.1, 0.05, 0.05, 0.05]),
    ],
    ids=["patience", "max", "cooldown", "relative", "absolute", "min_lr"],
)
def test_opt_6_plateaus(options, metrics, expected):
    """The rate decreases when a quantity stops improving, by the criterion of the options."""
    assert rates(lr_scheduler.ReduceLROnPlateau(plain(), **options), 6, metrics) == expected


def test_opt_6_a_floor_for_each_group():
    """Every group may have its own lowest rate."""
    a, b = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer = optim.SGD([{"params": [a]}, {"params": [b]}], lr=1.0)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.5, 0.05])
    for _ in range(4):
        scheduler.step(1.0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.05]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
            [1, 0.5, 0.3333333333, 0.25, 0.2, 0.1666666667],
        ),
        (lambda o: lr_scheduler.StepLR(o, 2, gamma=0.1), [1, 1, 0.1, 0.1, 0.01, 0.01]),
        (lambda o: lr_scheduler.MultiStepLR(o, [1, 4], gamma=0.5), [1, 0.5, 0.5, 0.5, 0.25, 0.25]),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.5), [1, 0.5, 0.25, 0.125, 0.0625, 0.03125]),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 4), [1, 0.8535533906, 0.5, 0.1464466094, 0, 0.1464466094]),
    ],
    ids=["LambdaLR", "StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR"],
)
def test_opt_7_schedules(make, expected):
    """Rates follow their formula, and continue from a loaded state."""
    assert rates(make(plain()), 6) == expected
    first = make(plain())
    assert rates(first, 3) == expected[:3]
    second = make(plain())
    second.load_state_dict(first.state_dict())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    assert rates(second, 3) == expected[3:]


def test_opt_7_the_order_of_steps():
    """A schedule whose step precedes that of the optimizer skips a rate, and gives a warning."""
    scheduler = lr_scheduler.StepLR(plain(), 1)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()


def test_opt_8_descent():
    """Gradient descent on all data, and epochs of small batches, reach the same minimum."""
    torch.manual_seed(0)
    x = torch.randn(64, 2)
    y = x @ torch.tensor([[2.0], [-1.0]]) + 0.5
    found = []
    for batch in (64, 8):
        model = nn.Linear(2, 1)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for _ in range(200 * batch // 64):
            order = torch.randperm(64)
            for part in order.split(batch):
                optimizer.zero_grad()
                F.mse_loss(model(x[part]), y[part]).backward()
                optimizer.step()
        found.append([*model.weight.flatten().tolist(), model.bias.item()])
    assert found[0] == pytest.approx([2, -1, 0.5], abs=1e-3)
    assert found[1] == pytest.approx([2, -1, 0.5], abs=1e-3)
