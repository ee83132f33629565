"""Changes in place: versions, what may be changed, and how history follows views."""

import pytest

import rushlight as torch


def test_versions_are_shared_with_views():
    x = torch.zeros(4)
    assert x._version == 0
    x.add_(1)
    assert x._version == 1
    x[:2].mul_(2)
    assert x._version == 2 and x[1:]._version == 2


def test_a_changed_saved_tensor_names_both_lines():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    message = str(caught.value)
    assert message.startswith(
        "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTensor [3]], which is output 0 of "
    )
    assert "is at version 1; expected version 0 instead" in message
    assert "y.add_(1)" in message and "y = x.exp()" in message
    assert message.count("test_inplace.py") >= 2


def test_leaves_that_require_grad_stay():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"a leaf Variable that requires grad is being used in an in-place operation."
    ):
        x.add_(1)
    with pytest.raises(
        RuntimeError, match=r"a view of a leaf Variable that requires grad is being used in an in-place operation."
    ):
        x[:2].add_(1)
    with torch.no_grad():
        x.add_(1)
    assert x.tolist() == [2, 2, 2]


def test_a_view_carries_the_change_to_its_base():
    x = torch.ones(4, requires_grad=True)
    base = x * 1
    view = base[:2]
    view.mul_(3)
    base.sum().backward()
    assert x.grad.tolist() == [3, 3, 1, 1]


def test_siblings_follow():
    x = torch.ones(4, requires_grad=True)
    base = x * 1
    a, b = base[:3], base[1:]
    a.mul_(2)
    (b * b).sum().backward()
    assert b.tolist() == [2, 2, 1]
    assert x.grad.tolist() == [0, 8, 8, 2]


def test_outputs_of_several_views_may_not_change():
    x = torch.ones(3, requires_grad=True)
    first, *_ = (x * 1).unbind()
    with pytest.raises(RuntimeError, match=r"Output 0 of Unbind is a view and is being modified inplace"):
        first.add_(1)


def test_assignment_is_recorded():
    x = torch.ones(3, requires_grad=True)
    y = torch.zeros(4)
    y[1:] = x * 2
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_the_result_must_fit():
    x = torch.ones(1, 3)
    with pytest.raises(RuntimeError, match=r"output with shape \[1, 3\] doesn't match the broadcast shape \[2, 3\]"):
        x.add_(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"result type Float can't be cast to the desired output type Long"):
        torch.ones(3, dtype=torch.int64).add_(1.5)
    with pytest.raises(
        RuntimeError, match=r"more than one element of the written-to tensor refers to a single memory location"
    ):
        torch.ones(1).expand(3).add_(1)


def test_optimizers_change_the_same_memory():
    p = torch.nn.Parameter(torch.ones(3))
    address = p.data_ptr()
    optimizer = torch.optim.SGD([p], lr=0.1)
    (p * 2).sum().backward()
    optimizer.step()
    assert p.data_ptr() == address
    assert torch.allclose(p.detach(), torch.full((3,), 0.8))


@pytest.mark.xfail(strict=True, reason="the copy that is saved of a changed tensor has no history")
@pytest.mark.parametrize(
    ("change", "second"),
    [
        (lambda y, x: y.sin_(), lambda x: -x.sin()),
        (lambda y, x: y.log_(), lambda x: -1 / x**2),
        (lambda y, x: y.pow_(3), lambda x: 6 * x),
        (lambda y, x: y.mul_(x), lambda x: 2 + 0 * x),
    ],
)
def test_second_derivatives_of_changes(change, second):
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(change(x.clone(), x).sum(), x, create_graph=True)
    (found,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(found, second(x.detach()))
