"""`torch.fx`: tracing, editing, running, rewriting and saving graphs. The texts of graphs are in `test_recorded_graphs.py`."""

import copy
import importlib
import operator
import pickle
import sys
import traceback

import pytest

import rushlight as torch
from rushlight import fx, nn


@fx.wrap
def capped(x):
    return x.sum() if x.sum() > 0 else x


fx.wrap("len")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.linear(x))


class Tanh(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.tanh = nn.Tanh()

    def forward(self, x):
        return self.tanh(self.linear(x))


def code(gm):
    return [line.strip() for line in gm.code.strip().splitlines()]


CONTROL = "symbolically traced variables cannot be used as inputs to control flow"
ITERATED = "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop"


@pytest.mark.parametrize(
    ("program", "error", "text"),
    [
        (lambda x: 1 if x else 2, fx.proxy.TraceError, CONTROL),
        (lambda x: not x, fx.proxy.TraceError, CONTROL),
        (lambda x: list(x), fx.proxy.TraceError, ITERATED),
        (lambda x: torch.add(*x), fx.proxy.TraceError, ITERATED),
        (lambda x: 1 in x, fx.proxy.TraceError, ITERATED),
        (lambda x: bool(x.foo), fx.proxy.TraceError, CONTROL),
        (lambda x: x.__len__(), RuntimeError, "'len' is not supported in symbolic tracing by default."),
        (lambda x: int(x), TypeError, "int() argument must be"),
        (lambda x: {x: 1}, RuntimeError, "Keys for dictionaries used as an argument cannot contain a Node. Got key: x"),
        (lambda x: x.foo(set()), NotImplementedError, "argument of type: <class 'set'>"),
        (lambda x: x + nn.Parameter(torch.ones(1)), NameError, "parameter is not a member of this module"),
    ],
)
def test_programs_that_cannot_be_traced(program, error, text):
    with pytest.raises(error) as caught:
        fx.symbolic_trace(program)
    assert str(caught.value).startswith(text)
    assert not fx._symbolic_trace.is_fx_tracing() and nn.Module.__call__.__name__ == "__call__"


def test_roots_that_cannot_be_traced():
    outer = type("Outer", (nn.Module,), {"forward": lambda self, x: [nn.ReLU()][0](x)})()
    with pytest.raises(NameError, match="module is not installed as a submodule"):
        fx.symbolic_trace(outer)
    with pytest.raises(RuntimeError, match="``self`` argument cannot be part of"):
        fx.symbolic_trace(type("Stars", (nn.Module,), {"forward": lambda *args: args[0]})())
    with pytest.raises(AssertionError, match="Expected FunctionType, got"):
        fx.Tracer().trace(Net().forward)


def test_traced_modules_compute_the_same_with_gradients():
    net, x = Net(), torch.randn(3, 2)
    gm = fx.symbolic_trace(net)
    assert gm.linear is net.linear and torch.equal(gm(x), net(x))
    gm(x).sum().backward()
    assert net.linear.weight.grad is not None
    assert str(gm).startswith(
        "Net(\n  (linear): Linear(in_features=2, out_features=2, bias=True)\n  (act): ReLU()\n)\n"
    )


def test_tracers_choose_their_leaves_and_what_they_record():
    class Inside(fx.Tracer):
        proxy_buffer_attributes = True

        def is_leaf_module(self, m, module_qualified_name):
            return False

    gm = fx.GraphModule(Net(), Inside().trace(Net()))
    assert [node.op for node in gm.graph.nodes][1:5] == ["get_attr", "get_attr", "call_function", "call_function"]
    buffered = type("Buffered", (nn.Module,), {"forward": lambda self, x: self.held.sum() + x})()
    buffered.register_buffer("held", torch.ones(2))
    assert [node.name for node in Inside().trace(buffered).nodes] == ["x", "held", "sum_1", "add", "output"]

    shaped = type("Shaped", (nn.Module,), {"forward": lambda self, x: x * self.w.shape[0] * self.w.dim()})()
    shaped.w = nn.Parameter(torch.ones(3, 2))
    first = fx.Tracer(param_shapes_constant=True).trace(shaped).find_nodes(op="call_function")[0]
    assert first.args[1] == 3
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    relu = tracer.trace(lambda x: torch.relu(x)).find_nodes(op="call_function")[0]
    assert "torch.relu(x)" in relu.stack_trace and "overrides" not in relu.stack_trace
    assert fx.Tracer().trace(Net()).find_nodes(op="call_module")[0].meta["nn_module_stack"] == {
        "linear": ("linear", nn.Linear)
    }


def test_wrapped_functions_are_recorded():
    gm = fx.symbolic_trace(lambda x, y: capped(x) + len(y) + capped(torch.ones(1)))
    assert (
        code(gm)[0].endswith('capped")')
        and [node.meta for node in gm.graph.find_nodes(op="call_function")][:2] == [{"is_wrapped": True}] * 2
    )
    assert gm(torch.ones(2), [1]).item() == 4 and len([1]) == 1
    with pytest.raises(RuntimeError, match="Unsupported type for global function"):
        fx.wrap(3)
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        fx.wrap("sum")


def test_arguments_that_keep_their_value():
    gm = fx.symbolic_trace(lambda x, y: x + 1 if y else x - 1, concrete_args={"y": True})
    assert gm(torch.ones(1), True).item() == 2
    with pytest.raises(AssertionError, match="y has been specialized to have value True but got another value"):
        gm(torch.ones(1), False)
    tree = {"a": fx.PH, "b": [fx.PH]}
    gm = fx.symbolic_trace(lambda x: {"s": x["a"] + x["b"][0]}, concrete_args={"x": tree})
    given = {"a": torch.ones(1), "b": [torch.ones(1)]}
    assert gm(given) == {"s": 2} and copy.deepcopy(gm)(given) == {"s": 2} and fx.Interpreter(gm).run(given) == {"s": 2}
    with pytest.warns(UserWarning, match="Was not able to add assertion to guarantee correct input n"):
        fx.symbolic_trace(lambda x, n: x, concrete_args={"n": object()})


def test_nodes_and_their_users():
    graph = fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    c = graph.call_function(torch.add, (a, b))
    d = graph.call_function(torch.mul, (c, {"k": [c, slice(a, 1)]}))
    assert list(c.users) == [d] and d.all_input_nodes == [c, a] and list(a.users) == [c, d]
    assert a < b < c and not c < a and sorted([d, a, c]) == [a, c, d]
    d.replace_input_with(c, b)
    assert not c.users and d.args == (b, {"k": [b, slice(a, 1, None)]})
    d.args = (c,)
    d.kwargs = {"other": a}
    assert list(b.users) == [c] and list(a.users) == [c, d]
    d.update_kwarg("other", b)
    d.insert_arg(0, 3)
    assert d.args == (3, c) and list(a.users) == [c]
    for change in (lambda: d.args[0].append(1), lambda: d.args[0][1].update(a=1), lambda: d.args[0].__setitem__(0, 1)):
        d.args = ([1, {"a": 2}],)
        with pytest.raises(TypeError, match="object does not support mutation"):
            change()
    with pytest.raises(AssertionError, match="op 'foo' is not in _legal_ops"):
        graph.create_node("foo", "x")
    with pytest.raises(ValueError, match="but a Callable is expected"):
        graph.call_function("relu")


def test_order_and_removal():
    graph = fx.Graph()
    a = graph.placeholder("a")
    b = graph.call_function(torch.relu, (a,))
    graph.output(b)
    with graph.inserting_before(b):
        c = graph.placeholder("c")
    with graph.inserting_after(b):
        d = graph.call_function(torch.sin, (b,))
    with graph.inserting_before():
        e = graph.placeholder("e")
    assert [node.name for node in graph.nodes] == ["e", "a", "c", "relu", "sin", "output"]
    assert next(iter(reversed(graph.nodes))).name == "output" and len(graph.nodes) == 6
    assert (e.next, d.prev) == (a, b)
    with pytest.raises(RuntimeError, match="Tried to erase Node a but it still had 1 users in the graph"):
        graph.erase_node(a)
    assert graph.eliminate_dead_code() and d not in list(graph.nodes) and not graph.eliminate_dead_code()
    graph.erase_node(c)
    with pytest.warns(UserWarning, match="on an already erased node"):
        graph.erase_node(c)
    for node in graph.nodes:  # removing the node that the loop has reached
        if node is e:
            graph.erase_node(e)
    with pytest.raises(AssertionError, match="Node to insert before is not in graph"):
        fx.Graph().inserting_before(a)
    with pytest.raises(AssertionError, match="Attempting to move a Node into a different Graph"):
        a.prepend(fx.Graph().placeholder("q"))
    graph.lint()
    b.append(a)
    with pytest.raises(RuntimeError, match="Argument 'a' of Node 'relu' was used before it has been defined"):
        graph.lint()


def test_copies_of_graphs():
    graph = fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
    graph.find_nodes(op="call_function")[0].meta["note"] = [1]
    other = copy.deepcopy(graph)
    assert str(other) == str(graph) and not set(other.nodes) & set(graph.nodes)
    assert other.find_nodes(op="call_function")[0].meta["note"] == [1]
    joined, copies = fx.Graph(), {}
    result = joined.graph_copy(graph, copies)
    assert result.name == "add" and len(copies) == 3
    joined.graph_copy(graph, {})
    assert [node.name for node in joined.nodes] == ["x", "relu", "add", "x_1", "relu_1", "add_1"]


def test_modules_need_what_their_graph_names():
    graph = fx.Graph()
    graph.output(graph.get_attr("inner.w"))
    with pytest.raises(
        RuntimeError, match="Node inner_w referenced target inner.w but that target was not provided in ``root``!"
    ):
        fx.GraphModule({}, graph)
    with pytest.raises(AttributeError):
        fx.GraphModule(nn.Module(), graph)
    with pytest.raises(RuntimeError, match="Unsupported type 3 passed for root!"):
        fx.GraphModule(3, graph)
    gm = fx.GraphModule({"inner.w": torch.ones(2)}, graph)
    assert gm().tolist() == [1, 1] and list(dict(gm.named_buffers())) == ["inner.w"]
    del gm.inner.w
    with pytest.raises(RuntimeError, match=r"Node inner_w target inner.w references nonexistent attribute w of inner"):
        graph.lint()
    with pytest.raises(AssertionError, match="Expected a Graph instance, but got <class 'int'>"):
        gm.graph = 3


def test_changes_take_effect_when_recompiled():
    gm = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    relu = gm.graph.find_nodes(op="call_function", target=torch.relu)[0]
    with gm.graph.inserting_after(relu):
        relu.replace_all_uses_with(gm.graph.call_function(torch.neg, relu.args))
    gm.graph.erase_node(relu)
    x = torch.tensor([-1.0, 2.0])
    assert gm(x).tolist() == [1, 3]
    gm.recompile()
    assert gm(x).tolist() == [2, -1] and fx.symbolic_trace(lambda x: x)(x) is x


def test_copies_and_pickles_of_modules():
    gm = fx.symbolic_trace(Net())
    gm.meta["note"] = 1
    x = torch.randn(3, 2)
    for other in (copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
        assert other.linear is not gm.linear and torch.equal(other(x), gm(x)) and other.code == gm.code
        assert other.meta == {"note": 1} and other.graph.owning_module is other and type(other) is not type(gm)
    shallow = copy.copy(gm)
    assert shallow.linear is gm.linear and shallow.graph is gm.graph
    layer = fx.symbolic_trace(torch.nn.Linear(2, 2))
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x), layer(x)), "its argument has an annotation"
    wrapped = pickle.loads(pickle.dumps(fx.symbolic_trace(lambda x: capped(x))))
    assert wrapped(torch.ones(2)).item() == 2
    with pytest.raises(pickle.PicklingError):
        graph = fx.Graph()
        graph.output(graph.call_function(lambda: 1))
        pickle.dumps(fx.GraphModule({}, graph))


