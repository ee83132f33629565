"""`torch.jit._get_trace_graph`: the operators of a call as a graph, and the types of TorchScript."""

import pytest

import rushlight as torch
from rushlight import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding="same", groups=1)
        self.norm = nn.BatchNorm2d(4)
        self.up = nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.drop = nn.Dropout(0.25)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.up(torch.relu(self.norm(self.conv(x))))
        x = nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
        x = nn.functional.adaptive_avg_pool2d(x, 2)
        return torch.softmax(self.fc(self.drop(x.flatten(1))), -1)


def calls(graph):
    return [node for node in graph.nodes() if not node.kind().startswith("prim::")]


def test_operators_have_the_names_and_arguments_of_torchs_traces():
    graph, result = torch.jit._get_trace_graph(Model(), (torch.randn(2, 3, 6, 6),))
    assert [node.kind() for node in calls(graph) if node.kind() != "aten::add_"] == [
        "aten::_convolution",
        "aten::batch_norm",
        "aten::relu",
        "aten::_convolution",
        "aten::upsample_bilinear2d",
        "aten::adaptive_avg_pool2d",
        "aten::flatten",
        "aten::dropout",
        "aten::linear",
        "aten::softmax",
    ]
    first, second = graph.findAllNodes("aten::_convolution")
    assert [value.type().sizes() for value in first.inputs() if value.isCompleteTensor()] == [
        [2, 3, 6, 6],
        [4, 3, 3, 3],
        [4],
    ]
    assert [value.toIValue() for value in first.inputsAt(4).node().inputs()] == [1, 1]
    assert first.inputsAt(6).toIValue() is False and second.inputsAt(6).toIValue() is True
    assert second.output().type().sizes() == [2, 2, 12, 12]
    (dropout,) = graph.findAllNodes("aten::dropout")
    assert [dropout.inputsAt(1).toIValue(), dropout.inputsAt(2).toIValue()] == [0.25, True]
    assert result.shape == (2, 5) and next(graph.outputs()).type().sizes() == [2, 5]


def test_the_inputs_are_the_arguments_and_the_parameters():
    model = nn.Linear(2, 3)
    graph, _ = torch.jit._get_trace_graph(model, (torch.ones(1, 2),))
    assert [value.type().sizes() for value in graph.inputs()] == [[1, 2], [3, 2], [3]]
    (linear,) = graph.nodes()
    assert list(linear.inputs()) == list(graph.inputs())


def test_values_lead_from_one_operator_to_the_next():
    def function(x):
        parts = torch.split(x.add_(1), 2)
        return torch.cat([parts[1], parts[0]]), x * 2

    graph, _, inputs = torch.jit._get_trace_graph(function, (torch.zeros(4),), return_inputs=True)
    add, split, cat, mul = calls(graph)
    assert split.inputsAt(0) is add.output() and mul.inputsAt(0) is add.output()
    assert list(cat.inputsAt(0).node().inputs()) == list(split.outputs())[::-1]
    assert {(use.user.kind(), use.offset) for use in add.output().uses()} == {("aten::split", 0), ("aten::mul", 0)}
    assert graph.return_node().input().node().kind() == "prim::TupleConstruct"
    assert len(inputs) == 1 and str(graph).startswith("graph(%1 : Float(4, strides=[1], device=cpu)):\n")


def test_scopes_are_those_that_hooks_push():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: torch._C._get_tracing_state().push_scope(name))
        module.register_forward_hook(lambda *_: torch._C._get_tracing_state().pop_scope())
    graph, _ = torch.jit._get_trace_graph(model, (torch.ones(1, 2),))
    assert [(node.kind(), node.scopeName()) for node in calls(graph)] == [("aten::linear", "/0"), ("aten::relu", "/1")]
    assert torch._C._get_tracing_state() is None


