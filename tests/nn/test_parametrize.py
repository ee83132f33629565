"""Computed weights: parametrizations, the older hooks, fused layers, modules without initialisation."""

import copy
import pickle

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).T

    def right_inverse(self, a):
        return a.triu()


class Exponential(nn.Module):
    def forward(self, x):
        return x.exp()


def made(forward):
    """A module with a given forward function."""
    return type("Made", (nn.Module,), {"forward": staticmethod(forward)})()


def test_parametrized_weight():
    layer = nn.Linear(3, 3)
    weight = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert layer.parametrizations.weight.original is weight, "optimizers hold the parameter itself"
    assert type(layer).__name__ == "ParametrizedLinear"
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert torch.equal(layer.weight, layer.weight.T)
    layer(torch.ones(1, 3)).sum().backward()
    assert weight.grad[2, 0].item() == 0 and weight.grad[0, 2].item() == 2
    layer.weight = torch.arange(9.0).reshape(3, 3)
    assert layer.weight.tolist() == [[0, 1, 2], [1, 4, 5], [2, 5, 8]]


def test_several_follow_each_other():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    before = layer.weight
    parametrize.register_parametrization(layer, "weight", Exponential())
    assert torch.equal(layer.weight, before.exp())
    with pytest.raises(RuntimeError, match="parametrization Exponential does not implement right_inverse"):
        layer.weight = torch.ones(2, 2)


def test_values_are_kept_inside_of_cached():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Exponential())
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight


def test_removing():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Exponential())
    value, original = layer.weight.tolist(), layer.parametrizations.weight.original
    other = copy.deepcopy(layer)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and layer.weight is original and layer.weight.tolist() == value
    parametrize.remove_parametrizations(other, "weight", leave_parametrized=False)
    assert torch.allclose(other.weight.exp(), layer.weight)
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda x: 3, "A parametrization must return a tensor. Got int"),
        (lambda x: x[:1], "may not change the shape of the tensor"),
        (lambda x: x.double(), "may not change the dtype of the tensor"),
    ],
)
def test_what_a_parametrization_must_keep(forward, message):
    layer = nn.Linear(3, 3)
    with pytest.raises(ValueError, match=message):
        parametrize.register_parametrization(layer, "weight", made(forward))
    parametrize.register_parametrization(layer, "weight", Symmetric())
    with pytest.raises(ValueError, match=message):
        parametrize.register_parametrization(layer, "weight", made(forward))


def test_parametrized_modules_are_saved_by_their_state():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Exponential())
    with pytest.raises(
        RuntimeError, match="Serialization of parametrized modules is only supported through state_dict"
    ):
        pickle.dumps(layer)
    with pytest.raises(
        ValueError, match="does not have a parameter, a buffer, or a parametrized element with name 'x'"
    ):
        parametrize.register_parametrization(layer, "x", Exponential())


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
def test_orthogonal(shape, orthogonal_map):
    layer = nn.Linear(*shape).double()
    parametrizations.orthogonal(layer, orthogonal_map=orthogonal_map)

    def is_orthogonal():
        weight = layer.weight if shape[0] < shape[1] else layer.weight.T
        return torch.allclose(weight.T @ weight, torch.eye(weight.size(1), dtype=weight.dtype), atol=1e-10)

    assert is_orthogonal()
    layer(torch.ones(2, shape[0], dtype=torch.float64)).pow(3).sum().backward()
    with torch.no_grad():
        layer.parametrizations.weight.original.add_(layer.parametrizations.weight.original.grad, alpha=-0.1)
    assert is_orthogonal()
    wanted = nn.init.orthogonal_(torch.empty(shape[1], shape[0], dtype=torch.float64))
    layer.weight = wanted
    assert torch.allclose(layer.weight, wanted, atol=1e-10)


def test_orthogonal_initial_weights():
    for shape in ((3, 5), (5, 3), (2, 3, 2)):
        flat = nn.init.orthogonal_(torch.empty(shape), gain=2.0).flatten(1)
        flat = flat if flat.size(0) <= flat.size(1) else flat.T
        assert torch.allclose(flat @ flat.T, 4 * torch.eye(flat.size(0)), atol=1e-5)
    with pytest.raises(ValueError, match="Only tensors with 2 or more dimensions are supported"):
        nn.init.orthogonal_(torch.empty(3))


