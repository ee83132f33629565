"""Scaling of losses: the factor falls after infinities and grows after good steps."""

import math
import pickle

import pytest

import rushlight as torch


def setup(**options):
    weight = torch.ones(2, requires_grad=True)
    return weight, torch.optim.SGD([weight], lr=0.5), torch.amp.GradScaler("cpu", **options)


def test_steps_are_those_without_it():
    weight, optimizer, scaler = setup(init_scale=8.0)
    loss = (weight * 3).sum()
    assert scaler.scale(loss).item() == 48 and [x.item() for x in scaler.scale([loss, loss])] == [48, 48]
    scaler.scale(loss).backward()
    assert weight.grad.tolist() == [24, 24]
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last update"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled at the beginning"):
        pickle.dumps(scaler)
    scaler.update()
    assert weight.tolist() == [-0.5, -0.5] and scaler.get_scale() == 8


def test_the_factor_falls_and_grows():
    weight, optimizer, scaler = setup(init_scale=8.0, growth_interval=2)
    for gradient, factor in ((math.inf, 4.0), (1.0, 4.0), (1.0, 8.0), (math.nan, 4.0), (1.0, 4.0)):
        before = weight.tolist()
        scaler.scale(weight)
        weight.grad = torch.tensor([gradient, 1.0])
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == factor and (weight.tolist() == before) == (not math.isfinite(gradient))
    state = scaler.state_dict()
    assert state == {
        "scale": 4.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2,
        "_growth_tracker": 1,
    }
    _, _, other = setup()
    other.load_state_dict(state)
    assert other.state_dict() == state == pickle.loads(pickle.dumps(other)).state_dict()
    other.scale(weight)
    other.update(16.0)
    assert other.get_scale() == 16


def test_factors_may_be_set():
    weight, optimizer, scaler = setup(init_scale=8.0)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(1)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (3.0, 0.25, 1)
    for gradient, factor in ((1.0, 24.0), (math.inf, 6.0)):
        scaler.scale(weight)
        weight.grad = torch.tensor([gradient, 1.0])
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == factor


def test_messages():
    weight, optimizer, scaler = setup()
    for name, slip in (("step", scaler.step), ("unscale_", scaler.unscale_), ("update", lambda _: scaler.update(2.0))):
        with pytest.raises(AssertionError, match=f"^Attempted {name} but _scale is None.  This may indicate"):
            slip(optimizer)
    scaler.scale(weight)
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: None)
    with pytest.raises(AssertionError, match="The growth factor must be > 1.0"):
        setup(growth_factor=1.0)
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        scaler.load_state_dict({})
    with pytest.warns(UserWarning, match="CUDA is not available.  Disabling."):
        disabled = torch.amp.GradScaler()
    assert not disabled.is_enabled() and disabled.get_scale() == 1.0 and disabled.state_dict() == {}


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_older_names(kind):
    module = getattr(torch, kind).amp
    with pytest.warns(FutureWarning, match=rf"`torch.{kind}.amp.GradScaler\(args...\)` is deprecated"):
        scaler = module.GradScaler(8.0, enabled=kind == "cpu")
    assert isinstance(scaler, torch.amp.GradScaler) and scaler.get_scale() == (8.0 if kind == "cpu" else 1.0)
    with pytest.warns(FutureWarning, match=rf"`torch.{kind}.amp.autocast\(args...\)` is deprecated"):
        mode = module.autocast(kind == "cpu", torch.float16)
    assert isinstance(mode, torch.autocast)
    with mode:
        assert (torch.ones(1, 1) @ torch.ones(1, 1)).dtype == (torch.float16 if kind == "cpu" else torch.float32)


def test_an_optimizer_may_have_no_gradients():
    weight, optimizer, scaler = setup()
    scaler.scale(weight)
    scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    # Another one's gradients choose the factor.
    other = torch.ones(1, requires_grad=True)
    other.grad = torch.tensor([math.inf])
    before = scaler.get_scale()
    scaler.step(torch.optim.SGD([other], lr=1.0))
    scaler.update()
    assert scaler.get_scale() == before / 2 and other.item() == 1.0
