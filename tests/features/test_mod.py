"""MOD: modules and containers."""

from collections import OrderedDict

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn, optim


@pytest.mark.parametrize("spelling", ["super().__init__()", "super(Model, self).__init__()"])
def test_mod_1_subclassing(spelling):
    """A class calls its base's constructor in either form and defines `forward`. A call runs the hooks around it."""
    called = []

    class Model(nn.Module):
        def __init__(self):
            if spelling.startswith("super()"):
                super().__init__()
            else:
                super(Model, self).__init__()  # noqa: UP008  (as Python 2 wrote it)
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            called.append("forward")
            return self.fc(x)

    net = Model()
    net.register_forward_pre_hook(lambda module, args: called.append("before"))
    net.register_forward_hook(lambda module, args, output: called.append("after"))
    assert net(torch.ones(1, 2)).shape == (1, 2)
    assert called == ["before", "forward", "after"]


def test_mod_2_parameters():
    """Parameters are listed in the order of their assignment, with their names, including those of submodules."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.tensor([4.9549]))
            self.b = nn.Parameter(torch.tensor([3.1692]))

        def forward(self, x):
            return self.a * x + self.b

    net = Net()
    a, b = net.parameters()
    assert a is net.a and b is net.b
    assert repr(a) == "Parameter containing:\ntensor([4.9549], requires_grad=True)"
    outer = nn.Module()
    outer.net, outer.scale = net, nn.Parameter(torch.ones(1))
    assert [name for name, _ in outer.named_parameters()] == ["scale", "net.a", "net.b"]


def test_mod_3_the_methods():
    """Zeroing of gradients, modes, `apply`, states and conversions apply to every submodule."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Dropout(), nn.BatchNorm1d(3)))
    net(torch.rand(4, 2)).square().sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())

    assert net.eval() is net and not any(module.training for module in net.modules())
    assert net.train() is net and all(module.training for module in net.modules())
    assert list(net.children()) == [net[0], net[1]]
    assert list(net.modules()) == [net, net[0], net[1], net[1][0], net[1][1]]
    visited = []
    assert net.apply(visited.append) is net
    assert visited == [net[0], net[1][0], net[1][1], net[1], net]

    state = net.state_dict()
    names = ["0.weight", "0.bias", "1.1.weight", "1.1.bias", "1.1.running_mean", "1.1.running_var"]
    assert list(state) == [*names, "1.1.num_batches_tracked"]
    twin = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Dropout(), nn.BatchNorm1d(3)))
    assert repr(twin.load_state_dict(state)) == "<All keys matched successfully>"
    assert all(torch.equal(value, state[name]) for name, value in twin.state_dict().items())

    state["surplus"] = state.pop("0.bias")
    report = twin.load_state_dict(state, strict=False)
    assert report.missing_keys == ["0.bias"] and report.unexpected_keys == ["surplus"]
    with pytest.raises(RuntimeError) as caught:
        twin.load_state_dict(state)
    assert str(caught.value).startswith("Error(s) in loading state_dict for Sequential:")
    assert 'Missing key(s) in state_dict: "0.bias".' in str(caught.value)
    assert 'Unexpected key(s) in state_dict: "surplus".' in str(caught.value)

    assert net.double() is net and net[1][1].running_mean.dtype == torch.float64
    assert net.to(torch.float32)[0].weight.dtype == torch.float32
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError), match="NVIDIA"):
            net.cuda()


def test_mod_4_sequential():
    """The container prints one line per module, and can be indexed, sliced and extended."""
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    assert repr(net).splitlines() == [
        "Sequential(",
        "  (0): Linear(in_features=64, out_features=32, bias=True)",
        "  (1): ReLU()",
        "  (2): Linear(in_features=32, out_features=10, bias=True)",
        ")",
    ]
    x = torch.rand(5, 64)
    assert torch.equal(net(x), net[2](F.relu(net[0](x))))
    assert isinstance(net[:2], nn.Sequential) and list(net[:2]) == [net[0], net[1]] and net[-1] is net[2]
    last = nn.Softmax(1)
    assert net.append(last) is net
    assert len(net) == 4 and net[3] is last and net(x).shape == (5, 10)


def test_mod_5_sequential_with_names():
    """Names become attributes and prefixes of the names in the state."""
    net = nn.Sequential(
        OrderedDict(
            [
                ("conv1", nn.Conv2d(1, 20, 5)),
                ("relu1", nn.ReLU()),
                ("conv2", nn.Conv2d(20, 64, 5)),
                ("relu2", nn.ReLU()),
            ]
        )
    )
    assert net.conv1 is net[0] and net.relu2 is net[3]
    assert list(net.state_dict()) == ["conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"]
    assert net(torch.ones(1, 1, 12, 12)).shape == (1, 64, 4, 4)