def test_errors_in_generated_code_show_its_lines(capsys):
    gm = fx.symbolic_trace(lambda x: x.missing(1))
    with pytest.raises(AttributeError, match="has no attribute 'missing'") as caught:
        gm(torch.ones(1))
    written = capsys.readouterr().err
    assert "Call using an FX-traced Module, line 5 of the traced Module's generated forward function:" in written
    assert "    missing = x.missing(1);  x = None\n\n~" in written and " <--- HERE\n" in written
    assert caught.type is AttributeError
    outer = fx.symbolic_trace(lambda x: x + 1)
    try:
        outer(None)
    except TypeError as error:
        assert traceback.extract_tb(error.__traceback__)


def test_submodules():
    gm = fx.symbolic_trace(Net())
    assert gm.add_submodule("a.b", nn.ReLU()) and not gm.add_submodule("linear.weight.x", nn.ReLU())
    assert gm.delete_submodule("a.b") and not gm.delete_submodule("zz")
    gm.delete_all_unused_submodules()
    assert [name for name, _ in gm.named_modules()] == ["", "linear", "act"]


def test_interpreters():
    gm = fx.symbolic_trace(lambda x, y=2: x + y)
    assert fx.Interpreter(gm).run(1) == 3 and fx.Interpreter(gm).boxed_run([1, 5]) == 6
    add = gm.graph.find_nodes(op="call_function")[0]
    assert fx.Interpreter(gm).run(1, initial_env={add: 10}) == 10
    with pytest.raises(RuntimeError) as caught:
        fx.Interpreter(gm).run()
    assert str(caught.value).startswith(
        "Expected positional argument for parameter x, but one was not passed in!\n\nWhile executing %x"
    )
    with pytest.raises(RuntimeError, match="Node referenced nonexistent target , full target: foo"):
        fx.Interpreter(gm).fetch_attr("foo")
    net = Net()
    x = torch.randn(3, 2)
    interpreter = fx.Interpreter(fx.symbolic_trace(net))
    assert torch.equal(interpreter.run(x), net(x)) and len(interpreter.env) <= 1


