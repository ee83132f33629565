"""Modules that take their sizes from the first input."""

import copy
import pickle
import threading
from typing import NamedTuple

import pytest

import rushlight as torch
from rushlight import nn

CONVOLUTIONS = [(f"Conv{kind}{space}d", (4, 3), space) for kind in ("", "Transpose") for space in (1, 2, 3)]
NORMS = [(f"{kind}Norm{space}d", (), space) for kind in ("Batch", "Instance") for space in (1, 2, 3)]
LAYERS = [("Linear", (4,), 0), *CONVOLUTIONS, *NORMS]


def lazy(name, args):
    return getattr(nn, "Lazy" + name)(*args)


def sample(space):
    return torch.arange(2.0 * 6 * 5**space).reshape(2, 6, *(5,) * space).cos()


@pytest.mark.parametrize(("name", "args", "space"), LAYERS, ids=[name for name, _, _ in LAYERS])
def test_lazy_layers_become_the_others(name, args, space):
    layer = lazy(name, args)
    assert layer.has_uninitialized_params()
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
    torch.manual_seed(3)
    result = layer(sample(space))
    options = {"affine": True, "track_running_stats": True} if "Norm" in name else {}
    torch.manual_seed(3)
    eager = getattr(nn, name)(6, *args, **options)
    assert type(layer) is type(eager) and repr(layer) == repr(eager)
    assert torch.equal(result, eager(sample(space)))
    for other in copies:
        torch.manual_seed(3)
        assert torch.equal(other(sample(space)), result) and repr(other) == repr(eager)
    # A state with sizes sets them.
    loaded = lazy(name, args)
    loaded.load_state_dict(eager.state_dict())
    assert torch.equal(loaded.eval()(sample(space)), eager.eval()(sample(space))) and repr(loaded) == repr(eager)
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        eager.load_state_dict(lazy(name, args).state_dict())
    lazy(name, args).load_state_dict(lazy(name, args).state_dict())


def test_parametrizations_of_what_has_no_sizes():
    for parametrize, error, sentence in (
        (nn.utils.parametrizations.spectral_norm, RuntimeError, "Can't access the shape of an uninitialized parameter"),
        (nn.utils.parametrizations.orthogonal, ValueError, "Expected a matrix or batch of matrices. Got a tensor of 1"),
    ):
        with pytest.raises(error, match=sentence):
            parametrize(nn.LazyLinear(2))


def test_uninitialized_tensors_refuse_what_needs_sizes():
    weight = nn.UninitializedParameter(dtype=torch.float64)
    assert isinstance(weight, nn.Parameter) and repr(weight) == "<UninitializedParameter>"
    assert weight.dtype == torch.float64 and weight.requires_grad
    for use in (lambda: weight + 1, lambda: 2 * weight, weight.sum, lambda: weight[0], lambda: len(weight)):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
            use()
    for use in (
        lambda: torch.empty_like(weight),
        lambda: torch.add(weight, 1),
        weight.detach,
        weight.numel,
        weight.type,
        weight.requires_grad_,
        lambda: nn.LazyLinear(1).requires_grad_(),
        lambda: torch.optim.LBFGS([nn.UninitializedParameter()]).step(lambda: torch.ones(1, requires_grad=True)),
    ):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
            use()
    assert weight.size() == (0,) and weight.data.dtype == torch.float64 and weight.is_floating_point()
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized parameter"):
        weight.share_memory_()
    weight.materialize((2, 3))
    assert type(weight) is nn.Parameter and weight.shape == (2, 3) and weight.dtype == torch.float64
    buffer = nn.UninitializedBuffer()
    buffer.materialize(4)
    assert type(buffer) is torch.Tensor and buffer.shape == (4,)


def test_lazy_modules_can_be_converted_before_the_first_call():
    layer = nn.LazyLinear(3).double()
    assert layer(torch.zeros(2, 5, dtype=torch.float64)).dtype == torch.float64
    with pytest.raises(RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to LazyConv2d"):
        nn.LazyConv2d(3, 1)(torch.zeros(2, 2))


def test_users_lazy_modules():
    class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.UninitializedParameter()

        def initialize_parameters(self, x, *, times=1):
            with torch.no_grad():
                self.factor.materialize(x.shape[-1:])
                self.factor.fill_(times)

        def forward(self, x, *, times=1):
            return x * self.factor

    layer = Scale()
    assert layer(torch.ones(2), times=3).tolist() == [3, 3]

    class Forgetful(Scale):
        def initialize_parameters(self, x):
            pass

    with pytest.raises(RuntimeError, match="module Forgetful has not been fully initialized"):
        Forgetful()(torch.ones(2))


def test_adaptive_softmax_is_a_distribution_over_all_classes():
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0, head_bias=True).double()
    x = torch.randn(20, 8, dtype=torch.float64, requires_grad=True)
    every = layer.log_prob(x)
    assert torch.allclose(every.exp().sum(1), torch.ones(20, dtype=torch.float64))
    targets = torch.arange(20)
    output, loss = layer(x, targets)
    assert torch.allclose(output, every[targets, targets]) and torch.allclose(loss, -output.mean())
    assert torch.equal(layer.predict(x), every.argmax(1))
    assert torch.autograd.gradcheck(lambda x: layer(x, targets).loss, (x,))
    assert torch.allclose(layer(x[0], targets[0]).output, output[0])
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 19\], but values in range \[0, 20\]"):
        layer(x[:2], torch.tensor([0, 20]))
    with pytest.raises(RuntimeError, match="Input and target should have the same size in the batch dimension"):
        layer(x, targets[:3])
    for cutoffs in ([], [5, 5], [0, 3], [5, 20]):
        with pytest.raises(ValueError, match="cutoffs should be a sequence of"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)


