"""Registration, attributes, traversal and conversion of modules."""

import copy
import pickle
import re

import pytest

import rushlight as torch
from rushlight import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Linear(3, 1)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


def test_assignment_registers_and_names_follow_the_tree():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == [
        "scale", "first.weight", "first.bias", "second.weight", "second.bias",
    ]  # fmt: skip
    assert [name for name, _ in net.named_parameters("pre", recurse=False)] == ["pre.scale"]
    assert [name for name, _ in net.named_buffers()] == ["count"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "second"]
    assert [name for name, _ in net.named_children()] == ["first", "second"]
    assert net(torch.ones(4, 2)).shape == (4, 1)


def test_shared_members_are_listed_once():
    layer = nn.Linear(1, 1)
    net = nn.Sequential(layer, layer)
    assert len(list(net.parameters())) == 2
    assert [name for name, _ in net.named_parameters(remove_duplicate=False)] == [
        "0.weight", "0.bias", "1.weight", "1.bias",
    ]  # fmt: skip
    assert [name for name, _ in net.named_modules(remove_duplicate=False)] == ["", "0", "1"]


@pytest.mark.parametrize(
    ("assign", "message"),
    [
        (lambda m: setattr(m, "a", nn.Linear(1, 1)), "cannot assign module before Module.__init__() call"),
        (
            lambda m: setattr(m, "a", nn.Parameter(torch.ones(1))),
            "cannot assign parameters before Module.__init__() call",
        ),
        (lambda m: setattr(m, "a", nn.Buffer(torch.ones(1))), "cannot assign buffer before Module.__init__() call"),
        (lambda m: m.register_buffer("a", None), "cannot assign buffer before Module.__init__() call"),
        (lambda m: m.register_parameter("a", None), "cannot assign parameter before Module.__init__() call"),
    ],
)
def test_assigning_before_init_says_so(assign, message):
    class Early(nn.Module):
        def __init__(self):
            self.plain = 3
            assign(self)

    with pytest.raises(AttributeError) as caught:
        Early()
    assert str(caught.value) == message