def test_transformers_keep_meta():
    class Other(fx.Transformer):
        def call_method(self, target, args, kwargs):
            return super().call_method({"neg": "abs"}.get(target, target), args, kwargs)

    gm = fx.symbolic_trace(lambda x: torch.relu(x).neg() + 1)
    gm.graph.find_nodes(op="call_function")[0].meta["custom"] = {"a": 1}
    made = Other(gm).transform()
    assert code(made)[1:4] == [
        "relu = torch.relu(x);  x = None",
        "abs_1 = relu.abs();  relu = None",
        "add = abs_1 + 1;  abs_1 = None",
    ]
    assert made.graph.find_nodes(op="call_function")[0].meta["custom"] == {"a": 1}


def program(x, w1, w2):
    return x + torch.max(torch.cat([w1, w2]).sum()) + torch.max(torch.cat([w1, w2]).sum())


def escaping(x):
    a = x.neg()
    return a, a + 1


@pytest.mark.parametrize(
    ("root", "pattern", "replacement", "count", "lines"),
    [
        (
            program,
            lambda a, b: torch.cat([a, b]).sum(),
            lambda a, b: torch.stack([a, b]),
            2,
            "stack = torch.stack([w1, w2])",
        ),
        (
            lambda x: torch.relu(torch.relu(torch.relu(x))),
            lambda x: torch.relu(torch.relu(x)),
            lambda x: torch.sigmoid(x),
            1,
            "sigmoid = torch.sigmoid(x);  x = None",
        ),
        (lambda x, y: (x + y) * 2 + (y + x) * 3, lambda x, y: (x + y) * 2, lambda x, y: x - y, 1, "add_1 = y + x"),
        (escaping, lambda x: x.neg() + 1, lambda x: x.abs(), 0, "neg = x.neg();  x = None"),
        (lambda x: x + 1, lambda x: x + 2, lambda x: x - 1, 0, "add = x + 1;  x = None"),
        (lambda x: x + 1 + 2, lambda x, y: x + y, lambda x, y: x - y, 2, "sub = x - 1;  x = None"),
        (
            lambda x: (x.sin(), x.cos()),
            lambda x: (x.sin(), x.cos()),
            lambda x: (x.cos(), x.sin()),
            1,
            "cos_1 = x.cos()",
        ),
        (
            lambda x: torch.add(x, x, alpha=2),
            lambda x: torch.add(x, x),
            lambda x: x,
            0,
            "add = torch.add(x, x, alpha = 2);  x = None",
        ),
    ],
)
def test_patterns_are_replaced(root, pattern, replacement, count, lines):
    gm = fx.symbolic_trace(root)
    matches = fx.replace_pattern(gm, pattern, replacement)
    assert len(matches) == count and code(gm)[1] == lines
    gm.graph.lint()


