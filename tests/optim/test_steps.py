"""Steps of optimizers: properties of all optimizers, and special cases. `test_optimizer_cases.py` has the results."""

import copy
import math

import pytest
from optimizer_cases import OPTIONS, Training, alone_and_together, kinds

import rushlight as torch
from rushlight import nn, optim

START = [1.0, -2.0, 0.5]


def trajectory(make, steps=4, dtype=torch.float64):
    """Four steps with two parameters. The second gets its first gradient in the second step."""
    p = nn.Parameter(torch.tensor(START, dtype=dtype))
    q = nn.Parameter(torch.tensor([[2.0]], dtype=dtype))
    optimizer = make([p, q])
    for i in range(steps):
        p.grad = p.detach() * (i + 1) - 0.5
        q.grad = None if i == 0 else q.detach() ** 2
        optimizer.step()
    return p.tolist() + q.flatten().tolist()


def test_amsgrad_remembers_the_largest_square():
    def run(amsgrad):
        p = nn.Parameter(torch.tensor(START, dtype=torch.float64))
        optimizer = optim.Adam([p], lr=0.1, betas=(0.5, 0.3), amsgrad=amsgrad)
        for i in range(4):
            p.grad = (p.detach() + 1) * (4 - i) ** 3
            optimizer.step()
        return p.tolist()

    # The gradients decrease. With the option, the optimizer remembers the first gradient and makes smaller steps.
    for start, forgetful, mindful in zip(START, run(False), run(True)):
        assert abs(mindful - start) < abs(forgetful - start) - 0.1


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
def test_float32_follows_float64(make):
    single = trajectory(lambda params: make(params, lr=0.1), dtype=torch.float32)
    assert single == pytest.approx(trajectory(lambda params: make(params, lr=0.1)), abs=1e-5)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
def test_rate_as_a_tensor(make):
    found = trajectory(lambda params: make(params, lr=torch.tensor(0.1, dtype=torch.float64)))
    assert found == pytest.approx(trajectory(lambda params: make(params, lr=0.1)), abs=1e-9)


def test_groups_have_their_own_options():
    def make(params):
        return optim.SGD([{"params": params[:1], "momentum": 0.9}, {"params": params[1:]}], lr=0.1)

    first = trajectory(lambda params: optim.SGD(params, lr=0.1, momentum=0.9))[:3]
    second = trajectory(lambda params: optim.SGD(params, lr=0.1))[3:]
    assert trajectory(make) == pytest.approx(first + second, abs=1e-11)


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
    """Minimises 5 x**2 + 3 with Adam, with the rate as second positional argument."""
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
    """A step processes elements in blocks. All elements are updated, with the same arithmetic."""
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


#: Each optimizer with common options, and with all of its options.
CASES = [
    (name, options) for name in OPTIONS for options in alone_and_together(name)[:: len(alone_and_together(name)) - 1]
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_state_goes_on(name, options):
    """A new optimizer with a loaded state continues like the old one."""
    begun = Training(torch, name, options, "groups").run(range(4))
    later = Training(torch, name, options, "groups")
    with torch.no_grad():
        for param, value in zip(later.params, begun.params):
            param.copy_(value)
    later.optimizer.load_state_dict(copy.deepcopy(begun.optimizer.state_dict()))  # both would change it otherwise
    # Not bit for bit: as in torch, a loaded number of NAdam gets the dtype of the parameter.
    assert later.run(range(4, 8)).end() == pytest.approx(begun.run(range(4, 8)).end(), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("name", "options"), [case for case in CASES if "complex" in kinds(case[0])])
def test_complex_parameters_are_pairs_of_numbers(name, options):
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


def begin(dtype=torch.float64):
    return [nn.Parameter(torch.tensor(values, dtype=dtype)) for values in ([1.0, -2.0, 0.5], [[2.0]])]


@pytest.mark.parametrize("name", ["RMSprop", "Adadelta", "Adagrad", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_gradients_through_steps_are_slopes(name):
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


# On Rosenbrock's function: the losses of three calls, the final point, and the numbers of steps and evaluations.
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
    """Overlapping elements would be updated several times."""
    shared = torch.zeros(1).expand(4).requires_grad_()
    optimizer = getattr(torch.optim, name)([shared], lr=0.1)
    (shared * torch.arange(4.0)).sum().backward()
    with pytest.raises(RuntimeError, match=r"more than one element of the written-to tensor refers to a single memory"):
        optimizer.step()
    assert shared.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RMSprop", "Rprop", "Adagrad", "ASGD", "Adadelta"])
def test_no_gradient_flows_through_steps_of_all_tensors_at_once(name):
    w = torch.ones(2, requires_grad=True)
    optimizer = getattr(torch.optim, name)([w], foreach=True, differentiable=True)
    optimizer.step()  # without gradients
    w.sum().backward()
    with pytest.raises(AssertionError, match="_foreach ops don't support autograd"):
        optimizer.step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "NAdam"])
def test_a_differentiable_step_is_recorded_also_where_nothing_else_is(name):
    p = torch.ones(2, requires_grad=True)
    p.grad = torch.ones(2)
    optimizer = getattr(torch.optim, name)([p], lr=0.1, differentiable=True)
    with (
        torch.no_grad(),
        pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-"),
    ):
        optimizer.step()


def test_lbfgs_keeps_the_rate_that_it_was_given():
    p = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([p], max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = (p**4).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert type(optimizer.state[p]["t"]) is int
