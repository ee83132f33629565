"""`torch._foreach_*`: results of the operators for each tensor, and what is refused before anything changes."""

import pytest

import rushlight as torch

UNARY = ["abs", "exp", "neg", "sqrt", "tanh", "trunc"]
BINARY = ["add", "sub", "mul", "div", "clamp_max", "clamp_min", "maximum", "minimum", "pow"]


def tensors(start=1.0):
    return [torch.full((2,), start), torch.full((3,), start + 1)]


def lists(result):
    return [one.tolist() for one in result]


def operator(name, one, other):
    if name in ("maximum", "minimum"):
        other = torch.as_tensor(other, dtype=one.dtype)
    return getattr(torch, name)(one, other)


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name):
    given = tensors()
    expected = [getattr(torch, name)(one) for one in given]
    result = getattr(torch, f"_foreach_{name}")(given)
    assert type(result) is tuple and lists(result) == lists(expected)
    changed = getattr(torch, f"_foreach_{name}_")(given)
    assert all(one is before for one, before in zip(changed, given)) and lists(given) == lists(expected)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("other", [2, 1.5, [0, 3], "tensors"])
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name, other, in_place):
    given, other = tensors(), tensors(0.5) if other == "tensors" else other
    each = other if isinstance(other, list) else [other] * 2
    expected = [operator(name, one, second) for one, second in zip(given, each)]
    result = getattr(torch, f"_foreach_{name}{'_' * in_place}")(given, other)
    assert lists(result) == lists(expected) and (not in_place or lists(given) == lists(expected))


def test_further_operands():
    x, y = tensors(), tensors(2.0)
    assert lists(torch._foreach_add(x, y, alpha=2)) == [[5, 5], [8, 8, 8]]
    assert lists(torch._foreach_mul(x, torch.tensor(3.0))) == [[3, 3], [6, 6, 6]]
    assert lists(torch._foreach_pow(2, x)) == [[2, 2], [4, 4, 4]]
    assert lists(torch._foreach_addcmul(x, y, y, value=0.5)) == [[3, 3], [6.5, 6.5, 6.5]]
    assert lists(torch._foreach_addcdiv(x, y, y, [1, 2])) == [[2, 2], [4, 4, 4]]
    assert lists(torch._foreach_addcdiv(x, y, y, torch.tensor([1.0, 2.0]))) == [[2, 2], [4, 4, 4]]
    assert lists(torch._foreach_lerp(x, y, 0.5)) == lists(torch._foreach_lerp(x, y, [0.5, 0.5]))
    assert lists(torch._foreach_lerp_(x, y, tensors(1.0))) == [[2, 2], [4, 4, 4]]
    assert lists(torch._foreach_norm(x, 1)) == [4, 12] and lists(torch._foreach_max(x)) == [2, 4]
    assert lists(torch._foreach_powsum(x, 2)) == [8, 48]
    assert lists(torch._foreach_copy_(x, y)) == lists(y) == lists(torch._foreach_clone(y))
    assert lists(torch._foreach_zero_(x)) == [[0, 0], [0, 0, 0]]


def test_gradients():
    x = torch.ones(2, requires_grad=True)
    torch._foreach_mul([x], 3)[0].sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_unscaling_finds_what_is_not_finite():
    grads, found = tensors(), torch.zeros(1)
    torch._amp_foreach_non_finite_check_and_unscale_(grads, found, torch.tensor(0.5))
    assert lists(grads) == [[0.5, 0.5], [1, 1, 1]] and found.item() == 0
    torch._amp_foreach_non_finite_check_and_unscale_([torch.tensor([torch.inf])], found, torch.tensor(0.5))
    assert found.item() == 1


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda x: torch._foreach_add_([], 1), RuntimeError, "Tensor list must have at least one tensor."),
        (
            lambda x: torch._foreach_add_(x, [1]),
            RuntimeError,
            "Tensor list must have same number of elements as scalar",
        ),
        (lambda x: torch._foreach_add_(x, x[:1]), RuntimeError, "same number of tensors, got 2 and 1"),
        (lambda x: torch._foreach_lerp_(x, x[:1], 0.5), RuntimeError, "same number of tensors, got 2 and 1"),
        (
            lambda x: torch._foreach_mul_(x, torch.ones(2)),
            RuntimeError,
            "scalar tensor expected to be 0 dim but it has 1",
        ),
        (lambda x: torch._foreach_addcdiv_(x, x, x, torch.ones(3)), RuntimeError, "match input of length 2 but got 3"),
        (lambda x: torch._foreach_add_(x, "a"), TypeError, r"invalid combination of arguments - got \(list, str\)"),
        (lambda x: torch._foreach_mul_(x, x, alpha=2), TypeError, r"got \(list, list, alpha=int\)"),
        (
            lambda x: torch._foreach_sqrt_([x[0], 1]),
            TypeError,
            "expected Tensor as element 1 in argument 0, but got int",
        ),
        (lambda x: torch._foreach_max([torch.ones(0)]), RuntimeError, "cannot compute the maximum of an empty tensor"),
    ],
)
def test_what_is_refused_changes_nothing(call, error, message):
    x = tensors()
    with pytest.raises(error, match=message):
        call(x)
    assert lists(x) == lists(tensors())