def test_what_takes_the_place_of_what():
    module = nn.Module()
    module.p = nn.Parameter(torch.ones(1))
    module.m = nn.ReLU()
    module.register_buffer("b", torch.ones(1), persistent=False)
    module.plain = 1
    for name, value, message in [
        (
            "p",
            torch.ones(1),
            "cannot assign 'torch.FloatTensor' as parameter 'p' (torch.nn.Parameter or None expected)",
        ),
        ("p", nn.ReLU(), "as parameter 'p' (torch.nn.Parameter or None expected)"),
        ("m", 3, "cannot assign 'int' as child module 'm' (torch.nn.Module or None expected)"),
        ("b", "x", "cannot assign 'str' as buffer 'b' (torch.nn.Buffer, torch.Tensor or None expected)"),
    ]:
        with pytest.raises(TypeError) as caught:
            setattr(module, name, value)
        assert message in str(caught.value)
    module.b = torch.zeros(2)
    assert module._buffers["b"].shape == (2,)
    module.plain = nn.Linear(1, 1)
    assert "plain" in module._modules and "plain" not in module.__dict__
    module.m = nn.Parameter(torch.ones(1))
    assert "m" in module._parameters and "m" not in module._modules
    module.b = nn.Parameter(torch.ones(1))
    assert not module._buffers and not module._non_persistent_buffers_set
    module.p = None
    assert module._parameters["p"] is None and module.p is None
    del module.p
    assert not hasattr(module, "p")


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda m: m.register_buffer("training", None), KeyError, "attribute 'training' already exists"),
        (lambda m: m.register_buffer("a.b", None), KeyError, 'buffer name can\'t contain "."'),
        (lambda m: m.register_buffer("", None), KeyError, 'buffer name can\'t be empty string ""'),
        (lambda m: m.register_buffer(3, None), TypeError, "buffer name should be a string. Got int"),
        (lambda m: m.register_buffer("q", 3), TypeError, "cannot assign 'int' object to buffer 'q' (torch Tensor or None required)"),
        (lambda m: m.add_module("x.y", None), KeyError, 'module name can\'t contain ".", got: x.y'),
        (lambda m: m.add_module("q", 3), TypeError, "int is not a Module subclass"),
        (lambda m: nn.Sequential(m, len), TypeError, "len is not a Module subclass"),
        (lambda m: nn.Conv2d(3, 6), TypeError, "Conv2d.__init__() missing 1 required positional argument: 'kernel_size'"),
        (lambda m: nn.ConvTranspose1d(1, 2), TypeError, "ConvTranspose1d.__init__() missing 1 required positional argument: 'kernel_size'"),
        (lambda m: nn.LazyConv3d(2), TypeError, "LazyConv3d.__init__() missing 1 required positional argument: 'kernel_size'"),
        (lambda m: nn.ReflectionPad2d(), TypeError, "ReflectionPad2d.__init__() missing 1 required positional argument: 'padding'"),
        (lambda m: m.register_parameter("q", 3), TypeError, "cannot assign 'int' object to parameter 'q' (torch.nn.Parameter or None required)"),
        (lambda m: m.to(torch.int32), TypeError, "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int32"),
        (lambda m: m.train(3), ValueError, "training mode is expected to be boolean"),
        (lambda m: m(1), NotImplementedError, 'Module [Module] is missing the required "forward" function'),
        (lambda m: m.get_submodule("u.v"), AttributeError, "Module has no attribute `u`"),
        (lambda m: m.get_parameter("training"), AttributeError, "`training` is not an nn.Parameter"),
        (lambda m: m.get_buffer("training"), AttributeError, "`training` is not a buffer"),
        (lambda m: nn.Module(3), TypeError, "Module.__init__() takes 1 positional argument but 2 were given"),
        (lambda m: nn.Module(a=3), TypeError, "Module.__init__() got an unexpected keyword argument 'a'"),
    ],
)  # fmt: skip
def test_misuse(act, error, message):
    with pytest.raises(error) as caught:
        act(nn.Module())
    assert caught.value.args[0] == message


def test_functions_are_no_modules():
    """Messages name a function as torch's package does."""
    with pytest.raises(TypeError, match=r"torch\.nn\.functional\.relu is not a Module subclass"):
        nn.Sequential(nn.Linear(1, 1), nn.functional.relu)


def test_a_missing_attribute_proposes_the_nearest():
    with pytest.raises(AttributeError) as caught:
        nn.Linear(1, 1).wieght
    assert str(caught.value) == "'Linear' object has no attribute 'wieght'\nDid you mean 'weight'?"
    assert type(pickle.loads(pickle.dumps(caught.value))) is AttributeError
    with pytest.raises(AttributeError, match="has no attribute 'Relu'\nDid you mean 'ReLU'"):
        nn.Relu
    with pytest.raises(AttributeError, match="Did you mean 'Sequential'"):
        nn.Sequentail
    assert not hasattr(nn.Module(), "nothing_like_it")


def test_paths():
    net = nn.Sequential(Net())
    assert net.get_submodule("0.first") is net[0].first
    assert net.get_submodule("") is net
    assert net.get_parameter("0.first.weight") is net[0].first.weight
    assert net.get_buffer("0.count") is net[0].count
    net.set_submodule("0.first", nn.Identity())
    assert isinstance(net[0].first, nn.Identity)


def test_conversion_keeps_the_parameter_objects():
    net = Net()
    weight = net.first.weight
    weight.grad = torch.ones(3, 2)
    net.double()
    assert net.first.weight is weight
    assert weight.dtype == weight.grad.dtype == net.count.dtype == torch.float64
    assert weight.is_leaf and weight.requires_grad
    net.to("cpu", torch.float32)
    assert weight.dtype == torch.float32
    net.to(torch.zeros(1, dtype=torch.float64))
    assert weight.dtype == torch.float64
    net.register_buffer("index", torch.zeros(1, dtype=torch.int64))
    assert net.float().index.dtype == torch.int64


