"""Names and edges of graph nodes, compared with torch's."""

import warnings

import pytest
from graph_names import GRAPHS

import rushlight as torch
from rushlight.nn import functional as F


def filled(*shape, shift=0.0):
    numel = torch.ones(shape).numel()
    return (torch.arange(numel, dtype=torch.float64) * 7 % 5 - 2.25 + shift).reshape(shape).requires_grad_()


def put(target, key, value):
    target[key] = value
    return target


def words():
    x, y, m = filled(2, 3), filled(2, 3, shift=0.5), filled(2, 3, shift=0.7)
    return {
        "torch": torch,
        "F": F,
        "setitem": put,
        "x": x,
        "y": y,
        "m": m,
        "z": x * 1,
        "p": (filled(2, 3).detach().abs() + 0.5).requires_grad_(),
        "q": filled(2, 2),
        "b": filled(2),
        "c": filled(2, 2, 3),
        "s": torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=torch.float64, requires_grad=True),
        "i": torch.tensor([0, 1]),
        "im": filled(1, 4, 4, 4),
        "w": filled(4, 4, 2, 2),
        "g": (filled(1, 2, 2, 2).detach() / 4).requires_grad_(),
    }


def shown(node, depth=4):
    if node is None:
        return "-"
    name = node.name().rpartition("::")[2].replace("Backward", "~").replace("AccumulateGrad", "*")
    following = node.next_functions if depth else ()
    inner = [shown(one, depth - 1) + (f".{place}" if one is not None and place else "") for one, place in following]
    return f"{name}({', '.join(inner)})" if inner else name


def results(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in results(item)] if isinstance(value, (tuple, list)) else []


@pytest.mark.parametrize("call", GRAPHS)
def test_graphs(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = eval(call, words())
    assert "; ".join(shown(tensor.grad_fn) for tensor in results(found)) == GRAPHS[call]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.smooth_l1_loss(x, torch.tensor([1.0, 0.5, -1.0, 1.0]).double()),
        lambda x: torch.linalg.cross(x.reshape(2, 2)[:, :1].expand(2, 3) * 1, torch.arange(6.0).reshape(2, 3).double()),
        lambda x: torch.linalg.lu(x.reshape(2, 2) + torch.eye(2) * 4)[1:],
        lambda x: torch.cdist(x.reshape(2, 2), x.reshape(2, 2)[:1] + 1.5),
    ],
)
def test_several_operators_in_one_node(function):
    """First and second derivatives work. A second backward fails after the first has freed the graph."""
    x = torch.tensor([0.5, -1.0, 2.0, 0.75], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (x,)) and torch.autograd.gradgradcheck(function, (x,))
    result = results(function(x))[0].sum()
    result.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        result.backward()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cdist(x, x[:1] + 1),
        lambda x: torch.pdist(x * 1),
        lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x),
        lambda x: torch.segment_reduce(x, "prod", lengths=torch.tensor([1, 1])),
    ],
)
def test_a_changed_result_that_the_parts_keep_is_noticed(function):
    x = torch.tensor([[2.0, 1.0], [0.5, 3.0]], dtype=torch.float64, requires_grad=True)
    found = function(x)
    found.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.sum().backward()


def test_what_a_gradient_must_look_like():
    x = torch.ones(2, 3, requires_grad=True)
    (meta,) = (x * 2).grad_fn._input_metadata
    assert (meta.shape, meta.dtype, meta.device) == ((2, 3), torch.float32, x.device) and not meta.is_nested_tensor


@pytest.mark.parametrize(
    ("function", "zeros_from"),
    [(lambda x: x**2, 3), (torch.square, 3), (lambda x: torch.float_power(x, 2), 3), (lambda x: x**3, 4)],
)
def test_powers_have_derivatives_that_are_zero(function, zeros_from):
    """The result after the last used one is present too, as zeros."""
    x = torch.tensor([1.5, -2.0], dtype=torch.float64, requires_grad=True)
    found = function(x)
    for order in range(1, zeros_from + 1):
        (found,) = torch.autograd.grad(found.sum(), x, create_graph=True)
        assert bool(found.count_nonzero()) == (order < zeros_from)
