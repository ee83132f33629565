"""Gradient clipping, and parameters as a vector."""

import math

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import utils


def parameters():
    first, second = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2))
    first.grad, second.grad = torch.tensor([[1.0, 2.0], [4.0, 2.0]]), torch.tensor([0.0, -12.0])
    return [first, nn.Parameter(torch.zeros(3)), second]


@pytest.mark.parametrize(
    ("order", "norm"), [(2.0, 13.0), (1, 21.0), (math.inf, 12.0), (-math.inf, 1.0), (0, 2.0), (3, 12.18464)]
)
def test_norms(order, norm):
    # The norm of norms: for order 0, the number of nonzero tensors.
    grads = [torch.tensor([1.0, 2.0, 4.0, 2.0]), torch.tensor([1e-9, -12.0])]
    if order == -math.inf:
        grads[1] = torch.tensor([5.0, -12.0])
    assert utils.get_total_norm(grads, order).item() == pytest.approx(norm, rel=1e-5)


def test_clipping_by_norm():
    given = parameters()
    assert utils.clip_grad_norm_(given, 6.5).item() == 13
    assert given[0].grad.flatten().tolist() == pytest.approx([0.5, 1.0, 2.0, 1.0])
    assert given[2].grad.tolist() == pytest.approx([0, -6])
    utils.clip_grad_norm_((parameter for parameter in given), 100.0)
    assert given[2].grad.tolist() == pytest.approx([0, -6])
    assert utils.clip_grad_norm_([nn.Parameter(torch.zeros(1))], 1.0).item() == 0
    given[0].grad[0, 0] = math.nan
    with pytest.raises(
        RuntimeError, match=r"The total norm of order 2.0 for gradients from `parameters` is non-finite"
    ):
        utils.clip_grad_norm_(given, 1.0, error_if_nonfinite=True)
    with pytest.warns(UserWarning, match=r"`parameters` is an empty generator, no gradient clipping will occur."):
        utils.clip_grad_norm_((parameter for parameter in ()), 1.0)
    with pytest.warns(FutureWarning, match="is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`"):
        utils.clip_grad_norm(parameters(), 1.0)


def test_clipping_by_value():
    given = parameters()
    utils.clip_grad_value_(given, 2)
    assert given[0].grad.tolist() == [[1, 2], [2, 2]] and given[2].grad.tolist() == [0, -2]


def test_parameters_as_a_vector():
    given = [nn.Parameter(torch.zeros(2, 1)), nn.Parameter(torch.ones(1))]
    vector = utils.parameters_to_vector(given)
    assert vector.tolist() == [0, 0, 1] and vector.requires_grad
    utils.vector_to_parameters(torch.tensor([5.0, 6.0, 7.0]), given)
    assert given[0].tolist() == [[5], [6]] and given[1].tolist() == [7]
    with pytest.raises(TypeError, match=r"expected torch\.Tensor, but got: int"):
        utils.vector_to_parameters(3, given)


def test_weights_of_convolutions_in_another_order():
    convert = nn.utils.convert_conv2d_weight_memory_format
    layers = nn.Sequential(nn.Conv2d(2, 3, 2), nn.ConvTranspose2d(2, 3, 2), nn.Conv1d(2, 3, 2), nn.Conv3d(2, 3, 2))
    before = {name: (one, one.clone()) for name, one in layers.named_parameters()}
    assert convert(layers, torch.channels_last) is layers
    assert [layer.weight.stride() for layer in layers] == [(8, 1, 4, 2), (12, 1, 6, 3), (4, 2, 1), (16, 8, 4, 2, 1)]
    assert all(one is before[name][0] and torch.equal(one, before[name][1]) for name, one in layers.named_parameters())
    layer = nn.utils.convert_conv3d_weight_memory_format(nn.ConvTranspose3d(2, 3, 2), torch.channels_last_3d)
    assert layer.weight.stride() == (24, 1, 12, 6, 3)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "groups": 2}])
def test_gradients_of_convolutions_by_themselves(rank, options):
    convolution = getattr(nn.functional, f"conv{rank}d")
    of_input, of_weight = (getattr(nn.grad, f"conv{rank}d_{name}") for name in ("input", "weight"))
    groups = options.get("groups", 1)
    x = torch.rand(2, 4, *[5] * rank, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(4, 4 // groups, *[2] * rank, dtype=torch.float64, requires_grad=True)
    result = convolution(x, weight, None, **options)
    grad = torch.rand_like(result)
    wanted = torch.autograd.grad(result, (x, weight), grad)
    found = of_input(x.shape, weight, grad, **options), of_weight(x, weight.shape, grad, **options)
    assert all(map(torch.allclose, found, wanted))
    assert all(one.requires_grad for one in found)
    assert torch.autograd.grad(found[0].sum(), weight)[0].shape == weight.shape
    with torch.no_grad():
        assert not of_input(x.shape, weight, grad, **options).requires_grad
    assert not of_weight(x.detach(), weight.shape, grad, **options).requires_grad


def test_spectral_norm_reads_states_of_its_first_version():
    """They have the normalised weight instead of the second vector, and no metadata."""
    torch.manual_seed(0)
    module = nn.utils.spectral_norm(nn.Linear(3, 2))
    for _ in range(3):
        module(torch.ones(1, 3))
    module.eval()
    expected = module(torch.ones(1, 3))
    state = dict(module.state_dict())
    del state["weight_v"]
    other = nn.utils.spectral_norm(nn.Linear(3, 2)).eval()
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "weight"'):
        other.load_state_dict(state)
    state["weight"] = module.weight.detach()
    result = other.load_state_dict(state)
    assert result.missing_keys == result.unexpected_keys == []
    assert torch.allclose(other(torch.ones(1, 3)), expected, atol=1e-6)
    nn.utils.remove_spectral_norm(other)
    assert not other._load_state_dict_pre_hooks


@pytest.mark.parametrize("name", ["spectral_norm", "weight_norm"])
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_hooks_on_weights_need_sizes(name):
    kind = "SpectralNorm" if name == "spectral_norm" else "WeightNorm"
    with pytest.raises(ValueError, match=f"The module passed to `{kind}` can't have uninitialized parameters"):
        getattr(nn.utils, name)(nn.LazyLinear(2))


def test_unpadded_sequences_are_copies():
    padded = torch.ones(3, 2)
    first, _ = torch.nn.utils.rnn.unpad_sequence(padded, torch.tensor([1, 3]))
    first.fill_(5)
    assert padded.sum() == 6


def test_refusals():
    with pytest.raises(TypeError, match="^expected Tensor as element 0 in argument 0, but got int"):
        torch.nn.utils.rnn.pad_sequence([1, 2])
    with pytest.raises(IndexError, match="^Dimension out of range"):
        torch.nn.utils.weight_norm(torch.nn.Linear(2, 3), dim=7)
    with pytest.raises(AttributeError, match="named_modules"):
        torch.nn.utils.prune.is_pruned(5)
