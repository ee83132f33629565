"""Layers and losses: text, initial values, results."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.Linear(3, 2, bias=False), "Linear(in_features=3, out_features=2, bias=False)"),
        (lambda: nn.Conv2d(1, 20, 5), "Conv2d(1, 20, kernel_size=(5, 5), stride=(1, 1))"),
        (
            lambda: nn.Conv2d(2, 2, (3, 2), 2, 1, 2, 2, False, "reflect"),
            "Conv2d(2, 2, kernel_size=(3, 2), stride=(2, 2), padding=(1, 1), dilation=(2, 2), groups=2, bias=False, "
            "padding_mode=reflect)",
        ),
        (lambda: nn.Conv2d(1, 2, 3, padding="same"), "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=same)"),
        (lambda: nn.Conv1d(1, 2, 3, padding=1), "Conv1d(1, 2, kernel_size=(3,), stride=(1,), padding=(1,))"),
        (lambda: nn.MaxPool2d(2), "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"),
        (lambda: nn.ReLU(), "ReLU()"),
        (lambda: nn.ReLU(True), "ReLU(inplace=True)"),
        (lambda: nn.ELU(1.0, 2), "ELU(alpha=1.0, inplace=True)"),
        (lambda: nn.GELU("tanh"), "GELU(approximate='tanh')"),
        (lambda: nn.Softmax(1), "Softmax(dim=1)"),
        (lambda: nn.LogSoftmax(), "LogSoftmax(dim=None)"),
        (lambda: nn.Dropout(0.2), "Dropout(p=0.2, inplace=False)"),
        (lambda: nn.Flatten(), "Flatten(start_dim=1, end_dim=-1)"),
        (lambda: nn.Unflatten(1, (2, 3)), "Unflatten(dim=1, unflattened_size=(2, 3))"),
        (lambda: nn.Embedding(3, 4), "Embedding(3, 4)"),
        (
            lambda: nn.Embedding(3, 4, -2, max_norm=2.0, norm_type=1.0, scale_grad_by_freq=True, sparse=True),
            "Embedding(3, 4, padding_idx=1, max_norm=2.0, norm_type=1.0, scale_grad_by_freq=True, sparse=True)",
        ),
        (lambda: nn.CrossEntropyLoss(), "CrossEntropyLoss()"),
    ],
)
def test_repr(make, text):
    assert repr(make()) == text


def test_initial_weights_are_torchs():
    torch.manual_seed(0)
    linear, conv, table = nn.Linear(3, 2), nn.Conv2d(1, 2, 2), nn.Embedding(2, 3, padding_idx=0)
    assert linear.weight.tolist() == [
        [-0.004322517663240433, 0.3097158372402191, -0.4751853346824646],
        [-0.4248946011066437, -0.2223689705133438, 0.15482072532176971],
    ]
    assert linear.bias.tolist() == [-0.011439144611358643, 0.45777493715286255]
    assert conv.weight.flatten().tolist() == [
        -0.04437202215194702, 0.1323062777519226, -0.15110653638839722, -0.09828269481658936,
        -0.4776742458343506, -0.33114105463027954, -0.20611155033111572, 0.018521785736083984,
    ]  # fmt: skip
    assert conv.bias.tolist() == [0.19766759872436523, 0.30001139640808105]
    assert table.weight.tolist() == [[0, 0, 0], [0.8395664095878601, -0.8264687061309814, -0.7949366569519043]]


SCORES = [[1.0, -0.5, 0.25], [0.0, 2.0, -1.0]]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda w: nn.CrossEntropyLoss(), 1.723910927772522),
        (lambda w: nn.CrossEntropyLoss(w, label_smoothing=0.1, reduction="sum"), 2.8385298252105713),
        (lambda w: nn.CrossEntropyLoss(ignore_index=0), 1.2779757976531982),
        (lambda w: nn.CrossEntropyLoss(reduction="none"), [1.2779757976531982, 2.1698460578918457]),
        (lambda w: nn.NLLLoss(w), -0.0833333358168602),
    ],
)
def test_class_losses(make, expected):
    loss = make(torch.tensor([1.0, 2.0, 0.5]))(torch.tensor(SCORES), torch.tensor([2, 0]))
    assert loss.tolist() == pytest.approx(expected, rel=1e-6)


def test_cross_entropy_of_probabilities():
    target = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    assert nn.CrossEntropyLoss()(torch.tensor(SCORES), target).item() == pytest.approx(1.6739109754562378, rel=1e-6)


def test_elementwise_losses():
    x, y, weight = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0]), torch.tensor([1.0, 3.0])
    assert nn.MSELoss()(x, y).item() == 2.5
    assert nn.MSELoss(reduction="sum")(x, y).item() == 5
    assert nn.MSELoss(reduction="none")(x, y).tolist() == [1, 4]
    assert nn.L1Loss()(x, y).item() == 1.5
    assert F.mse_loss(x, y, weight=weight).item() == 13 / 4
    assert F.l1_loss(x, y, reduction="sum", weight=weight).item() == 7
    with pytest.raises(ValueError, match=r"Weights and input must have the same size."):
        F.l1_loss(x, y, weight=weight[:1])
    with pytest.raises(ValueError, match="foo is not a valid value for reduction"):
        F.l1_loss(x, y, reduction="foo")
    with pytest.warns(
        UserWarning, match=r"Using a target size \(torch.Size\(\[2\]\)\) that is different to the input size"
    ):
        F.mse_loss(x[None], y)


def test_old_reduction_arguments():
    with pytest.warns(
        UserWarning, match="size_average and reduce args will be deprecated, please use reduction='sum' instead"
    ):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="please use reduction='sum' instead") as caught:
        assert nn.CrossEntropyLoss(None, torch.zeros(())).reduction == "sum"
    assert caught[0].filename == __file__
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        nn.CrossEntropyLoss(torch.ones(2), torch.zeros(2))
    with pytest.warns(UserWarning, match="please use reduction='none' instead"):
        assert F.l1_loss(torch.ones(2), torch.zeros(2), reduce=False).shape == (2,)


def test_modules_compute_what_functions_do():
    x = torch.randn(3, 4)
    for module, function in [
        (nn.ReLU(), F.relu),
        (nn.GELU(), F.gelu),
        (nn.Sigmoid(), F.sigmoid),
        (nn.Tanh(), F.tanh),
        (nn.Softmax(1), lambda x: F.softmax(x, 1)),
        (nn.LogSoftmax(1), lambda x: F.log_softmax(x, 1)),
        (nn.Flatten(0), lambda x: x.flatten()),
        (nn.Unflatten(1, (2, 2)), lambda x: x.reshape(3, 2, 2)),
        (nn.Identity(), lambda x: x),
    ]:
        assert torch.equal(module(x), function(x))
    layer = nn.Linear(4, 2)
    assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
    image = torch.randn(1, 2, 5, 5)
    conv = nn.Conv2d(2, 3, 3, padding=1, stride=2)
    assert torch.equal(conv(image), F.conv2d(image, conv.weight, conv.bias, 2, 1))
    assert nn.Conv2d(2, 3, 3, padding="same")(image).shape == (1, 3, 5, 5)


def test_softmax_without_dim_warns():
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax has been deprecated"):
        assert torch.equal(nn.Softmax()(torch.ones(2, 4)), torch.full((2, 4), 0.25))


def test_softmax_in_another_dtype():
    assert F.log_softmax(torch.ones(2), 0, dtype=torch.float64).dtype == torch.float64


def test_dropout():
    x = torch.ones(1000)
    torch.manual_seed(0)
    dropped = nn.Dropout(0.25)(x)
    assert set(dropped.tolist()) == {0.0, torch.tensor(4 / 3).item()}
    assert 200 < int((dropped == 0).sum()) < 300
    torch.manual_seed(0)
    assert torch.equal(F.dropout(x, 0.25), dropped)
    assert nn.Dropout(0.25).eval()(x) is x
    assert F.dropout(x, 1.0).sum().item() == 0
    again = x.clone()
    assert F.dropout(again, 0.5, True, True) is again and set(again.tolist()) == {0.0, 2.0}
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        nn.Dropout(2)


def test_dropout_of_nothing_changes_nothing():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    assert F.dropout(y, 0.0, True, inplace=True) is y and F.dropout(y, 0.0) is y
    y.sum().backward()
    assert torch.equal(x.grad, torch.ones(3).exp())


def test_relu_in_place():
    x = torch.tensor([-1.0, 1.0])
    assert nn.ReLU(inplace=True)(x) is x and x.tolist() == [0, 1]


def test_max_pool():
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    values, places = nn.MaxPool2d(2, return_indices=True)(image)
    assert values.tolist() == [[[[5, 7], [13, 15]]]] and places.tolist() == [[[[5, 7], [13, 15]]]]
    assert torch.equal(nn.MaxPool2d(2)(image), values)
    assert nn.MaxPool2d(3, 2, ceil_mode=True)(image).shape == (1, 1, 2, 2)


def test_embedding():
    table = nn.Embedding.from_pretrained(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert not table.weight.requires_grad
    assert table(torch.tensor([[1], [0]])).tolist() == [[[3, 4]], [[1, 2]]]
    padded = nn.Embedding(3, 2, padding_idx=1)
    padded(torch.tensor([0, 1, 1])).sum().backward()
    assert padded.weight.grad.tolist() == [[1, 1], [0, 0], [0, 0]]
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(3, 4, 5)
    bags = nn.EmbeddingBag.from_pretrained(torch.tensor([[1.0], [3.0]]), mode="sum", include_last_offset=True)
    assert bags(torch.tensor([[0, 0], [1, 1], [0, 1]])).tolist() == [[2], [6], [4]]
    assert bags(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 3])).tolist() == [[1], [4]]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.Conv2d(3, 4, 1, groups=2), ValueError, "in_channels must be divisible by groups"),
        (lambda: nn.Conv2d(2, 3, 1, groups=2), ValueError, "out_channels must be divisible by groups"),
        (lambda: nn.Conv2d(2, 3, 1, groups=0), ValueError, "groups must be a positive integer"),
        (lambda: nn.Conv2d(2, 3, 1, 2, "same"), ValueError, "padding='same' is not supported for strided convolutions"),
        (lambda: nn.Conv2d(2, 3, 1, padding="x"), ValueError, "Invalid padding string 'x', should be one of {"),
        (lambda: nn.Unflatten(1, 3), TypeError, "unflattened_size must be a tuple of ints, but found type int"),
        (lambda: nn.utils.prune.L1Unstructured(), TypeError, "L1Unstructured.__init__() missing 1 required positional"),
        (lambda: nn.Tanh(3), TypeError, "Tanh.__init__() takes 1 positional argument but 2 were given"),
    ],
)
def test_misuse(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)


def test_a_computed_weight_is_used():
    layer = nn.Linear(2, 1)
    weight = layer.weight
    del layer._parameters["weight"]
    layer.weight = weight.detach() * 0
    layer.register_parameter("original", weight)
    assert layer(torch.ones(1, 2)).item() == pytest.approx(layer.bias.item())


def test_a_small_network_learns():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    x = torch.arange(-1, 1, 0.1).unsqueeze(1)
    for _ in range(300):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), x * x)
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-3


@pytest.mark.parametrize(("kind", "mode"), [(nn.Conv1d, "zeros"), (nn.Conv2d, "circular"), (nn.LazyConv3d, "zeros")])
def test_a_subclass_convolves_with_weights_of_its_own(kind, mode):
    class Doubled(kind):
        def _conv_forward(self, input, weight, bias):
            return super()._conv_forward(input, weight * 2, bias)

    space = int(kind.__name__[-2])
    channels = () if kind is nn.LazyConv3d else (1,)
    layer = Doubled(*channels, 1, 3, padding=1, padding_mode=mode, bias=False)
    if kind is nn.LazyConv3d:
        layer.cls_to_become = None
    x = torch.rand(1, 1, *[4] * space)
    twice = layer(x)
    once = kind._conv_forward(layer, x, layer.weight, layer.bias)
    assert torch.allclose(twice, once * 2) and not torch.equal(twice, once)


def test_convolutions_of_programs_derive_from_what_they_share():
    class Plain(nn.modules.conv._ConvNd):
        def __init__(self):
            super().__init__(2, 4, (3,), (1,), (1,), (1,), False, (0,), 2, True, "zeros")

        def forward(self, x):
            return F.conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    class Back(nn.modules.conv._ConvTransposeNd):
        def __init__(self):
            super().__init__(2, 4, (3,), (2,), (0,), (1,), True, (0,), 2, True, "zeros")

        def forward(self, x, size=None):
            extra = self._output_padding(x, size, self.stride, self.padding, self.kernel_size, 1, self.dilation)
            return F.conv_transpose1d(x, self.weight, self.bias, self.stride, self.padding, extra, self.groups)

    plain, back, x = Plain(), Back(), torch.ones(1, 2, 5)
    assert plain.weight.shape == (4, 1, 3) and plain(x).shape == (1, 4, 5)
    assert plain._reversed_padding_repeated_twice == (1, 1)
    assert back.weight.shape == (2, 2, 3) and back(x).shape == (1, 4, 11) and back(x, [12]).shape == (1, 4, 12)
    with pytest.raises(ValueError, match=r"requested an output size of \[13\], but valid sizes range from \[11\] to"):
        back(x, [13])


def test_norms_of_rows_of_order_zero():
    """The norm is the number of elements that are not zero."""
    rows = torch.tensor([[3.0, 4.0], [0.0, 5.0]])
    torch.embedding_renorm_(rows, torch.tensor([0, 1]), 1.0, 0.0)
    torch.testing.assert_close(rows, torch.tensor([[1.5, 2.0], [0.0, 5.0]]))
    rows = torch.tensor([[3.0, 4.0]])
    torch.embedding_renorm_(rows, torch.tensor([0]), 1.0, -torch.inf)
    torch.testing.assert_close(rows, torch.tensor([[1.0, 4 / 3]]))