def test_patterns_with_modules_and_filters():
    net = Net()
    gm = fx.symbolic_trace(net)
    (match,) = fx.replace_pattern(gm, Net(), Tanh())
    assert code(gm)[1:3] == ["linear_1 = self.linear(x);  x = None", "tanh = self.tanh(linear_1);  linear_1 = None"]
    assert gm.linear is net.linear and [name for name, _ in gm.named_children()] == ["linear", "tanh"]
    assert match.anchor.name == "act" and {own.name: node.name for own, node in match.nodes_map.items()} == {
        "act": "act",
        "linear": "linear",
        "x": "x",
    }
    gm = fx.symbolic_trace(lambda x: x.sin() + x.sin())
    replaced = fx.subgraph_rewriter.replace_pattern_with_filters(
        gm,
        lambda x: x.sin(),
        lambda x: x.cos(),
        match_filters=[lambda match, graph, pattern: match.returning_nodes[0].name == "sin_1"],
    )
    assert [one.replacements[0].target for one in replaced] == ["cos"] and gm.code.count("x.sin()") == 1


def test_shapes_of_results():
    gm = fx.symbolic_trace(Net())
    importlib.import_module("rushlight.fx.passes.shape_prop").ShapeProp(gm).propagate(torch.ones(3, 2))
    meta = gm.graph.find_nodes(op="call_module")[0].meta["tensor_meta"]
    assert (meta.shape, meta.dtype, meta.stride, meta.memory_format) == (
        (3, 2),
        torch.float32,
        (2, 1),
        torch.contiguous_format,
    )