def test_weight_norm_splits_length_and_direction():
    plain = nn.Linear(2, 3)
    hooked = nn.utils.weight_norm(copy.deepcopy(plain))
    computed = parametrizations.weight_norm(copy.deepcopy(plain))
    assert list(hooked.state_dict()) == ["bias", "weight_g", "weight_v"]
    assert torch.allclose(hooked.weight_g.flatten(), torch.linalg.vector_norm(plain.weight, dim=1))
    x = torch.ones(4, 2)
    for layer in (hooked, computed):
        assert torch.allclose(layer(x), plain(x))
    with torch.no_grad():
        hooked.weight_g.mul_(2)
    assert str(computed.load_state_dict(hooked.state_dict())) == "<All keys matched successfully>"
    assert torch.allclose(computed.weight, 2 * plain.weight) and torch.allclose(hooked(x), computed(x))
    nn.utils.remove_weight_norm(hooked)
    assert torch.allclose(hooked.weight, computed.weight) and not hooked._forward_pre_hooks
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in"):
        nn.utils.remove_weight_norm(hooked)


@pytest.mark.parametrize("normalise", [nn.utils.spectral_norm, parametrizations.spectral_norm])
def test_spectral_norm_bounds_the_largest_singular_value(normalise):
    for layer, x in ((nn.Linear(4, 3), torch.ones(1, 4)), (nn.ConvTranspose2d(2, 3, 2), torch.ones(1, 2, 2, 2))):
        normalise(layer)
        for _ in range(30):
            layer(x)
        dim = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
        matrix = layer.weight.movedim(dim, 0).flatten(1)
        assert torch.linalg.matrix_norm(matrix, 2).item() == pytest.approx(1.0, abs=1e-3)
        layer(x).sum().backward()
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        normalise(nn.Linear(2, 2), n_power_iterations=0)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("layer", "norm", "shape", "options"),
    [
        (nn.Conv2d, nn.BatchNorm2d, (2, 3, 4, 4), {}),
        (nn.ConvTranspose2d, nn.BatchNorm2d, (2, 3, 4, 4), {"transpose": True}),
        (nn.Linear, nn.BatchNorm1d, (2, 3), None),
    ],
)
def test_fusing(layer, norm, shape, options, bias):
    arguments = (3, 5) if options is None else (3, 5, 2)
    first, second = layer(*arguments, bias=bias).eval(), norm(5)
    second.running_mean.normal_()
    second.running_var.uniform_(0.5, 2)
    nn.init.normal_(second.weight)
    x = torch.randn(shape)
    fuse = nn.utils.fuse_linear_bn_eval if options is None else nn.utils.fuse_conv_bn_eval
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        fuse(first, second, **(options or {}))
    second.eval()
    assert torch.allclose(fuse(first, second, **(options or {}))(x), second(first(x)), atol=1e-5)


def test_skipping_initial_weights():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    layer = nn.utils.skip_init(nn.Linear, 2, 3)
    assert layer.weight.shape == (3, 2) and torch.equal(torch.rand(1), expected)
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg to skip initialization"):
        nn.utils.skip_init(nn.ReLU)


def test_parametrizations_are_transferred():
    transfer = parametrize.transfer_parametrizations_and_params
    first, second, third = nn.Linear(2, 3), nn.Linear(2, 3), nn.ReLU()
    assert transfer(first, second) is second and not parametrize.is_parametrized(second)
    nn.utils.parametrizations.weight_norm(first)
    for other in (second, third):
        assert transfer(first, other) is other
        own = other.parametrizations.weight
        assert torch.equal(other.weight, first.weight) and own[0] is first.parametrizations.weight[0]
        assert own.original0 is first.parametrizations.weight.original0
    assert not torch.equal(second.bias, first.bias)
    with pytest.raises(KeyError):
        transfer(first, nn.Linear(2, 3), "bias")