def test_an_error_in_the_call_ends_the_trace():
    with pytest.raises(ZeroDivisionError):
        torch.jit._get_trace_graph(lambda x: x / (1 // 0), (torch.ones(1),))
    assert torch._C._get_tracing_state() is None
    assert torch.ones(1).add(1).item() == 2


def test_a_trace_is_differentiable():
    x = torch.ones(2, requires_grad=True)
    _, result = torch.jit._get_trace_graph(lambda x: nn.functional.dropout(x * 3, 0.0), (x,))
    result.sum().backward()
    assert x.grad.tolist() == [3, 3]


INT, FLOAT, TEXT = torch.IntType.get(), torch.FloatType.get(), torch.StringType.get()


@pytest.mark.parametrize(
    "kind, annotation, schema",
    [
        (INT, "int", "int"),
        (torch.ListType(INT), "List[int]", "int[]"),
        (torch.OptionalType(INT), "Optional[int]", "int?"),
        (torch.DictType(TEXT, INT), "Dict[str, int]", "Dict(str, int)"),
        (torch.TupleType([INT, FLOAT]), "Tuple[int, float]", "(int, float)"),
        (torch.TupleType([]), "Tuple[()]", "()"),
        (torch.UnionType([INT, TEXT]), "Union[int, str]", "Union(int, str)"),
        (torch.FutureType(INT), "Future[int]", "Future[int]"),
        (torch.AwaitType(INT), "Await[int]", "Await(int)"),
        (torch.ListType(torch.OptionalType.ofTensor()), "List[Optional[Tensor]]", "Tensor?[]"),
        (torch.DeviceObjType.get(), "Device", "Device"),
    ],
)
def test_types_have_torchs_texts(kind, annotation, schema):
    assert (str(kind), kind.annotation_str, kind.str()) == (annotation, annotation, schema)
    assert kind.kind() == type(kind).__name__


def test_types_are_compared_by_their_parts():
    assert torch.ListType(INT) == torch.ListType.ofInts() != torch.ListType(FLOAT)
    assert torch.UnionType([INT, TEXT]) == torch.UnionType([TEXT, INT])
    assert torch.TensorType.create_from_tensor(torch.ones(2)) != torch.TensorType.get()
    with pytest.raises(TypeError):
        hash(INT)
    with pytest.raises(TypeError):
        torch.IntType()


def test_subtypes():
    number, optional = torch.NumberType.get(), torch.OptionalType(INT)
    assert INT.isSubtypeOf(number) and INT.isSubtypeOf(optional) and torch.NoneType.get().isSubtypeOf(optional)
    assert torch.ListType(INT).isSubtypeOf(torch.AnyType.get()) and INT.isSubtypeOf(torch.UnionType([INT, TEXT]))
    assert torch.TensorType.create_from_tensor(torch.ones(1)).isSubtypeOf(torch.TensorType.get())
    assert not torch.ListType(INT).isSubtypeOf(torch.ListType(number)) and not optional.isSubtypeOf(INT)
    assert not torch.BoolType.get().isSubtypeOf(INT) and not FLOAT.isSubtypeOf(torch.ComplexType.get())


def test_the_type_of_a_tensor_has_its_form():
    kind = torch.TensorType.create_from_tensor(torch.ones(2, 3, dtype=torch.float64))
    assert (kind.sizes(), kind.strides(), kind.dim(), kind.dtype()) == ([2, 3], [3, 1], 2, torch.float64)
    assert kind.device() == torch.device("cpu") and kind.scalarType() == "Double"
    assert torch.TensorType.get().sizes() is None


def test_types_of_a_list_are_one_type():
    assert torch.unify_type_list([torch.ListType(INT), torch.ListType.ofInts()]) == torch.ListType(INT)
    with pytest.raises(RuntimeError, match=r"since element 1 of type float did not match the types before it \(int\)"):
        torch.unify_type_list([INT, FLOAT])
    with pytest.raises(RuntimeError):
        torch.unify_type_list([])