def test_mod_6_module_list():
    """Ten layers in a list are registered, iterated over and indexed."""

    class MyModule(nn.Module):
        def __init__(self):
            super().__init__()
            self.linears = nn.ModuleList([nn.Linear(10, 10) for _ in range(10)])

        def forward(self, x):
            for i, l in enumerate(self.linears):
                x = self.linears[i // 2](x) + l(x)
            return x

    net = MyModule()
    assert net(torch.randn(3, 10)).shape == (3, 10)
    assert len(list(net.parameters())) == 20
    assert sum(isinstance(module, nn.Linear) for module in net.modules()) == 10
    assert [name for name, _ in net.named_children()] == ["linears"]


def test_mod_7_other_containers():
    """Dictionaries of modules, and lists and dictionaries of parameters, register their elements."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.choices = nn.ModuleDict({"conv": nn.Conv2d(1, 1, 1, bias=False), "relu": nn.ReLU()})
            self.list = nn.ParameterList([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))])
            self.dict = nn.ParameterDict({"left": nn.Parameter(torch.ones(4))})

    net = Net()
    assert [name for name, _ in net.named_parameters()] == ["choices.conv.weight", "list.0", "list.1", "dict.left"]
    assert [p.shape[0] for p in net.list] == [2, 3]
    assert net.choices["relu"](torch.tensor([-1.0, 1.0])).tolist() == [0.0, 1.0]
    assert net.dict["left"].sum().item() == 4
    net.choices["more"] = nn.Linear(1, 1)
    assert list(net.choices) == ["conv", "relu", "more"]


def test_mod_8_hooks():
    """Hooks may change the inputs before forward, the output after it, and the gradient in backward."""
    net = nn.Linear(2, 1, bias=False)
    nn.init.ones_(net.weight)
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    seen = []
    hooks = [net.register_forward_pre_hook(lambda module, args: (args[0] * 10,))]
    assert net(x).item() == 30
    hooks.append(net.register_forward_hook(lambda module, args, output: output + args[0].sum()))
    assert net(x).item() == 60
    hooks[1].remove()
    hooks[0].remove()
    handle = net.register_full_backward_hook(lambda module, inward, outward: seen.append(outward) or (inward[0] * 3,))
    net(x).backward()
    assert x.grad.tolist() == [[3.0, 3.0]]
    assert [[grad.tolist() for grad in grads] for grads in seen] == [[[[1.0]]]]
    handle.remove()


def test_mod_9_layers_come_and_go():
    """A layer may be replaced or removed between two steps. The optimizer continues with its groups."""
    torch.manual_seed(0)
    net = nn.Sequential(OrderedDict(first=nn.Linear(3, 3), extra=nn.Linear(3, 3), last=nn.Linear(3, 1)))
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    x, target = torch.randn(8, 3), torch.randn(8, 1)

    def step():
        loss = F.mse_loss(net(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    step()
    del net.extra
    assert [name for name, _ in net.named_children()] == ["first", "last"]
    step()
    net.last = nn.Linear(3, 1)
    optimizer.add_param_group({"params": net.last.parameters(), "lr": 0.1})
    before = net.last.weight.detach().clone()
    losses = [step() for _ in range(20)]
    assert losses[-1] < losses[0]
    assert not torch.equal(net.last.weight, before)
    assert [group["lr"] for group in optimizer.param_groups] == [0.05, 0.1]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_mod_10_to_a_device(device):
    """Every parameter and buffer at any depth is moved, and the module stays the same object."""
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)))
    assert net.to(device) is net
    assert len(net.state_dict()) == 7
    assert {value.device.type for value in net.state_dict().values()} == {device}


X = torch.linspace(-4, 4, 2 * 4 * 6 * 6).reshape(2, 4, 6, 6)


@pytest.mark.parametrize(
    ("module", "function"),
    [
        (nn.ReLU(), F.relu),
        (nn.ELU(0.5), lambda x: F.elu(x, 0.5)),
        (nn.GELU("tanh"), lambda x: F.gelu(x, approximate="tanh")),
        (nn.Softmax(1), lambda x: F.softmax(x, 1)),
        (nn.LogSoftmax(-1), lambda x: F.log_softmax(x, -1)),
        (nn.Hardtanh(-2, 1), lambda x: F.hardtanh(x, -2, 1)),
        (nn.MaxPool2d(3, 2, 1), lambda x: F.max_pool2d(x, 3, 2, 1)),
        (nn.AvgPool2d(2), lambda x: F.avg_pool2d(x, 2)),
        (nn.LPPool2d(2, 3), lambda x: F.lp_pool2d(x, 2, 3)),
        (nn.ReflectionPad2d(2), lambda x: F.pad(x, (2, 2, 2, 2), "reflect")),
        (nn.LocalResponseNorm(2), lambda x: F.local_response_norm(x, 2)),
        (nn.GroupNorm(2, 4), lambda x: F.group_norm(x, 2, torch.ones(4), torch.zeros(4))),
        (nn.PixelShuffle(2), lambda x: F.pixel_shuffle(x, 2)),
        (nn.Upsample(scale_factor=2), lambda x: F.interpolate(x, scale_factor=2)),
        (nn.Unfold(3), lambda x: F.unfold(x, 3)),
        (nn.CosineSimilarity(1), lambda x, y: F.cosine_similarity(x, y, 1)),
        (nn.MSELoss(), F.mse_loss),
        (nn.SmoothL1Loss(reduction="sum"), lambda x, y: F.smooth_l1_loss(x, y, reduction="sum")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_mod_11_modules_are_functions(module, function):
    """A module computes the same bits as its function."""
    two = isinstance(module, nn.CosineSimilarity) or type(module).__name__.endswith("Loss")
    inputs = (X, X.flip(0)) if two else (X,)
    assert torch.equal(module(*inputs), function(*inputs))


def test_mod_11_dropout():
    """With the same seed, the module and the function drop the same elements."""
    torch.manual_seed(3)
    first = nn.Dropout(0.3)(X)
    torch.manual_seed(3)
    assert torch.equal(first, F.dropout(X, 0.3))
    assert 0 < (first == 0).sum() < X.numel()
