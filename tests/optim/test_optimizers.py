"""The optimizers whose steps are formulas over operators, and L-BFGS: torch's trajectories, recorded."""

import math

import pytest

import rushlight as torch
from rushlight import nn, optim

STEPS = [
    ("RMSprop", {}, [-1.221070613937, -0.046767152054, 1.409865391367, 0.366114697063]),
    (
        "RMSprop",
        {"momentum": 0.9, "weight_decay": 0.1},
        [8.225486753379, 12.345674933533, 8.720352162518, -10.246008853779],
    ),
    (
        "RMSprop",
        {"centered": True, "momentum": 0.5, "maximize": True},
        [3.86838079674, -4.821030195638, 0.997611583697, 12.566099123584],
    ),
    ("Adadelta", {}, [0.998992263983, -1.999074856802, 0.499453632512, 1.997672930507]),
    (
        "Adadelta",
        {"rho": 0.5, "weight_decay": 0.1, "maximize": True},
        [1.000412796835, -2.00039750596, 0.500138567573, 2.001335426604],
    ),
    ("Adamax", {}, [0.796569083667, -1.770805628391, 0.430934605959, 1.399699709468]),
    (
        "Adamax",
        {"betas": (0.5, 0.6), "weight_decay": 0.1},
        [0.806257653242, -1.802840026035, 0.293694170185, 1.237648184298],
    ),
    ("Adagrad", {}, [0.813573131134, -1.819964813972, 0.407215268532, 1.629597575832]),
    (
        "Adagrad",
        {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3},
        [0.853155277427, -1.830236624421, 0.436041318272, 1.687836121419],
    ),
    ("NAdam", {}, [0.78201760045, -1.78768230035, 0.379925490407, 1.491741824936]),
    (
        "NAdam",
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.1},
        [0.716413245849, -1.645037155932, 0.345020425517, 1.385957502547],
    ),
    ("RAdam", {}, [0.736728509272, -0.919683947864, 0.461073637, 0.610064238545]),
    (
        "RAdam",
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "betas": (0.5, 0.8)},
        [1.06402319338, -1.679272650482, 0.582314977288, 0.620485265285],
    ),
    ("ASGD", {}, [0.169402194757, -0.135463206604, 0.11859129453, 0.767135046928]),
    (
        "ASGD",
        {"lambd": 0.1, "t0": 2, "weight_decay": 0.1},
        [0.16680106892, -0.136890696689, 0.116185774652, 0.694310491927],
    ),
    ("Rprop", {}, [0.7512, -1.7512, 0.376, 0.7084096]),
    ("Rprop", {"etas": (0.3, 1.5), "step_sizes": (0.01, 0.15)}, [0.69225, -1.69225, 0.34225, 1.0]),
    ("Adafactor", {}, [0.717902541047, -1.724325684153, 0.341001913482, 1.127631642786]),
    (
        "Adafactor",
        {"weight_decay": 0.1, "d": 1.5, "beta2_decay": -0.5, "eps": (0.001, 0.01)},
        [0.637193203831, -1.56010466669, 0.295832273927, 1.008171442977],
    ),
]
# On Rosenbrock's function: three calls' losses, where they end, and how many steps and evaluations that took.
LBFGS = [
    ({}, [12.5, 3.173287752667091, 0.8411684492507328], [1.054969018030194, 0.8137053551938505], [60, 60]),
    (
        {"line_search_fn": "strong_wolfe"},
        [12.5, 1.3070983150500495, 1.884048137837783e-07],
        [0.9999979943196398, 0.9999973438921637],
        [41, 53],
    ),
    (
        {"max_iter": 3, "history_size": 2, "lr": 0.5},
        [12.5, 29.67527127123739, 6.212736213127083],
        [-1.4185785333778624, 2.0337894220394275],
        [6, 9],
    ),
]
MUON = [
    [0.901557445526123, -0.18099047243595123, -0.1177598312497139],
    [0.04379737377166748, 1.2209012508392334, -0.1960730105638504],
]


def begin(dtype=torch.float64):
    return [nn.Parameter(torch.tensor(values, dtype=dtype)) for values in ([1.0, -2.0, 0.5], [[2.0]])]


