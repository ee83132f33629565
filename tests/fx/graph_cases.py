"""Programs, and the text and code of their graphs. Run as a program, it records torch's.

`python tests/fx/graph_cases.py` needs torch and writes `tests/data/graphs.json`, which `test_recorded_graphs.py` reads.
"""

import json
import math
import operator
import typing
from pathlib import Path

RECORDED = Path(__file__).resolve().parent.parent / "data" / "graphs.json"


def programs(torch):
    """The programs by name: what is traced, and the arguments of `symbolic_trace`."""
    F, nn = torch.nn.functional, torch.nn
    hole = torch.fx._symbolic_trace.PH

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.param = nn.Parameter(torch.ones(3, 4))
            self.linear = nn.Linear(4, 5)
            self.inner = nn.Sequential(nn.Linear(5, 5), nn.ReLU())
            self.register_buffer("buf", torch.ones(5))

        def forward(self, x: torch.Tensor, y: int = 3, *args, flag: bool | None = None, **rest) -> torch.Tensor:
            h = self.inner(self.linear(x + self.param).clamp(min=0.0, max=1.0)) + self.buf
            return torch.topk(torch.sum(h, dim=-1), 3)[0] * h.shape[0] + math.pi * h.size(1) + y

    class Lists(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])
            self.named = nn.ModuleDict({"a": nn.ReLU()})
            self.params = nn.ParameterList([nn.Parameter(torch.ones(2))])
            self.plain = torch.ones(2)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.named["a"](x) + self.params[0] + self.layers[0].weight.sum() + torch.ones(2) + self.plain

    def operators(x, y):
        z = [-x, ~x, +x, abs(x), x // 2, 2 - x, x**2, 2**x, x @ y, x % 2, x < y, x <= y, x == y, x != y, x > y, x >= y]
        z += [x >> 1, x << 1, x & y, x | y, x ^ y, x / y, 1 / x, x[0], x[1:2, None, ...], x.T, x.foo.bar, x.foo(1, b=2)]
        a, b = x
        x += y
        x *= a
        return z, {"a": x, "b": [y, (b,)]}, slice(0, x, None)

    def functions(x, y):
        z = F.softmax(F.relu(x), dim=1) + F.dropout(x, 0.5) + torch.cat([x, y], 1) + F.linear(x, y) + F.pad(x, (1, 2))
        z = z + F.interpolate(x, scale_factor=2.0) + F.conv2d(x, y) + F.scaled_dot_product_attention(x, y, y)
        z = z + F.layer_norm(x, (3,)) + F.gelu(x) + F.one_hot(x, 3) + torch.linalg.norm(x) + torch.fft.fft(x)
        z = z + torch.einsum("ij,jk->ik", x, y) + F.cross_entropy(x, y) + torch.where(x > 0, x, y) + torch.ones(2)
        return z + torch.special.erf(x) + torch.add(x, y, alpha=2) + torch.zeros((x.shape[0], 2), dtype=torch.int64)

    def constants(x):
        return x.foo("a'b\n", 1.5, math.inf, math.nan, 1j, None, True, torch.float32, torch.strided, torch.Size([1, 2]))

    def devices(x):
        return x.to("cpu").to(torch.device("cpu")).to(torch.float64, non_blocking=True)

    def annotated(
        a: typing.List[int],  # noqa: UP006
        b: typing.Tuple[torch.Tensor, int],  # noqa: UP006
        c: list[int],
        d: typing.Optional[torch.Tensor],  # noqa: UP045
        e: "torch.Tensor",
        f: int | None = None,
        g: typing.Tuple[int, ...] = (1, 2),  # noqa: UP006
        h: torch.dtype = torch.float32,
    ) -> torch.Tensor:
        return a

    def autowrapped(x, y):
        return math.sqrt(x) + math.floor(y)

    def held(x):
        constant = torch.arange(3)
        return constant + x, constant - x, constant[x], x + constant

    return {
        "mixed": (Mixed(), {}),
        "lists": (Lists(), {}),
        "sequential": (nn.Sequential(nn.Linear(2, 3), nn.ReLU()), {}),
        "linear": (nn.Linear(2, 3), {}),
        "operators": (operators, {}),
        "functions": (functions, {}),
        "constants": (constants, {}),
        "devices": (devices, {}),
        "annotated": (annotated, {}),
        "autowrapped": (autowrapped, {}),
        "held": (held, {}),
        "nothing": (lambda x: None, {}),
        "number": (lambda x: 5, {}),
        "stars": (lambda x, *rest, **named: x + rest[0] + named["q"], {}),
        "keywords": (lambda x, *, z, w=2: x + z + w, {}),
        "branch": (lambda x, y: x + 1 if y else x - 1, {"concrete_args": {"y": True}}),
        "none": (lambda x, y=None: x + 1 if y is None else x - 1, {"concrete_args": {"y": None}}),
        "count": (lambda x, n: x * n, {"concrete_args": {"n": 3}}),
        "tree": (lambda x: {"s": x["a"] + x["b"][0]}, {"concrete_args": {"x": {"a": hole, "b": [hole]}}}),
        "part": (lambda x, y: (x + y[0], y[1]), {"concrete_args": {"y": (hole, 2)}}),
    }


def built(torch):
    """Graphs that are made node by node."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x", torch.Tensor)
    y = graph.call_function(torch.relu, (x,), type_expr=torch.Tensor)
    graph.call_function(operator.iadd, (x, y))
    z = graph.call_function(operator.imul, (x, 2))
    graph.call_function(operator.setitem, (x, 0, z))
    graph.call_method("foo", (z,), {"key": 1})
    graph.call_function(getattr, (x, "not a name"))
    graph.call_function(getattr, (x, "name", 1))
    graph.call_function(torch.ops.aten.add.Tensor, (x, y))
    for name in ("linear", "Linear", "a.b.0", "layer1.0.conv", "weirdName", "__add__", "T"):
        graph.call_module(name, (x,))
        graph.get_attr(name)
    graph.output((x, z), torch.Tensor)
    return {"statements": graph}


NAMES = """x x x_1 x_1 x_3 x x_3 x_2 sum None self torch inf 1a a.b a-b _ X MyMod HTTPServer x_01 x_0 list x_1_1 add add_5 add
    add_3 add_3 conv_0 conv_0 a_1 a a_1 b_2 b b b_2 b_9 b b_2 if class print x__1 x_ x_ BatchNorm2d ReLU aB1C device 0"""


def names(torch):
    """The names that nodes get for targets."""
    graph = torch.fx.Graph()
    return [graph.placeholder(name).name for name in NAMES.split()]


def measure(torch):
    graphs = {}
    for name, (root, options) in programs(torch).items():
        graph = torch.fx.symbolic_trace(root, **options).graph
        graphs[name] = {"code": graph.python_code("self").src, "text": str(graph)}
    for name, graph in built(torch).items():
        graphs[name] = {"code": graph.python_code("self").src, "text": str(graph)}
    return {"graphs": graphs, "names": names(torch)}


if __name__ == "__main__":
    import torch
    import torch.fx

    RECORDED.write_text(json.dumps(measure(torch), indent=1) + "\n")
