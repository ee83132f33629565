"""LAY: every layer of the requirements, and special requirements of some."""

import json
import math

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.autograd import gradcheck, gradgradcheck

from . import layer_cases

RECORDED = json.loads(layer_cases.RECORDED.read_text())

# torch computes this gradient with a constant of one sixth that is rounded to float32.
COARSE = {"lay_6-Hardsigmoid()": 1e-6}


@pytest.mark.parametrize("case", layer_cases.LAYERS, ids=layer_cases.identity)
def test_layer(case):
    """Results and gradients in float64 are torch's, recorded by `layer_cases`."""
    name = layer_cases.identity(case)
    assert layer_cases.layer(torch, case) == pytest.approx(RECORDED[name], rel=COARSE.get(name, 1e-11))


@pytest.mark.parametrize(
    "name", ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]
)
def test_lay_1_in_single_precision(name):
    """The same convolution in float32 is close to that in float64, in its results and gradients."""
    shape = layer_cases.SPACES[int(name[-2])]
    single = getattr(nn, name)(4, 6, 3, stride=2, padding=1)
    double = getattr(nn, name)(4, 6, 3, stride=2, padding=1).double()
    double.load_state_dict(single.state_dict())
    x = layer_cases.wave(torch, shape, 0)
    found, wanted = single(x.float()), double(x)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    found.sum().backward()
    wanted.sum().backward()
    for a, b in zip(single.parameters(), double.parameters()):
        torch.testing.assert_close(a.grad.double(), b.grad, rtol=1e-5, atol=1e-4)