def run(optimizer, params, steps):
    p, q = params
    for i in steps:
        p.grad = (p.detach() * (i + 1) - 0.5) * (-1) ** (i // 3)
        q.grad = None if i == 0 else q.detach() ** 2
        optimizer.step()
    return p.tolist() + q.flatten().tolist()


@pytest.mark.parametrize(("name", "options", "expected"), STEPS)
def test_steps(name, options, expected):
    params = begin()
    assert run(getattr(optim, name)(params, lr=0.1, **options), params, range(8)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("name", "options", "expected"), STEPS)
def test_state_goes_on(name, options, expected):
    """A new optimizer with a loaded state makes the steps that the old one would have made."""
    params = begin()
    first = getattr(optim, name)(params, lr=0.1, **options)
    run(first, params, range(4))
    second = getattr(optim, name)(params, lr=0.5, **options)
    second.load_state_dict(first.state_dict())
    assert run(second, params, range(4, 8)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("name", "options", "expected"), [case for case in STEPS if case[0] != "Adafactor"])
def test_complex_parameters_are_pairs_of_numbers(name, options, expected):
    pairs = nn.Parameter(torch.tensor([[1.0, -2.0], [0.5, 0.25]], dtype=torch.float64))
    numbers = nn.Parameter(torch.view_as_complex(pairs.detach().clone()))
    make = getattr(optim, name)
    optimizers = make([pairs], lr=0.1, **options), make([numbers], lr=0.1, **options)
    for i in range(4):
        pairs.grad = pairs.detach() * (i + 1) - 0.5
        numbers.grad = torch.view_as_complex(pairs.grad)
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(torch.view_as_real(numbers.detach()), pairs.detach())


@pytest.mark.parametrize("name", ["RMSprop", "Adadelta", "Adagrad", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_gradients_flow_through_steps(name):
    start = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)

    def final(start):
        param = start.clone()
        optimizer = getattr(optim, name)([param], lr=0.1, differentiable=True)
        for i in range(3):
            param.grad = (start * (i + 1)) ** 2
            optimizer.step()
        return param.sum()

    final(start).backward()
    for place in range(3):
        moved = [start.detach().clone() for _ in range(2)]
        moved[0][place] += 1e-6
        moved[1][place] -= 1e-6
        slope = (final(moved[0]) - final(moved[1])).item() / 2e-6
        assert start.grad[place].item() == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize(("options", "losses", "end", "work"), LBFGS)
def test_lbfgs(options, losses, end, work):
    x = nn.Parameter(torch.tensor([-1.5, 2.0], dtype=torch.float64))
    optimizer = optim.LBFGS([x], **options)

    def closure():
        optimizer.zero_grad()
        loss = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
        loss.backward()
        return loss

    assert [optimizer.step(closure).item() for _ in losses] == pytest.approx(losses, rel=1e-6, abs=1e-12)
    assert x.tolist() == pytest.approx(end, rel=1e-6)
    assert [optimizer.state[x][name] for name in ("n_iter", "func_evals")] == work


def test_muon():
    matrix = nn.Parameter(torch.eye(2, 3))
    optimizer = optim.Muon([matrix], lr=0.1)
    for i in range(3):
        matrix.grad = torch.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 2.0]]) * (i + 1)
        optimizer.step()
    for row, expected in zip(matrix.tolist(), MUON):
        assert row == pytest.approx(expected, abs=5e-3)
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        optim.Muon([nn.Parameter(torch.ones(2))])


def test_adagrad_shares_its_sums():
    params = begin()
    optimizer = optim.Adagrad(params)
    optimizer.share_memory()
    assert all(optimizer.state[param]["sum"].is_shared() for param in params)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("RMSprop", {"alpha": -1}, "Invalid alpha value: -1"),
        ("Adadelta", {"rho": 2}, "Invalid rho value: 2"),
        ("Adamax", {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
        ("Adagrad", {"lr_decay": -1}, "Invalid lr_decay value: -1"),
        ("NAdam", {"momentum_decay": -1}, "Invalid momentum_decay value: -1"),
        ("ASGD", {"lr": -1}, "Invalid learning rate: -1"),
        ("Rprop", {"etas": (1.1, 1.2)}, "Invalid eta values: 1.1, 1.2"),
        ("Adafactor", {"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
        ("Adafactor", {"eps": (-1, math.inf)}, "epsilon1 should be >= 0 but is: -1"),
        ("Muon", {"adjust_lr_fn": "x"}, "Adjust learning rate function x is not supported"),
    ],
)
def test_options_out_of_range(name, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(optim, name)(begin(), **options)


def test_groups_of_lbfgs():
    with pytest.raises(ValueError, match="LBFGS doesn't support per-parameter options"):
        optim.LBFGS([{"params": param} for param in begin()])


@pytest.mark.parametrize("name", ["RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_capturing_is_for_devices(name):
    params = begin()
    optimizer = getattr(optim, name)(params, capturable=True)
    params[0].grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(AssertionError, match="must be on supported devices"):
        optimizer.step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Rprop", "NAdam"])
def test_parameters_that_overlap_themselves(name):
    """Several elements at one place would each take their step there."""
    shared = torch.zeros(1).expand(4).requires_grad_()
    optimizer = getattr(torch.optim, name)([shared], lr=0.1)
    (shared * torch.arange(4.0)).sum().backward()
    with pytest.raises(RuntimeError, match=r"more than one element of the written-to tensor refers to a single memory"):
        optimizer.step()
    assert shared.tolist() == [0, 0, 0, 0]
