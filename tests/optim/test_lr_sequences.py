"""Learning-rate schedules: the rates in each epoch, compared with torch's recorded rates."""

import warnings

import pytest

import rushlight as torch
from rushlight import nn, optim
from rushlight.optim import lr_scheduler as schedules


def optimizer(lr=0.1, **options):
    return optim.SGD([{"params": [nn.Parameter(torch.ones(1))], **options}], lr=lr)


def rates(make, epochs=7, lr=0.1, metrics=None):
    sgd = optimizer(lr)
    schedule = make(sgd)
    found = [float(sgd.param_groups[0]["lr"])]
    for epoch in range(epochs):
        sgd.step()
        schedule.step(*([] if metrics is None else [metrics[epoch]]))
        found.append(float(sgd.param_groups[0]["lr"]))
    return found


RECORDED = [
    (lambda o: schedules.StepLR(o, 2), [0.1, 0.1, 0.01, 0.01, 0.001, 0.001, 1e-4, 1e-4]),
    (lambda o: schedules.MultiStepLR(o, [2, 4, 4]), [0.1, 0.1, 0.01, 0.01, 1e-4, 1e-4, 1e-4, 1e-4]),
    (lambda o: schedules.ExponentialLR(o, 0.5), [0.1 * 0.5**e for e in range(8)]),
    (lambda o: schedules.LambdaLR(o, lambda e: 0.9**e), [0.1 * 0.9**e for e in range(8)]),
    (lambda o: schedules.LinearLR(o, 0.25, 1.0, 4), [0.025, 0.04375, 0.0625, 0.08125, 0.1, 0.1, 0.1, 0.1]),
    (
        lambda o: schedules.CosineAnnealingLR(o, 5, 0.01),
        [
            0.1, 0.09140576474687263, 0.06890576474687263, 0.04109423525312736, 0.018594235253127367, 0.01,
            0.018594235253127367, 0.04109423525312739,
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "expected"), RECORDED)
def test_sequences(make, expected):
    assert rates(make) == pytest.approx(expected, rel=1e-12)
    # A rate that is a tensor is changed in place.
    assert rates(make, lr=torch.tensor(0.1)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda o: schedules.StepLR(o, 2), [0.01, 0.1, 1e-4]),
        (lambda o: schedules.MultiStepLR(o, [2, 4, 4]), [0.01, 0.1, 1e-4]),
        (lambda o: schedules.ExponentialLR(o, 0.5), [0.0125, 0.05, 0.00078125]),
        (lambda o: schedules.CosineAnnealingLR(o, 5, 0.01), [0.04109423525312737, 0.09140576474687263, 0.04109423525312737]),
        (lambda o: schedules.LinearLR(o, 0.25, 1.0, 4), [0.08125, 0.04375, 0.1]),
    ],
)  # fmt: skip
def test_any_epoch(make, expected):
    sgd = optimizer()
    schedule = make(sgd)
    sgd.step()
    found = []
    for epoch in (3, 1, 7):
        with pytest.warns(UserWarning, match=r"The epoch parameter in `scheduler.step\(\)` was not necessary"):
            schedule.step(epoch)
        found.append(sgd.param_groups[0]["lr"])
    assert found == pytest.approx(expected, rel=1e-12) and schedule.last_epoch == 7


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda o: schedules.StepLR(o, 2, last_epoch=3), 0.005),
        (lambda o: schedules.CosineAnnealingLR(o, 5, 0.01, last_epoch=3), 0.05),
        (lambda o: schedules.LinearLR(o, 0.25, 1.0, 4, last_epoch=3), 0.05),
        (lambda o: schedules.LambdaLR(o, lambda e: 0.9**e, last_epoch=3), 0.06561),
    ],
)
def test_resuming(make, expected):
    sgd = optimizer(lr=0.05, initial_lr=0.1)
    schedule = make(sgd)
    assert sgd.param_groups[0]["lr"] == pytest.approx(expected)
    assert schedule.last_epoch == 4 and schedule.base_lrs == [0.1]


METRICS = [1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({"patience": 1, "cooldown": 1}, {3: 0.01, 8: 0.001, 11: 1e-4}),
        ({"patience": 3}, {5: 0.01, 10: 0.001}),
        ({"patience": 3, "min_lr": 0.05}, {5: 0.05}),
        ({"patience": 1, "mode": "max", "factor": 0.5}, {3: 0.05, 5: 0.025, 7: 0.0125, 9: 0.00625, 11: 0.003125}),
        ({"patience": 5, "threshold": 0.6, "threshold_mode": "abs"}, {7: 0.01}),
    ],
)
def test_reduction_on_a_plateau(options, changes):
    found = rates(lambda o: schedules.ReduceLROnPlateau(o, **options), len(METRICS), metrics=METRICS)
    assert {e: pytest.approx(lr) for e, lr in enumerate(found) if e and lr != found[e - 1]} == changes


def test_states_of_inner_schedules_stand_last():
    sgd = optimizer()
    inner = [schedules.ConstantLR(sgd), schedules.ExponentialLR(sgd, 0.9)]
    assert list(schedules.ChainedScheduler(inner).state_dict()) == ["_last_lr", "_schedulers"]
    sequence = schedules.SequentialLR(sgd, inner, [2])
    assert list(sequence.state_dict()) == ["_milestones", "last_epoch", "_last_lr", "_schedulers"]


