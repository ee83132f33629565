"""Combined and cyclic schedules and averages of weights, compared with torch's numbers recorded by `lr_cases`."""

import lr_cases
import pytest

import rushlight as torch
from rushlight import nn, optim
from rushlight.optim import lr_scheduler, swa_utils

RECORDED = {
    "multiplicative": [
        [0.5, 0.9],
        [0.455, 0.9],
        [0.4186, 0.9],
        [0.389298, 0.9],
        [0.36594012, 0.9],
        [0.347643114, 0.9],
        [0.3337373894, 0.9],
        [0.3237252678, 0.9],
        [0.3172507624, 0.9],
    ],
    "constant": [
        [0.25, 0.9],
        [0.25, 0.9],
        [0.25, 0.9],
        [0.5, 0.9],
        [0.5, 0.9],
        [0.5, 0.9],
        [0.5, 0.9],
        [0.5, 0.9],
        [0.5, 0.9],
    ],
    "polynomial": [
        [0.5, 0.9],
        [0.28125, 0.9],
        [0.125, 0.9],
        [0.03125, 0.9],
        [0.0, 0.9],
        [0.0, 0.9],
        [0.0, 0.9],
        [0.0, 0.9],
        [0.0, 0.9],
    ],
    "cyclic": [
        [0.1, 0.9],
        [0.4, 0.8666666667],
        [0.7, 0.8333333333],
        [1.0, 0.8],
        [0.7, 0.8333333333],
        [0.4, 0.8666666667],
        [0.1, 0.9],
        [0.4, 0.8666666667],
        [0.7, 0.8333333333],
    ],
    "cyclic halving": [
        [0.1, 0.9],
        [0.55, 0.85],
        [1.0, 0.8],
        [0.1, 0.9],
        [0.325, 0.875],
        [0.55, 0.85],
        [0.1, 0.9],
        [0.2125, 0.8875],
        [0.325, 0.875],
    ],
    "cyclic falling": [
        [0.1, 0.9],
        [0.37, 0.87],
        [0.586, 0.846],
        [0.7561, 0.8271],
        [0.49366, 0.85626],
        [0.277147, 0.880317],
        [0.1, 0.9],
        [0.24348907, 0.88405677],
        [0.358280326, 0.871302186],
    ],
    "restarts": [
        [0.5, 0.9],
        [0.375, 0.9],
        [0.125, 0.9],
        [0.5, 0.9],
        [0.375, 0.9],
        [0.125, 0.9],
        [0.5, 0.9],
        [0.375, 0.9],
        [0.125, 0.9],
    ],
    "longer restarts": [
        [0.5, 0.9],
        [0.255, 0.9],
        [0.5, 0.9],
        [0.4282411614, 0.9],
        [0.255, 0.9],
        [0.0817588386, 0.9],
        [0.5, 0.9],
        [0.4813504855, 0.9],
        [0.4282411614, 0.9],
    ],
    "one cycle": [
        [0.04, 0.95],
        [0.6513582352, 0.8863168505],
        [0.9944154355, 0.8505584587],
        [0.8985666593, 0.8601433746],
        [0.705644729, 0.8794356448],
        [0.4626371027, 0.9037365047],
        [0.2287299532, 0.9271273132],
        [0.0608929698, 0.9439110787],
        [4e-06, 0.95],
    ],
    "three phases": [
        [0.04, 0.95],
        [0.52, 0.9],
        [1.0, 0.85],
        [0.52, 0.9],
        [0.04, 0.95],
        [0.0320008, 0.95],
        [0.0240016, 0.95],
        [0.0160024, 0.95],
        [0.0080032, 0.95],
    ],
    "one after the other": [
        [0.05, 0.9],
        [0.275, 0.9],
        [0.5, 0.9],
        [0.4522542486, 0.9],
        [0.3272542486, 0.9],
        [0.5, 0.9],
        [0.5, 0.9],
        [0.05, 0.9],
        [0.05, 0.9],
    ],
    "all at once": [
        [0.05, 0.9],
        [0.045, 0.9],
        [0.405, 0.9],
        [0.3645, 0.9],
        [0.32805, 0.9],
        [0.295245, 0.9],
        [0.2657205, 0.9],
        [0.23914845, 0.9],
        [0.215233605, 0.9],
    ],
    "averages": [
        [0.5, 0.9],
        [0.4570288237, 0.9],
        [0.3445288237, 0.9],
        [0.2054711763, 0.9],
        [0.0929711763, 0.9],
        [0.05, 0.9],
        [0.05, 0.9],
        [0.05, 0.9],
        [0.05, 0.9],
    ],
    "averages in lines": [
        [0.5, 0.9],
        [0.35, 0.9],
        [0.2, 0.9],
        [0.05, 0.9],
        [0.05, 0.9],
        [0.05, 0.9],
        [0.05, 0.9],
        [0.05, 0.9],
        [0.05, 0.9],
    ],
}