def test_lay_2_what_the_arguments_mean():
    """The input channels, the output channels and the kernel size; applied twice to a 28x28 image."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 20, 5)
            self.conv2 = nn.Conv2d(20, 20, 5)

        def forward(self, x):
            x = F.relu(self.conv1(x))
            return F.relu(self.conv2(x))

    net = Model()
    assert (net.conv1.in_channels, net.conv1.out_channels, net.conv1.kernel_size) == (1, 20, (5, 5))
    assert net.conv1.weight.shape == (20, 1, 5, 5)
    y = net(torch.randn(3, 1, 28, 28))
    assert y.shape == (3, 20, 20, 20) and y.min() == 0


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_lay_3_unpooling(dims):
    """Max unpooling puts the maxima back to their indices, with zeros elsewhere."""
    x = layer_cases.wave(torch, (2, 3) + (4,) * dims, 0)
    values, indices = getattr(nn, f"MaxPool{dims}d")(2, return_indices=True)(x)
    back = getattr(nn, f"MaxUnpool{dims}d")(2)(values, indices)
    assert back.shape == x.shape
    kept = back != 0
    assert kept.sum() == values.numel() and torch.equal(back[kept], x[kept])
    assert back.sum().item() == pytest.approx(values.sum().item())


@pytest.mark.parametrize("dims", [2, 3])
def test_lay_3_fractional_pooling(dims):
    """Fractional max pooling: a given size or ratio, the maxima of the input, and their indices."""
    x = layer_cases.wave(torch, (1, 2) + (7,) * dims, 0)
    kind = getattr(nn, f"FractionalMaxPool{dims}d")
    torch.manual_seed(0)
    values, indices = kind(2, output_size=4, return_indices=True)(x)
    assert values.shape == (1, 2) + (4,) * dims
    assert torch.equal(x.flatten(2).gather(2, indices.flatten(2)), values.flatten(2))
    assert kind(2, output_ratio=0.5)(x).shape == (1, 2) + (3,) * dims


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.AvgPool1d(2), (1, 2, 6)),
        (nn.AvgPool2d(2), (1, 1, 4, 4)),
        (nn.AvgPool3d(2), (1, 1, 2, 4, 2)),
        (nn.MaxPool1d(2), (1, 2, 6)),
        (nn.MaxPool2d(2), (1, 1, 4, 4)),
        (nn.LPPool2d(3, 2), (1, 1, 4, 4)),
    ],
    ids=repr,
)
def test_lay_4_pooling_is_differentiable_twice(layer, shape):
    """Finite differences confirm first and second derivatives."""
    x = (layer_cases.wave(torch, shape, 1) + 2).requires_grad_()
    assert gradcheck(layer, (x,)) and gradgradcheck(layer, (x,))


def test_lay_5_negative_padding():
    """A negative width crops, and cropped elements have no gradient."""
    x = torch.arange(16.0).reshape(1, 1, 4, 4).requires_grad_()
    y = nn.ZeroPad2d(-1)(x)
    assert y.tolist() == [[[[5.0, 6.0], [9.0, 10.0]]]]
    y.sum().backward()
    inside = [[0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    assert x.grad.tolist() == [[inside]]
    assert nn.ConstantPad2d((1, -3, 0, -3), 7.0)(x.detach()).tolist() == [[[[7.0, 0.0]]]]
    row = torch.tensor([[[1.0, 2.0, 3.0]]])
    modes = {"reflect": [3, 2, 1, 2, 3, 2, 1], "replicate": [1, 1, 1, 2, 3, 3, 3], "circular": [2, 3, 1, 2, 3, 1, 2]}
    for mode, expected in modes.items():
        assert F.pad(row, (2, 2), mode).flatten().tolist() == expected


@pytest.mark.parametrize("name", ["ReLU", "ReLU6", "ELU", "SELU", "CELU", "LeakyReLU", "Hardtanh", "Threshold", "SiLU"])
def test_lay_6_in_place(name):
    """With `inplace` the argument contains the result."""
    arguments = (0.1, 2.0) if name == "Threshold" else ()
    x = torch.linspace(-2, 2, 7)
    expected = getattr(nn, name)(*arguments)(x)
    assert getattr(nn, name)(*arguments, inplace=True)(x) is x
    assert torch.equal(x, expected)


def test_lay_6_random_slopes():
    """In training the slope of each negative element is random, otherwise it is the middle of the range."""
    layer, x = nn.RReLU(0.1, 0.3), torch.full((1000,), -1.0)
    torch.manual_seed(0)
    y = layer(x)
    assert -0.3 <= y.min() and y.max() <= -0.1 and y.unique().numel() > 900
    assert layer.eval()(x).unique().tolist() == [pytest.approx(-0.2)]


def test_lay_6_adaptive_softmax():
    """The probabilities of all classes, frequent and rare, sum to one. The result is that of the target."""
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(32, 20, cutoffs=[4, 10])
    x, target = torch.randn(5, 32), torch.tensor([0, 5, 19, 3, 10])
    logarithms = layer.log_prob(x)
    torch.testing.assert_close(logarithms.exp().sum(1), torch.ones(5))
    output, loss = layer(x, target)
    torch.testing.assert_close(output, logarithms[torch.arange(5), target])
    torch.testing.assert_close(loss, -output.mean())


def test_lay_7_selu_and_alpha_dropout():
    """The constants of SELU. Alpha dropout keeps mean zero and variance one."""
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    y = nn.SELU()(torch.tensor([-1.0, 2.0], dtype=torch.float64))
    assert y.tolist() == pytest.approx([scale * alpha * math.expm1(-1), scale * 2], rel=1e-14)
    with pytest.raises(AttributeError, match="Did you mean 'SELU'"):
        nn.SeLU()
    torch.manual_seed(0)
    x = torch.randn(200_000)
    for p in (0.1, 0.5):
        y = nn.AlphaDropout(p)(x)
        assert abs(y.mean().item()) < 0.02 and abs(y.var().item() - 1) < 0.03
        assert not torch.equal(y, x)


def test_lay_8_glu():
    """The first half along a dimension, times the logistic function of the second."""
    x = layer_cases.wave(torch, (4, 6), 0)
    torch.testing.assert_close(nn.GLU()(x), x[:, :3] * x[:, 3:].sigmoid())
    torch.testing.assert_close(nn.GLU(0)(x), x[:2] * x[2:].sigmoid())
    with pytest.raises(RuntimeError, match="[Hh]alving dimension must be even"):
        nn.GLU(1)(x[:, :5])


@pytest.mark.parametrize(
    "layer",
    [
        nn.ReLU6(), nn.LeakyReLU(), nn.PReLU(), nn.Tanh(), nn.Tanhshrink(), nn.Threshold(0.1, 2.0), nn.Sigmoid(),
        nn.Hardtanh(), nn.ELU(), nn.Softsign(), nn.LogSoftmax(1), nn.Softmax2d(),
    ],
    ids=lambda layer: type(layer).__name__,
)  # fmt: skip
def test_lay_9_activations_are_differentiable_twice(layer):
    """Finite differences confirm first and second derivatives on both sides of every kink."""
    x = (layer_cases.wave(torch, (1, 3, 2, 2), 1) * 8).requires_grad_()
    layer.double()
    assert gradcheck(layer, (x,)) and gradgradcheck(layer, (x,))


def test_lay_10_running_statistics():
    """Running statistics are updated only in training, with a momentum or as the mean of all batches."""
    first, second = torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [9.0]])
    layer = nn.BatchNorm1d(1, momentum=0.5)
    assert layer(first).flatten().tolist() == pytest.approx([-1, 1], abs=1e-4)
    layer(second)
    assert layer.running_mean.item() == 4 and layer.running_var.item() == 0.5 * (0.5 * 1 + 0.5 * 2) + 0.5 * 8
    assert layer.num_batches_tracked.item() == 2
    layer.eval()
    assert layer(torch.tensor([[4.0]])).item() == 0 and layer.running_mean.item() == 4

    plain = nn.BatchNorm1d(1, momentum=None)
    plain(first), plain(second)
    assert plain.running_mean.item() == 4.5 and plain.running_var.item() == 5
    untracked = nn.BatchNorm1d(1, track_running_stats=False).eval()
    assert untracked.running_mean is None
    assert untracked(first).flatten().tolist() == pytest.approx([-1, 1], abs=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.BatchNorm2d(4)(torch.ones(2, 4)), ValueError, "expected 4D input"),
        (lambda: nn.BatchNorm1d(4)(torch.ones(2, 3)), RuntimeError, "running_mean should contain 3 elements not 4"),
        (lambda: nn.BatchNorm1d(4)(torch.ones(1, 4)), ValueError, "more than 1 value per channel"),
        (lambda: nn.GroupNorm(3, 4), ValueError, "num_channels .* divisible by num_groups"),
        (lambda: nn.LayerNorm(4)(torch.ones(2, 3)), RuntimeError, "normalized_shape"),
        (lambda: nn.InstanceNorm2d(4)(torch.ones(2, 4)), ValueError, "expected 3D or 4D input"),
    ],
    ids=["BatchNorm2d", "channels", "one_value", "GroupNorm", "LayerNorm", "InstanceNorm2d"],
)
def test_lay_10_arguments_are_checked(call, error, message):
    """The error names a wrong shape or number."""
    with pytest.raises(error, match=message):
        call()


def test_lay_11_a_tiny_eps():
    """An eps far below 1e-5 works and is not rounded up: a variance of 1e-10 is normalised to one."""
    x = torch.tensor([[-1e-5], [1e-5]], dtype=torch.float64)
    y = nn.BatchNorm1d(1, eps=1e-16).double()(x)
    assert y.flatten().tolist() == pytest.approx([-1, 1], rel=1e-5)


def test_lay_12_shapes_and_names():
    """The shapes of the example, and the names of the weights, for exchanging states."""
    lstm = nn.LSTM(input_size=1024, hidden_size=1024)
    with torch.no_grad():
        y, (h, c) = lstm(torch.randn(3, 50, 1024))
    assert y.shape == (3, 50, 1024) and h.shape == c.shape == (1, 50, 1024)
    two = nn.GRU(2, 3, num_layers=2, bidirectional=True, dropout=0.5)
    kinds = [f"{kind}_{of}_l{number}{back}" for number in (0, 1) for back in ("", "_reverse")
             for kind, of in (("weight", "ih"), ("weight", "hh"), ("bias", "ih"), ("bias", "hh"))]  # fmt: skip
    assert list(two.state_dict()) == kinds
    assert list(nn.LSTM(2, 3, proj_size=1).state_dict())[-1] == "weight_hr_l0"
    assert not torch.equal(two(torch.ones(4, 1, 2))[0], two(torch.ones(4, 1, 2))[0])


def test_lay_12_packed_sequences():
    """Each sequence in a packed batch has the result of a single sequence."""
    torch.manual_seed(0)
    rnn = nn.LSTM(2, 3)
    sequences = [torch.randn(length, 2) for length in (4, 2, 3)]
    packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    output, (h, _) = rnn(packed)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(output)
    assert lengths.tolist() == [4, 2, 3] and padded.shape == (4, 3, 3)
    for place, sequence in enumerate(sequences):
        alone, (last, _) = rnn(sequence)
        torch.testing.assert_close(padded[: len(sequence), place], alone)
        torch.testing.assert_close(h[:, place], last)


def test_lay_13_two_directions_from_two_layers():
    """One LSTM forward and one over the flipped input, concatenated, equal a bidirectional one."""

    class BidirectionalRecurrentLSTM(nn.Module):
        def __init__(self):
            super().__init__()
            self.forwards = nn.LSTM(input_size=4, hidden_size=3)
            self.backwards = nn.LSTM(input_size=4, hidden_size=3)

        def forward(self, x):
            ahead, _ = self.forwards(x)
            back, _ = self.backwards(torch.flip(x, dims=[0]))
            return torch.cat([ahead, torch.flip(back, dims=[0])], dim=2)

    torch.manual_seed(0)
    both = nn.LSTM(4, 3, bidirectional=True)
    net = BidirectionalRecurrentLSTM()
    state = both.state_dict()
    net.forwards.load_state_dict({name: value for name, value in state.items() if "reverse" not in name})
    net.backwards.load_state_dict(
        {name[: -len("_reverse")]: value for name, value in state.items() if "reverse" in name}
    )
    x = torch.randn(5, 2, 4)
    torch.testing.assert_close(net(x), both(x)[0])


def test_lay_14_a_column_and_back():
    """A vector is reshaped to a column for a layer with one feature, and the results are reshaped back."""
    net = nn.Linear(1, 1)
    x = torch.arange(100, dtype=torch.float32) / 100
    y = net(x.unsqueeze(1)).squeeze(1)
    assert y.shape == (100,)
    torch.testing.assert_close(y, net.weight.item() * x + net.bias.item())


@pytest.mark.parametrize(
    ("name", "shape"),
    [("Dropout", (4, 50)), ("Dropout1d", (4, 50, 2)), ("Dropout2d", (4, 50, 2, 2)), ("Dropout3d", (4, 50, 2, 2, 1)),
     ("AlphaDropout", (4, 50)), ("FeatureAlphaDropout", (4, 50, 2))],
)  # fmt: skip
def test_lay_15_dropout(name, shape):
    """At p = 1 everything is zero, in evaluation nothing. The seed determines what is dropped, in whole channels."""
    x = torch.rand(*shape) + 1
    kind = getattr(nn, name)
    gone = kind(1.0)(x.requires_grad_())
    assert gone.isfinite().all() and gone.unique().numel() == 1
    if "Alpha" not in name:
        assert gone.count_nonzero() == 0
        gone.sum().backward()
        assert x.grad.count_nonzero() == 0
    assert torch.equal(kind(0.5).eval()(x), x) and torch.equal(kind(0.0)(x), x)
    torch.manual_seed(1)
    first = kind(0.5)(x)
    assert not torch.equal(kind(0.5)(x), first)
    torch.manual_seed(1)
    assert torch.equal(kind(0.5)(x), first)
    dropped = (first == first.min()) if "Alpha" in name else (first == 0)
    assert 0.3 < dropped.double().mean() < 0.7
    if len(shape) > 2:
        channels = dropped.flatten(2)
        assert torch.equal(channels.all(2), channels.any(2))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_lay_16_bags(mode):
    """A bag of any length is the reduced embedding of its members, without the padding index."""
    weight = layer_cases.wave(torch, (6, 3), 0)
    indices, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 0]), torch.tensor([0, 1, 4, 4])
    layer = nn.EmbeddingBag.from_pretrained(weight, mode=mode, padding_idx=5)
    bags = [[1], [2, 4], [], [4, 3, 0]]
    reduce = {"sum": lambda t: t.sum(0), "mean": lambda t: t.mean(0), "max": lambda t: t.amax(0)}[mode]
    expected = torch.stack(
        [reduce(F.embedding(torch.tensor(bag), weight)) if bag else weight.new_zeros(3) for bag in bags]
    )
    torch.testing.assert_close(layer(indices, offsets), expected)


def test_lay_16_weights_and_padding():
    """With a sum, every index may have a weight. The row of the padding index has no gradient."""
    layer = nn.EmbeddingBag(4, 2, mode="sum", padding_idx=0)
    factors = torch.tensor([[2.0, 3.0, 4.0]], requires_grad=True)
    bag = torch.tensor([[1, 0, 3]])
    y = layer(bag, per_sample_weights=factors)
    torch.testing.assert_close(y[0], 2 * layer.weight[1] + 4 * layer.weight[3])
    y.sum().backward()
    assert layer.weight.grad.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [4.0, 4.0]]
    table = nn.Embedding(4, 2, padding_idx=0)
    assert table.weight[0].tolist() == [0.0, 0.0]
    table(bag).sum().backward()
    assert table.weight.grad[:, 0].tolist() == [0.0, 1.0, 0.0, 1.0]


def test_lay_17_distances():
    """The cosine of 45 degrees. Nothing is divided by zero."""
    a, b, zero = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]), torch.zeros(1, 2)
    assert nn.CosineSimilarity()(a, b).item() == pytest.approx(0.7071, abs=1e-4)
    assert nn.CosineSimilarity()(a, zero).item() == 0
    assert nn.PairwiseDistance()(a, b).item() == pytest.approx(1, abs=1e-5)
    assert nn.PairwiseDistance(1, eps=0.5)(a, zero).item() == 2
    assert nn.PairwiseDistance(keepdim=True)(a, b).shape == (1, 1)


def test_lay_18_pictures():
    """Channels become pixels. Upsampling repeats or interpolates, by a factor or to a size."""
    x = torch.arange(4.0).reshape(1, 4, 1, 1)
    assert nn.PixelShuffle(2)(x).tolist() == [[[[0.0, 1.0], [2.0, 3.0]]]]
    row = torch.tensor([[[[0.0, 4.0]]]])
    assert nn.UpsamplingNearest2d(scale_factor=2)(row)[0, 0].tolist() == [[0.0, 0.0, 4.0, 4.0]] * 2
    assert nn.Upsample((1, 4), mode="bilinear")(row).flatten().tolist() == [0.0, 1.0, 3.0, 4.0]
    assert nn.Upsample((1, 3), mode="bilinear", align_corners=True)(row).flatten().tolist() == [0.0, 2.0, 4.0]
    assert nn.UpsamplingBilinear2d(size=(1, 3))(row).flatten().tolist() == [0.0, 2.0, 4.0]
    assert nn.Upsample(scale_factor=2, mode="trilinear")(torch.ones(1, 1, 2, 3, 4)).shape == (1, 1, 4, 6, 8)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("dims", [2, 3])
def test_lay_19_the_identity_of_a_spatial_transformer(dims, align_corners):
    """The identity transformation returns the input. Outside of it the padding mode determines the values."""
    x = layer_cases.wave(torch, (2, 3) + (4,) * dims, 0)
    theta = torch.eye(dims, dims + 1, dtype=x.dtype).expand(2, dims, dims + 1)
    grid = F.affine_grid(theta, x.shape, align_corners=align_corners)
    assert grid.shape == (2,) + (4,) * dims + (dims,)
    torch.testing.assert_close(F.grid_sample(x, grid, align_corners=align_corners), x)
    outside = torch.full_like(grid, 2)
    corner = x[(..., *(-1,) * dims)]
    shape = (...,) + (None,) * dims
    found = {
        mode: F.grid_sample(x, outside, padding_mode=mode, align_corners=align_corners)
        for mode in ("zeros", "border", "reflection")
    }
    assert found["zeros"].count_nonzero() == 0
    torch.testing.assert_close(found["border"], corner[shape].expand_as(x))
    inside = F.grid_sample(x, torch.zeros_like(grid), align_corners=align_corners)
    torch.testing.assert_close(found["reflection"], inside)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_lay_20_weight_normalisation():
    """The weight is its direction times its norm, computed in every call, and can be made an ordinary parameter again."""
    layer = nn.utils.weight_norm(nn.Linear(4, 3))
    assert sorted(name for name, _ in layer.named_parameters()) == ["bias", "weight_g", "weight_v"]
    x = torch.randn(2, 4)
    with torch.no_grad():
        layer.weight_g.mul_(3)
        layer.weight_v.mul_(5)
    v = layer.weight_v
    expected = layer.weight_g * v / v.norm(dim=1, keepdim=True)
    torch.testing.assert_close(layer(x), F.linear(x, expected, layer.bias))
    nn.utils.remove_weight_norm(layer)
    assert sorted(name for name, _ in layer.named_parameters()) == ["bias", "weight"]
    torch.testing.assert_close(layer.weight, expected)
    with pytest.raises(AttributeError, match=r"torch\.nn\.utils\.weight_norm"):
        torch.utils.weight_norm


def test_lay_21_data_parallel():
    """The eleventh category: without GPUs the wrapped module runs, and names in the state begin with `module.`."""
    net = nn.Linear(2, 3)
    wrapped = nn.DataParallel(net)
    x = torch.randn(4, 2)
    assert torch.equal(wrapped(x), net(x))
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]


@pytest.mark.parametrize(
    ("make", "fan"),
    [(lambda: nn.Linear(50, 400), 50), (lambda: nn.Conv2d(5, 80, 5), 125), (lambda: nn.Conv1d(10, 100, 3), 30)],
    ids=["Linear", "Conv2d", "Conv1d"],
)
def test_lay_22_initial_weights(make, fan):
    """Weights and biases are uniform within one over the root of the number of inputs."""
    torch.manual_seed(0)
    layer, bound = make(), 1 / math.sqrt(fan)
    for values in (layer.weight, layer.bias):
        assert bound * 0.9 < values.abs().max() <= bound
    assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)


def test_lay_22_torchs_numbers():
    """A seed gives torch's initial weights."""
    torch.manual_seed(0)
    layer = nn.Linear(2, 2)
    assert layer.weight.flatten().tolist() == pytest.approx(LINEAR[:4], abs=1e-8)
    assert layer.bias.tolist() == pytest.approx(LINEAR[4:], abs=1e-8)
    torch.manual_seed(1)
    assert nn.Conv1d(1, 2, 2).weight.flatten().tolist() == pytest.approx(CONV, abs=1e-8)


# Recorded from torch.
LINEAR = [-0.005293981, 0.379322886, -0.581980765, -0.520387471, -0.272345245, 0.18961589]
CONV = [0.364346087, -0.312101543, -0.137080774, 0.331893951]