def test_batch_normalisation_over_processes_is_that_of_one():
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm1d(2, affine=False)), nn.ReLU())
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert type(converted[0]) is type(converted[1][0]) is nn.SyncBatchNorm and type(converted[2]) is nn.ReLU
    x = torch.randn(4, 3, 2)
    fresh = nn.SyncBatchNorm(3)
    assert torch.equal(fresh(x), nn.BatchNorm1d(3)(x))
    with pytest.raises(ValueError, match=r"expected at least 2D input \(got 1D input\)"):
        fresh(torch.zeros(3))


def test_data_parallel_without_cards_runs_the_module():
    model = nn.Linear(2, 3)
    parallel = nn.DataParallel(model)
    x = torch.ones(4, 2)
    assert torch.equal(parallel(x), model(x)) and torch.equal(nn.parallel.data_parallel(model, x), model(x))
    assert list(parallel.state_dict()) == ["module.weight", "module.bias"]


class Pair(NamedTuple):
    first: object
    second: object


def test_parts_for_cards_without_cards():
    layer, parallel = nn.Linear(2, 2), nn.parallel
    assert parallel.scatter([1, None, {"a": 2}, ()], [0, 1]) == [[1, None, {"a": 2}, ()]] * 2
    assert parallel.scatter(Pair(1, [2]), [0, 1]) == [Pair(1, [2])] * 2
    assert parallel.gather([Pair(None, {"a": None})] * 2, "cpu") == Pair(None, {"a": None})
    assert parallel.replicate(layer, []) == []
    for call, error, message in (
        (lambda: parallel.scatter(torch.ones(4), [0, 1]), RuntimeError, "Found no NVIDIA driver"),
        (lambda: parallel.scatter(torch.ones(4), []), RuntimeError, "Expected at least one device to scatter to"),
        (lambda: parallel.scatter(torch.ones(4), ["cpu"]), ValueError, "Expected a non cpu device, but got: cpu"),
        (lambda: parallel.replicate(layer, ["cpu"]), ValueError, "Expected a non cpu device, but got: cpu"),
        (lambda: parallel.replicate(layer, [0]), AssertionError, "Broadcast function not implemented for CPU tensors"),
        (lambda: parallel.gather([torch.ones(2)] * 2, 0), AssertionError, "Gather function not implemented for CPU"),
        (lambda: parallel.gather([{"a": None}, {}], 0), ValueError, "All dicts must have the same number of keys"),
        (lambda: parallel.parallel_apply([layer], [1], devices=[0, 1]), AssertionError, "1 is not .* of devices 2"),
        (lambda: parallel.parallel_apply([layer] * 2, [1]), AssertionError, "2 is not equal to the number of inputs 1"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_modules_run_at_the_same_time_in_the_modes_of_the_caller():
    both = threading.Barrier(2, timeout=20)

    def run(x, y=0.0):
        both.wait()
        return x * 2 + y

    x = torch.ones(2, requires_grad=True)
    first, second = nn.parallel.parallel_apply([run, run], [x, (x, 1.0)], [{}, {}])
    (first + second).sum().backward()
    assert second.tolist() == [3, 3] and x.grad.tolist() == [4, 4]
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        (result,) = nn.parallel.parallel_apply([nn.Linear(2, 2)], [x])
    assert not result.requires_grad and result.dtype == torch.bfloat16
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        nn.parallel.parallel_apply([nn.Linear(3, 2)], [torch.ones(1, 2)])


@pytest.mark.parametrize("make", [nn.LazyBatchNorm1d, nn.LazyInstanceNorm1d])
def test_buffers_wait_for_their_sizes_in_another_dtype(make):
    norm = make(track_running_stats=True).to(torch.float64)
    assert nn.parameter.is_lazy(norm.running_mean) and norm.running_mean.dtype == torch.float64
    norm = norm.float().double()
    assert norm(torch.rand(2, 3, 4, dtype=torch.float64)).dtype == torch.float64
    assert norm.running_var.shape == (3,) and norm.running_var.dtype == torch.float64