@pytest.mark.parametrize("name", lr_cases.MAKE)
def test_rates(name):
    for own, torchs in zip(lr_cases.rates(torch, name), RECORDED[name], strict=True):
        assert own == pytest.approx(torchs, abs=1e-9)


@pytest.mark.parametrize("name", lr_cases.MAKE)
def test_states_go_on(name):
    def change(optimizer, schedule):
        other = lr_cases.begin(torch)
        successor = lr_cases.MAKE[name](torch, other)
        successor.load_state_dict(schedule.state_dict())
        other.load_state_dict(optimizer.state_dict())
        return other, successor

    assert lr_cases.rates(torch, name, change) == lr_cases.rates(torch, name)


@pytest.mark.parametrize("name", ["constant", "polynomial"])
def test_closed_forms_agree(name):
    optimizer = lr_cases.begin(torch)
    schedule = lr_cases.MAKE[name](torch, optimizer)
    for _ in range(6):
        optimizer.step()
        schedule.step()
        assert schedule._get_closed_form_lr() == pytest.approx(schedule.get_last_lr(), abs=1e-12)


def test_restarts_at_any_epoch():
    schedule = lr_cases.MAKE["longer restarts"](torch, lr_cases.begin(torch))
    # Half a cosine of 4 epochs that begins in epoch 2: epoch 4 is its middle.
    schedule.step(4.0)
    assert schedule.get_last_lr() == pytest.approx([(0.5 + 0.01) / 2])
    with pytest.raises(ValueError, match="Expected non-negative epoch"):
        schedule.step(-1)


def test_momentum_of_adam_is_its_first_beta():
    optimizer = optim.Adam([torch.zeros(1, requires_grad=True)], lr=0.1)
    lr_scheduler.OneCycleLR(optimizer, 1.0, 10)
    assert optimizer.param_groups[0]["betas"] == (0.95, 0.999)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: lr_scheduler.ConstantLR(o, 2.0), "Constant multiplicative factor expected to be between 0 and 1"),
        (lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, mode="x"), "mode is invalid and scale_fn is None"),
        (lambda o: lr_scheduler.CyclicLR(o, [0.1, 0.2], 1.0), "base_lr must have the same length"),
        (lambda o: lr_scheduler.OneCycleLR(o, 1.0), "You must define either total_steps OR"),
        (lambda o: lr_scheduler.OneCycleLR(o, 1.0, 10, pct_start=2.0), "Expected float between 0 and 1 pct_start"),
        (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 0), "Expected positive integer T_0, but got 0"),
        (lambda o: lr_scheduler.SequentialLR(o, [], []), "SequentialLR expects at least one scheduler, but got no"),
        (
            lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [1]),
            "number of schedulers provided to be one more than the number of milestone points",
        ),
        (
            lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ReduceLROnPlateau(o)]),
            "does not support `ReduceLROnPlateau` scheduler",
        ),
        (
            lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.StepLR(o, 1)], lr_cases.begin(torch)),
            "expects all schedulers to belong to the same optimizer",
        ),
        (lambda o: swa_utils.SWALR(o, 0.1, anneal_strategy="x"), "anneal_strategy must be one of 'cos' or 'linear'"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make(lr_cases.begin(torch))


def test_more_steps_than_said():
    optimizer = lr_cases.begin(torch)
    schedule = lr_scheduler.OneCycleLR(optimizer, 1.0, 1, pct_start=0.5)
    optimizer.step()
    schedule.step()
    with pytest.raises(ValueError, match="Tried to step 2 times. The specified number of total steps is 1"):
        schedule.step()


@pytest.mark.parametrize(
    ("options", "weight"),
    [
        ({}, 3.0),
        ({"avg_fn": swa_utils.get_ema_avg_fn(0.5)}, 0.25 * 1 + 0.25 * 3 + 0.5 * 5),
        ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)}, 0.25 * 1 + 0.25 * 3 + 0.5 * 5),
        ({"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}, 3.0),
    ],
)
@pytest.mark.parametrize("use_buffers", [False, True])
def test_averaged_model(options, weight, use_buffers):
    model = nn.BatchNorm1d(1)
    average = swa_utils.AveragedModel(model, use_buffers=use_buffers, **options)
    for value in (1.0, 3.0, 5.0):
        nn.init.constant_(model.weight, value)
        model.running_mean.fill_(value)
        average.update_parameters(model)
    assert average.module.weight.item() == weight
    assert average.module.running_mean.item() == (weight if use_buffers else 5.0)
    assert average.n_averaged.item() == 3
    assert list(average.state_dict())[:2] == ["n_averaged", "module.weight"]


def test_statistics_anew():
    model = nn.Sequential(nn.BatchNorm1d(1)).eval()
    swa_utils.update_bn([[torch.tensor([[1.0], [3.0]]), "label"], torch.tensor([[5.0], [7.0]])], model)
    assert model[0].running_mean.item() == 4 and model[0].momentum == 0.1 and not model.training