def test_modes_gradients_and_apply():
    net = Net()
    seen = []
    assert net.apply(lambda module: seen.append(type(module).__name__)) is net
    assert seen == ["Linear", "Linear", "Net"]
    net.eval()
    assert not any(module.training for module in net.modules())
    assert net.train().second.training
    net(torch.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert float(net.scale.grad) == 0
    net.zero_grad()
    assert net.scale.grad is None
    net.requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in net.parameters())


def test_copies_are_independent():
    net = Net()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert isinstance(twin.scale, nn.Parameter) and twin.scale is not net.scale
        assert torch.equal(twin.first.weight, net.first.weight)
        with torch.no_grad():
            twin.scale.add_(1)
        assert net.scale.item() == 1


def test_share_memory():
    net = Net().share_memory()
    assert all(tensor.is_shared() for tensor in (*net.parameters(), *net.buffers()))


def test_a_module_whose_init_was_not_called_says_so():
    class Bare(nn.Module):
        def __init__(self):
            pass

    with pytest.raises(AttributeError, match="'Bare' object has no attribute '_backward_hooks'\n.*super"):
        Bare()(torch.ones(1))
    handle = nn.ReLU().register_forward_hook(print)  # from now on each call checks for hooks
    handle.remove()
    with pytest.raises(AttributeError, match="'Bare' object has no attribute '_backward_hooks'\n.*super"):
        Bare()(torch.ones(1))
    with pytest.raises(NotImplementedError, match=r'Module \[Module\] is missing the required "forward" function'):
        nn.Module()(torch.ones(1))


def test_parameter():
    assert repr(nn.Parameter(torch.tensor([1.0, 2.0]))) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"
    assert repr(nn.Parameter(torch.ones(1), requires_grad=False)) == "Parameter containing:\ntensor([1.])"

    class Own(nn.Parameter):
        pass

    assert repr(Own(torch.ones(1))) == "Parameter containing:\nParameter(Own([1.], requires_grad=True))"
    data = torch.ones(2)
    parameter = nn.Parameter(data)
    assert parameter.data_ptr() == data.data_ptr()
    assert type(parameter * 2) is torch.Tensor and type(parameter.detach()) is torch.Tensor
    assert isinstance(parameter, torch.Tensor) and not isinstance(data, nn.Parameter)
    first, second = copy.deepcopy([parameter, parameter])
    assert first is second and first is not parameter and type(first) is nn.Parameter
    parameter.note = [1]
    assert pickle.loads(pickle.dumps(parameter)).note == [1]
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
        nn.Parameter(torch.ones(1, dtype=torch.int32))


def test_buffer():
    buffer = nn.Buffer(torch.ones(1), persistent=False)
    assert isinstance(buffer, nn.Buffer) and not isinstance(torch.ones(1), nn.Buffer)
    module = nn.Module()
    module.kept = nn.Buffer(torch.ones(1))
    module.dropped = buffer
    assert list(module.state_dict()) == ["kept"]


def test_repr_of_a_tree():
    class Noted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.ReLU()

        def extra_repr(self):
            return "one\ntwo"

    assert repr(nn.Sequential(Noted())) == ("Sequential(\n  (0): Noted(\n    one\n    two\n    (layer): ReLU()\n  )\n)")
    assert repr(nn.Sequential()) == "Sequential()"


def test_a_module_without_values_says_how_it_is_moved():
    with pytest.raises(NotImplementedError) as caught:
        nn.Linear(2, 2, device="meta").to("cpu")
    assert str(caught.value).partition("\n")[0] == (
        "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() "
        "when moving module from meta to a different device."
    )


def test_sizes_that_a_transposed_convolution_cannot_have():
    layer = nn.ConvTranspose2d(1, 1, 3, stride=2)
    with pytest.raises(
        ValueError, match=r"requested an output size of \(20, 20\), but valid sizes range from \[9, 9\]"
    ):
        layer(torch.ones(1, 1, 4, 4), output_size=(20, 20))


def test_a_module_that_was_never_begun():
    class Forgetful(nn.Module):
        def __init__(self):
            pass

    with pytest.raises(AttributeError, match="'Forgetful' object has no attribute '_backward_hooks'"):
        Forgetful()(1)


