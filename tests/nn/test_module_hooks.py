"""Hooks around the call of a module and around its gradients."""

import copy

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.modules import module as registries


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return x * self.weight


class Plus(nn.Module):
    def forward(self, x, y=1):
        if x == 99:
            raise ValueError("boom")
        return x + y


def test_forward_hooks_run_in_order_and_replace():
    module = Plus()
    seen = []
    module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    module.register_forward_pre_hook(lambda m, args: seen.append(args), prepend=True)
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"y": 10}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, out: out * 2)
    handle = module.register_forward_hook(
        lambda m, args, kwargs, out: seen.append((args, kwargs, out)), with_kwargs=True, prepend=True
    )
    assert module(1) == 24
    assert seen == [(1,), ((2,), {"y": 10}, 12)]
    handle.remove()
    assert module(1) == 24 and len(seen) == 3
    assert not module._forward_hooks_with_kwargs
    with module.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True):
        with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple of"):
            module(1)
    assert module(1) == 24


def test_always_called_hooks_see_errors():
    module = Plus()
    seen = []
    module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    module.register_forward_hook(lambda m, args, out: seen.append((args, out)), always_call=True)
    with pytest.raises(ValueError, match="boom"):
        module(98)
    assert seen == [((99,), None)]
    module(1)
    assert seen[1:] == [((2,), 3)]


def test_hooks_for_all_modules():
    seen = []
    handles = [
        registries.register_module_forward_pre_hook(lambda m, args: seen.append(f"before {type(m).__name__}")),
        registries.register_module_forward_hook(lambda m, args, out: seen.append(f"after {type(m).__name__}")),
        registries.register_module_parameter_registration_hook(lambda m, name, p: seen.append(f"register {name}")),
    ]
    nn.Sequential(nn.Linear(1, 1))(torch.ones(1, 1))
    for handle in handles:
        handle.remove()
    nn.Linear(1, 1)(torch.ones(1, 1))
    assert seen == [
        "register weight", "register bias", "before Sequential", "before Linear", "after Linear", "after Sequential",
    ]  # fmt: skip


def test_copies_keep_their_hooks():
    seen = []
    module = Plus()
    module.register_forward_hook(lambda m, args, out: seen.append(out))
    copy.deepcopy(module)(1)
    assert seen == [2]


def test_full_backward_hooks_see_both_sides():
    module = Scale()
    seen = []
    module.register_full_backward_hook(lambda m, grad_in, grad_out: seen.append((grad_in, grad_out)))
    x = torch.ones(2, requires_grad=True)
    (module(x) * 3).sum().backward()
    ((grad_in,), (grad_out,)) = seen[0]
    assert grad_in.tolist() == grad_out.tolist() == [3, 3]


def test_full_backward_hooks_replace_gradients():
    module = Scale()
    module.register_full_backward_hook(lambda m, grad_in, grad_out: (grad_in[0] * 10,))
    module.register_full_backward_pre_hook(lambda m, grad_out: (grad_out[0] * 10,))
    x = torch.ones(2, requires_grad=True)
    module(x).sum().backward()
    assert x.grad.tolist() == [100, 100]
    assert module.weight.grad.tolist() == [10, 10]


def test_places_of_arguments_that_are_no_tensors():
    class Two(nn.Module):
        def forward(self, x, k):
            return x * k, k

    module = Two()
    seen = []
    module.register_full_backward_hook(lambda m, grad_in, grad_out: seen.append((grad_in, grad_out)))
    x = torch.ones(1, requires_grad=True)
    module(x, 3)[0].sum().backward()
    grad_in, grad_out = seen[0]
    assert grad_in[0].tolist() == [3] and grad_in[1] is None
    assert grad_out[0].tolist() == [1] and grad_out[1] is None


def test_backward_hook_errors():
    x = torch.ones(2, requires_grad=True)
    module = Scale()
    module.register_full_backward_hook(lambda m, grad_in, grad_out: (None, None))
    with pytest.raises(
        RuntimeError, match="Backward hook returned an invalid number of grad_input, got 2, but expected 1"
    ):
        module(x).sum().backward()
    with pytest.raises(
        RuntimeError, match="Cannot use both regular backward hooks and full backward hooks on a single"
    ):
        module.register_backward_hook(print)
    module = Scale()
    seen = []
    module.register_full_backward_hook(lambda m, grad_in, grad_out: seen.append(grad_in))
    with pytest.warns(
        UserWarning, match="Full backward hook is firing when gradients are computed with respect to module outputs"
    ) as caught:
        module(torch.ones(2)).sum().backward()
    assert seen == [(None,)] and caught[0].filename == __file__


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_a_backward_hook_keeps_the_size_of_a_gradient(register):
    layer = nn.Linear(2, 2)
    getattr(layer, register)(lambda *_: (torch.ones(3),))
    with pytest.raises(RuntimeError, match="hook 'hook' has changed the size of value"):
        layer(torch.ones(1, 2, requires_grad=True)).sum().backward()


def test_a_backward_hook_keeps_the_type_of_a_gradient():
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda layer, inputs, outputs: (inputs[0].double(),))
    sentence = r"hook 'hook' has changed the type of value \(was torch.FloatTensor got torch.DoubleTensor\)"
    with pytest.raises(RuntimeError, match=sentence):
        layer(torch.ones(1, 2, requires_grad=True)).sum().backward()


@pytest.mark.parametrize(
    ("register", "seen"),
    [
        ("register_full_backward_hook", ((torch.tensor([2.0]), torch.tensor([0.0])), (torch.tensor([1.0]), None))),
        ("register_full_backward_pre_hook", ((torch.tensor([1.0]), None),)),
    ],
)
def test_an_output_without_use_gives_zeros(register, seen):
    class Two(nn.Module):
        def forward(self, x, y):
            return x * 2, y * 3

    module, called = Two(), []
    getattr(module, register)(lambda module, *grads: called.append(grads))
    a, b = (torch.ones(1, requires_grad=True) for _ in range(2))
    module(a, b)[0].sum().backward()
    assert called == [seen] and (a.grad, b.grad) == (torch.tensor([2.0]), torch.tensor([0.0]))


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_a_backward_hook_returns_tensors(register):
    module = Scale()
    getattr(module, register)(lambda *_: "a")
    with pytest.raises(TypeError, match="^expected Variable, but hook returned 'str'$"):
        module(torch.ones(2, requires_grad=True)).sum().backward()
