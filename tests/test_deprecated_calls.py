"""Call signatures of old torch versions that still work: a number before the tensor that it scales."""

import warnings

import pytest

import rushlight as torch

A = torch.tensor([1.0, 2.0])
M = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
B = M[None]

#: The old call, and the current one.
CALLS = [
    ("a.add(2, a)", "a.add(a, alpha=2)"),
    ("a.clone().add_(-0.5, a)", "a.clone().add_(a, alpha=-0.5)"),
    ("torch.add(a, 2, a)", "torch.add(a, a, alpha=2)"),
    ("torch.add(a, 2, a, out=torch.empty(2))", "torch.add(a, a, alpha=2)"),
    ("a.sub(2, a)", "a.sub(a, alpha=2)"),
    ("a.add(2, 3)", "a.add(3, alpha=2)"),
    ("a.clone().addcmul_(2, a, a)", "a.addcmul(a, a, value=2)"),
    ("torch.addcmul(a, 2, a, a)", "torch.addcmul(a, a, a, value=2)"),
    ("a.clone().addcdiv_(-0.1, a, a + 1)", "a.addcdiv(a, a + 1, value=-0.1)"),
    ("m.addmm(2, m, m)", "m.addmm(m, m, beta=2)"),
    ("m.addmm(2, 3, m, m)", "m.addmm(m, m, beta=2, alpha=3)"),
    ("torch.addmm(2, m, m, m)", "torch.addmm(m, m, m, beta=2)"),
    ("torch.addmm(2, m, 3, m, m)", "torch.addmm(m, m, m, beta=2, alpha=3)"),
    ("a.addmv(2, 3, m, a)", "a.addmv(m, a, beta=2, alpha=3)"),
    ("torch.addr(2, m, 3, a, a)", "torch.addr(m, a, a, beta=2, alpha=3)"),
    ("b.clone().baddbmm_(2, 3, b, b)", "b.baddbmm(b, b, beta=2, alpha=3)"),
    ("m.addbmm(2, b, b)", "m.addbmm(b, b, beta=2)"),
    ("a.clone().add_(2, other=a)", "a.add(a, alpha=2)"),
    ("torch.add(a, 2, other=a)", "torch.add(a, a, alpha=2)"),
    ("torch.add(a, torch.tensor(2), a)", "torch.add(a, a, alpha=2)"),
    ("torch.sub(torch.tensor(3.0), torch.tensor(2), torch.tensor(1.0))", "torch.tensor(1.0)"),
    ("torch.add(torch.tensor(True), torch.tensor(True), True)", "torch.tensor(True)"),
    ("a.addcmul(2, a, tensor2=a)", "a.addcmul(a, a, value=2)"),
    ("torch.addcmul(a, 2, tensor1=a, tensor2=a)", "torch.addcmul(a, a, a, value=2)"),
    ("torch.addmm(2, m, m, mat2=m)", "torch.addmm(m, m, m, beta=2)"),
    ("torch.addmm(torch.tensor(2), m, 3, mat1=m, mat2=m)", "torch.addmm(m, m, m, beta=2, alpha=3)"),
    ("m.addmm(2, torch.tensor(3), m, m)", "m.addmm(m, m, beta=2, alpha=3)"),
]


def run(text):
    return eval(text, {"torch": torch, "a": A, "m": M, "b": B})


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("older, today", CALLS)
def test_values(older, today):
    assert torch.equal(run(older), run(today))


@pytest.mark.filterwarnings("ignore:This overload of")
def test_gradients():
    x = torch.ones(2, requires_grad=True)
    x.add(3, x).sum().backward()
    assert x.grad.tolist() == [4, 4]


@pytest.mark.parametrize(
    "text",
    [
        "a.mul(2, a)",
        "torch.rsub(a, 2, a)",
        "a.add('2', a)",
        "torch.addmm(m, 2, m, m)",
        "torch.add(a, a, a)",
        "torch.add(a, 2, a, other=a)",
    ],
)
def test_other_calls_stay_refused(text):
    with pytest.raises(TypeError):
        run(text)


def test_the_older_way_is_told():
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run("torch.addmm(2, m, 3, m, m)")
            run("a.clone().add_(2, a)")
    finally:
        torch.set_warn_always(before)
    function, method = (str(warning.message) for warning in caught)
    assert function.startswith(
        "This overload of addmm is deprecated:\n"
        "\taddmm(Number beta, Tensor input, Number alpha, Tensor mat1, Tensor mat2, *, Tensor out = None)\n"
        "Consider using one of the following signatures instead:\n"
        "\taddmm(Tensor input, Tensor mat1, Tensor mat2, *, Number beta = 1, Number alpha = 1, Tensor out = None)"
    )
    assert method.startswith(
        "This overload of add_ is deprecated:\n\tadd_(Number alpha, Tensor other)\n"
        "Consider using one of the following signatures instead:\n\tadd_(Tensor other, *, Number alpha = 1)"
    )


def test_legacy_constructors_take_no_device_with_a_tensor():
    x = torch.ones(2)
    for make, form in (
        (torch.Tensor, "constructor of the form torch.Tensor"),
        (torch.FloatTensor, "constructor of the form torch.Tensor"),
        (x.new, "new of the form tensor.new"),
    ):
        with pytest.raises(RuntimeError, match=rf"Legacy tensor {form}\(tensor, device=device\) is not supported"):
            make(x, device="cpu")
        assert make([1.0, 2.0], device="cpu").tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="type 'torch.FloatTensor' is not an acceptable base type"):
        type(torch.FloatTensor)("Mine", (torch.FloatTensor,), {})
