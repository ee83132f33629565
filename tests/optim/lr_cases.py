"""Schedules by name, for either library, and the rates and momenta that they set."""


def schedules(torch):
    return torch.optim.lr_scheduler


def one_after_the_other(torch, o):
    s = schedules(torch)
    parts = [s.LinearLR(o, 0.1, 1.0, 2), s.CosineAnnealingLR(o, 5), s.StepLR(o, 2)]
    return s.SequentialLR(o, parts, [2, 5])


def all_at_once(torch, o):
    s = schedules(torch)
    return s.ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)])


MAKE = {
    "multiplicative": lambda torch, o: schedules(torch).MultiplicativeLR(o, lambda e: 0.9 + 0.01 * e),
    "constant": lambda torch, o: schedules(torch).ConstantLR(o, 0.5, 3),
    "polynomial": lambda torch, o: schedules(torch).PolynomialLR(o, 4, 2.0),
    "cyclic": lambda torch, o: schedules(torch).CyclicLR(o, 0.1, 1.0, 3),
    "cyclic halving": lambda torch, o: schedules(torch).CyclicLR(o, 0.1, 1.0, 2, 1, mode="triangular2"),
    "cyclic falling": lambda torch, o: schedules(torch).CyclicLR(o, 0.1, 1.0, 3, mode="exp_range", gamma=0.9),
    "restarts": lambda torch, o: schedules(torch).CosineAnnealingWarmRestarts(o, 3),
    "longer restarts": lambda torch, o: schedules(torch).CosineAnnealingWarmRestarts(o, 2, 2, 0.01),
    "one cycle": lambda torch, o: schedules(torch).OneCycleLR(o, 1.0, 9),
    "three phases": lambda torch, o: schedules(torch).OneCycleLR(
        o, 1.0, epochs=5, steps_per_epoch=2, three_phase=True, anneal_strategy="linear"
    ),
    "one after the other": one_after_the_other,
    "all at once": all_at_once,
    "averages": lambda torch, o: torch.optim.swa_utils.SWALR(o, 0.05, 5),
    "averages in lines": lambda torch, o: torch.optim.swa_utils.SWALR(o, 0.05, 3, "linear"),
}


def begin(torch):
    return torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.5, momentum=0.9)


def rates(torch, name, change=None):
    """Rate and momentum in nine epochs. `change` may replace optimizer and schedule in the middle."""
    optimizer = begin(torch)
    schedule = MAKE[name](torch, optimizer)
    found = []
    for epoch in range(9):
        group = optimizer.param_groups[0]
        found.append([float(schedule.get_last_lr()[0]), float(group["momentum"])])
        if epoch == 4 and change is not None:
            optimizer, schedule = change(optimizer, schedule)
        optimizer.step()
        schedule.step()
    return found