def test_state_dict():
    sgd = optimizer()
    schedule = schedules.StepLR(sgd, 2)
    sgd.step()
    schedule.step()
    state = schedule.state_dict()
    assert state == {
        "step_size": 2, "gamma": 0.1, "base_lrs": [0.1], "last_epoch": 1, "_step_count": 2, "_is_initial": False,
        "_get_lr_called_within_step": False, "_last_lr": [0.1],
    }  # fmt: skip
    other = schedules.StepLR(optimizer(), 7)
    other.load_state_dict(state)
    assert other.step_size == 2 and other.last_epoch == 1


def test_state_of_functions():
    class Factor:
        def __init__(self, value):
            self.value = value

        def __call__(self, epoch):
            return self.value

    schedule = schedules.LambdaLR(optimizer(), Factor(3))
    assert schedule.state_dict()["lr_lambdas"] == [{"value": 3}]
    other = schedules.LambdaLR(optimizer(), [Factor(1)])
    other.load_state_dict(schedule.state_dict())
    assert other.lr_lambdas[0].value == 3
    assert schedules.LambdaLR(optimizer(), lambda e: 1).state_dict()["lr_lambdas"] == [None]


def test_order_of_steps():
    schedule = schedules.StepLR(optimizer(), 1)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        schedule.step()
    sgd = optimizer()
    schedule = schedules.StepLR(sgd, 1)
    sgd.step = lambda: None
    with pytest.warns(UserWarning, match=r"Seems like `optimizer.step\(\)` has been overridden after learning rate"):
        schedule.step()
    sgd = optimizer()
    schedule = schedules.StepLR(sgd, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sgd.step()
        schedule.step()
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        schedule.get_lr()


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda: schedules.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (lambda: schedules.StepLR(optimizer(), 1, last_epoch=3), KeyError, "param 'initial_lr' is not specified in param_groups[0] when resuming scheduler"),
        (lambda: schedules.LambdaLR(optimizer()), TypeError, "LambdaLR.__init__() missing 1 required positional"),
        (lambda: schedules.LambdaLR(optimizer(), [1, 2]), ValueError, "Expected 1 lr_lambdas, but got 2"),
        (lambda: schedules.LinearLR(optimizer(), 0), ValueError, "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."),
        (lambda: schedules.LinearLR(optimizer(), 0.5, 2), ValueError, "Ending multiplicative factor expected to be between 0 and 1."),
        (lambda: schedules.ReduceLROnPlateau(optimizer(), factor=1), ValueError, "Factor should be < 1.0."),
        (lambda: schedules.ReduceLROnPlateau(optimizer(), mode="x"), ValueError, "mode x is unknown!"),
        (lambda: schedules.ReduceLROnPlateau(optimizer(), threshold_mode="x"), ValueError, "threshold mode x is unknown!"),
        (lambda: schedules.ReduceLROnPlateau(optimizer(), min_lr=[1, 2]), ValueError, "expected 1 min_lrs, got 2"),
    ],
)  # fmt: skip
def test_misuse(act, error, message):
    with pytest.raises(error) as caught:
        act()
    assert caught.value.args[0].startswith(message)


def test_groups_added_after_the_plateau_began():
    sgd = optimizer()
    fixed = schedules.ReduceLROnPlateau(sgd, patience=0, min_lr=[0.0])
    flexible = schedules.ReduceLROnPlateau(sgd, patience=0)
    sgd.add_param_group({"params": nn.Parameter(torch.ones(1)), "lr": 1.0})
    for schedule in (fixed, flexible):
        schedule.step(1)
    with pytest.raises(RuntimeError, match=r"The number of param groups in the `optimizer` \(2\) differs from when"):
        fixed.step(2)
    flexible.step(2)
    assert [group["lr"] for group in sgd.param_groups] == pytest.approx([0.01, 0.1])


def test_older_schedules_derive_from_the_older_name():
    class Halved(schedules._LRScheduler):
        def __init__(self, optimizer, last_epoch=-1):
            super().__init__(optimizer, last_epoch)

        def get_lr(self):
            return [base / 2**self.last_epoch for base in self.base_lrs]

    schedule = Halved(optimizer(1.0))
    assert isinstance(schedule, schedules.LRScheduler)
    assert rates(Halved, 2, 1.0) == [1.0, 0.5, 0.25]


def test_optimizers_that_wrap_another_one():
    """Libraries derive them from `Optimizer` without calling its constructor."""

    class Wrapper(torch.optim.Optimizer):
        def __init__(self, optimizer):
            self.optimizer = optimizer

        param_groups = property(lambda self: self.optimizer.param_groups)
        state = property(lambda self: self.optimizer.state)

        def step(self, closure=None):
            return self.optimizer.step(closure)

    for in_order in (True, False):
        optimizer = Wrapper(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0))
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if in_order:
                optimizer.step()
            schedule.step()
        assert ["before `optimizer.step()`" in str(one.message) for one in caught] == ([] if in_order else [True])
        assert schedule.get_last_lr() == [0.1]
