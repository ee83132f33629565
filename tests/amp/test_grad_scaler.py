"""Gradient scaling: the scale decreases after infinities and increases after good steps."""

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
def test_deprecated_names(kind):
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
    # The gradients of another optimizer determine the scale.
    other = torch.ones(1, requires_grad=True)
    other.grad = torch.tensor([math.inf])
    before = scaler.get_scale()
    scaler.step(torch.optim.SGD([other], lr=1.0))
    scaler.update()
    assert scaler.get_scale() == before / 2 and other.item() == 1.0


class Unscaling(torch.optim.SGD):
    """An optimizer that divides its gradients itself."""

    _step_supports_amp_scaling = True

    def step(self, closure=None):
        self.seen = self.grad_scale, self.found_inf.item()


class Asking(torch.optim.SGD):
    """The same in the older form."""

    _step_supports_amp_scaling = True

    def step(self, closure=None, grad_scaler=None):
        (found,) = grad_scaler._check_inf_per_device(self).values()
        self.seen = grad_scaler._get_scale_async(), found.item()


@pytest.mark.parametrize("factor, infinite", [(1.0, 0.0), (float("inf"), 1.0)])
def test_an_optimizer_may_divide_its_gradients_itself(factor, infinite):
    for kind in (Unscaling, Asking):
        weight = torch.ones(1, requires_grad=True)
        optimizer, scaler = kind([weight], lr=0.5), torch.amp.GradScaler("cpu", init_scale=4.0)
        scaler.scale((weight * factor).sum()).backward()
        if kind is Asking:
            with pytest.warns(FutureWarning, match="GradScaler is going to stop passing itself"):
                scaler.step(optimizer)
        else:
            scaler.step(optimizer)
        scale, found = optimizer.seen
        assert scale.item() == 4 and found == infinite
        assert weight.grad.item() == 4 * factor and not hasattr(optimizer, "grad_scale")
        scaler.update()
        assert scaler.get_scale() == (2.0 if infinite else 4.0)


def test_gradients_that_were_divided_before_need_no_scale():
    weight = torch.ones(1, requires_grad=True)
    optimizer, scaler = Unscaling([weight], lr=0.5), torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert optimizer.seen == (None, 0.0) and weight.grad.item() == 1