class TwoArguments(nn.Module):
    def register_buffer(self, name, tensor):
        super().register_buffer(name, tensor)


def test_a_buffer_does_not_replace_an_ordinary_attribute():
    module = nn.Module()
    module.a = 3
    with pytest.raises(KeyError, match="attribute 'a' already exists"):
        module.a = nn.Buffer(torch.ones(1))
    assert module.a == 3 and not list(module.buffers())
    module = TwoArguments()
    module.b = nn.Buffer(torch.ones(1))
    assert [name for name, _ in module.named_buffers()] == ["b"]


@pytest.mark.parametrize(
    "args, kwargs, got",
    [
        (("cpu", True), {}, "(str, bool)"),
        ((None, True), {}, "(NoneType, bool)"),
        (("cpu", 1), {}, "(str, int)"),
        ((torch.float64, torch.float32), {}, "(torch.dtype, torch.dtype)"),
        ((torch.float64,), {"device": "cpu"}, "(torch.dtype, device=str)"),
        (("cpu",), {"device": "cpu"}, "(str, device=str)"),
        ((torch.ones(1), "x"), {}, "(Tensor, str)"),
        ((), {"foo": 1}, "(foo=int, )"),
        ((), {"memory_format": 3}, "(memory_format=int, )"),
    ],
)
def test_arguments_of_to_that_do_not_fit(args, kwargs, got):
    with pytest.raises(
        TypeError, match=re.escape(f"to() received an invalid combination of arguments - got {got}, but")
    ):
        nn.Linear(1, 1).to(*args, **kwargs)


def test_to_accepts_no_copy():
    for args, kwargs in ((("cpu",), {"copy": True}), ((torch.float64, True, True), {})):
        with pytest.raises(RuntimeError, match=r"^\.to\(\) does not accept copy argument"):
            nn.Linear(1, 1).to(*args, **kwargs)
    module = nn.Linear(1, 1).to("cpu", torch.float64, True)
    assert module.weight.dtype == torch.float64
    assert module.to(torch.float32, non_blocking=True).weight.dtype == torch.float32
    assert module.to(None).to(device=None, dtype=None).to(torch.ones(1).double()).weight.dtype == torch.float64


def test_functional_call_of_a_module_that_contains_itself():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return self.weight * x

    module = Loop()
    module._modules["own"] = module
    zero = {"weight": torch.zeros(1)}
    assert torch.func.functional_call(module, zero, torch.ones(1), tie_weights=False).item() == 0
    assert module.weight.item() == 1


def test_functional_call_with_names_that_the_module_does_not_have():
    class Reads(nn.Module):
        def forward(self):
            return self.extra, [name for name, _ in self.named_parameters()]

    module = Reads()
    value, names = torch.func.functional_call(module, {"extra": nn.Parameter(torch.ones(1))}, ())
    assert value.item() == 1 and names == ["extra"] and not hasattr(module, "extra")
    value, names = torch.func.functional_call(module, {"extra": torch.ones(1)}, ())
    assert value.item() == 1 and names == [] and not hasattr(module, "extra")
    with pytest.raises(AttributeError, match="Reads has no attribute `below`"):
        torch.func.functional_call(module, {"below.weight": torch.ones(1)}, ())
    with pytest.raises(KeyError, match="tensor name can.*t be empty string"):
        torch.func.functional_call(module, {"": torch.ones(1)}, ())
    with pytest.raises(TypeError, match=r"^submodule `0\.weight`: Parameter containing:"):
        torch.func.functional_call(nn.Sequential(nn.Linear(1, 1)), {"0.weight.x": torch.ones(1)}, ())
    module.other = 5
    for name, value, sentence in (
        ("other", torch.ones(1), "attribute `other`: 5 is not an instance of torch.Tensor"),
        ("extra", 3, "3 is not an instance of torch.Tensor"),
    ):
        with pytest.raises(TypeError, match=sentence):
            torch.func.functional_call(module, {name: value}, ())
    assert module.other == 5 and not hasattr(module, "extra")