def test_calls_with_proxies_of_two_graphs_are_refused():
    left, right = (fx.Proxy(fx.Graph().placeholder(name)) for name in "ab")
    with pytest.raises(RuntimeError, match="Found multiple different tracers"):
        torch.add(left, right)


def test_modules_are_written_to_folders(tmp_path, monkeypatch):
    gm = fx.symbolic_trace(Net())
    with pytest.warns(UserWarning, match="Was not able to save the following children modules as reprs"):
        gm.to_folder(tmp_path / "written")
    monkeypatch.setitem(sys.modules, "torch", torch)
    for name in ("fx", "fx._pytree", "utils", "utils._pytree", "nn"):
        monkeypatch.setitem(sys.modules, f"torch.{name}", importlib.import_module(f"rushlight.{name}"))
    monkeypatch.syspath_prepend(tmp_path)
    read = importlib.import_module("written").FxModule()
    x = torch.randn(3, 2)
    assert torch.equal(read(x), gm(x))


def test_functions_of_operator_are_entered_by_name():
    graph = fx.symbolic_trace(lambda x: operator.add(x, 1) + operator.getitem(x, 0)).graph
    assert [node.target for node in graph.find_nodes(op="call_function")] == [
        operator.add,
        operator.getitem,
        operator.add,
    ]


@pytest.mark.parametrize("call", [lambda x, y: torch.einsum("ij,jk", x, y), lambda x, y: torch.einsum("ij,jk", (x, y))])
def test_operands_in_a_tuple_are_recorded_one_by_one(call):
    (node,) = fx.symbolic_trace(call).graph.find_nodes(op="call_function")
    assert node.args[0] == "ij,jk" and [used.name for used in node.args[1:]] == ["x", "y"]
