"""Containers of modules and parameters."""

from collections import OrderedDict

import pytest

import rushlight as torch
from rushlight import nn


def test_sequential_repr_of_the_first_example():
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=64, out_features=32, bias=True)\n"
        "  (1): ReLU()\n"
        "  (2): Linear(in_features=32, out_features=10, bias=True)\n"
        ")"
    )


def test_sequential_of_names():
    net = nn.Sequential(OrderedDict(conv1=nn.Conv2d(1, 2, 3), relu1=nn.ReLU()))
    assert net.conv1 is net[0]
    assert list(net.state_dict()) == ["conv1.weight", "conv1.bias"]
    assert list(net[:1]._modules) == ["conv1"]


def test_sequential_as_a_list():
    relu, tanh, sigmoid = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    net = nn.Sequential(relu, tanh)
    assert net.append(sigmoid) is net and list(net) == [relu, tanh, sigmoid]
    net.insert(1, sigmoid)
    assert list(net) == [relu, sigmoid, tanh, sigmoid]
    assert net.pop(1) is sigmoid and net[-1] is sigmoid and len(net) == 3
    del net[0]
    assert list(net._modules) == ["0", "1"] and list(net) == [tanh, sigmoid]
    net[0] = relu
    assert list(net + net) == [relu, sigmoid, relu, sigmoid]
    assert len(net * 3) == len(3 * net) == 6
    net += nn.Sequential(tanh)
    assert list(net) == [relu, sigmoid, tanh]
    for act, error, message in [
        (lambda: net[9], IndexError, "index 9 is out of range"),
        (lambda: net.insert(50, relu), IndexError, "Index out of range: 50"),
        (lambda: net * 0, ValueError, "Non-positive multiplication factor 0 for"),
        (lambda: net + 3, ValueError, "add operator supports only objects of Sequential class, but"),
    ]:
        with pytest.raises(error, match=message):
            act()


def test_the_old_container():
    with pytest.warns(FutureWarning, match="`nn.Container` is deprecated"):
        old = nn.Container(first=nn.Linear(2, 3), second=nn.ReLU())
    assert old.first.weight.shape == (3, 2) and [name for name, _ in old.named_children()] == ["first", "second"]


def test_module_list():
    layers = nn.ModuleList([nn.Linear(10, 10) for _ in range(10)])
    x = torch.ones(1, 10)
    for i, layer in enumerate(layers):
        x = layers[i // 2](x) + layer(x)
    assert len(list(layers.parameters())) == 20
    assert repr(layers) == "ModuleList(\n  (0-9): 10 x Linear(in_features=10, out_features=10, bias=True)\n)"
    mixed = nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.Tanh()])
    assert repr(mixed) == "ModuleList(\n  (0): ReLU()\n  (1-2): 2 x Tanh()\n)"
    del mixed[0]
    mixed.insert(0, nn.Sigmoid())
    mixed += [nn.ReLU()]
    assert [type(module).__name__ for module in mixed] == ["Sigmoid", "Tanh", "Tanh", "ReLU"]
    assert isinstance(mixed[1:3], nn.ModuleList) and len(mixed[1:3]) == 2
    with pytest.raises(IndexError, match="index 4 is out of range"):
        mixed[4]
    with pytest.raises(NotImplementedError, match=r'Module \[ModuleList\] is missing the required "forward" function'):
        mixed(x)
    with pytest.raises(TypeError, match=r"ModuleList.extend should be called with an iterable, but got int"):
        mixed.extend(3)


def test_module_dict():
    choices = nn.ModuleDict([["a", nn.ReLU()], ("b", nn.Tanh())])
    choices["c"] = nn.Linear(1, 1)
    assert list(choices) == list(choices.keys()) == ["a", "b", "c"]
    assert "b" in choices and len(choices) == 3
    choices.update({"a": nn.Sigmoid()})
    assert isinstance(choices.pop("a"), nn.Sigmoid)
    del choices["b"]
    assert repr(choices) == "ModuleDict(\n  (c): Linear(in_features=1, out_features=1, bias=True)\n)"
    with pytest.raises(KeyError):
        choices["a"]
    with pytest.raises(ValueError, match="ModuleDict update sequence element #0 has length 3; 2 is required"):
        choices.update([[1, 2, 3]])
    choices.clear()
    assert len(choices) == 0


def test_parameter_list():
    values = nn.ParameterList([torch.ones(2), nn.Parameter(torch.ones(3, 1)), 5])
    assert repr(values) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [torch.float32 of size 2]\n"
        "    (1): Parameter containing: [torch.float32 of size 3x1]\n"
        "    (2): Object of type: int\n"
        ")"
    )
    assert isinstance(values[0], nn.Parameter) and values[-1] == 5
    values.append(torch.zeros(1))
    values[0] = torch.zeros(4)
    assert [name for name, _ in values.named_parameters()] == ["0", "1", "3"]
    assert len(values[1:]) == 3 and list(values)[2] == 5
    with pytest.raises(RuntimeError, match=r"ParameterList should not be called."):
        values(1)


def test_parameter_dict():
    values = nn.ParameterDict({"a": torch.ones(1)})
    values["b"] = torch.ones(2)
    assert repr(values) == (
        "ParameterDict(\n"
        "    (a): Parameter containing: [torch.FloatTensor of size 1]\n"
        "    (b): Parameter containing: [torch.FloatTensor of size 2]\n"
        ")"
    )
    assert list(values.keys()) == ["a", "b"] and list(reversed(values)) == ["b", "a"]
    assert values.get("x") is None and values.setdefault("c", torch.ones(1)) is values["c"]
    assert values.popitem()[0] == "c" and len(values.pop("a")) == 1
    assert list(values | {"y": torch.ones(1)}) == ["b", "y"]
    with pytest.raises(TypeError, match="Index given to ParameterDict cannot be used as a key as it is not a string"):
        values[3]
    values.clear()
    assert len(values) == 0 and not list(values.parameters())


def test_a_parameter_dict_sorts_a_plain_dictionary():
    one = torch.ones(1)
    table = nn.ParameterDict({"b": one, "a": one})
    table.update({"d": one, "c": one})
    table.update([("z", one), ("y", one)])
    table.update(OrderedDict(x=one, w=one))
    assert list(table) == ["a", "b", "c", "d", "z", "y", "x", "w"]
