"""What calls take beside tensors of one device: numbers, `out=`, and what they say to other arguments."""

import pytest

import rushlight as torch


def test_copy_of_a_number():
    x = torch.zeros(2)
    assert x.copy_(2.5) is x and x.tolist() == [2.5, 2.5]
    assert torch.zeros(2, dtype=torch.int32).copy_(2.5).tolist() == [2, 2]
    with pytest.raises(TypeError, match=r"^copy_\(\): argument 'src' \(position 1\) must be Tensor, not str"):
        x.copy_("a")


@pytest.mark.parametrize(
    "call",
    [
        lambda out: torch.add(torch.ones(3), 1, out=out),
        lambda out: torch.sum(torch.ones(3, 2), 1, out=out),
        lambda out: torch.cat([torch.ones(3)], out=out),
    ],
)
def test_out_on_another_device(call):
    sentence = "Attempting to copy from device cpu to device meta, but cross-device copies are not allowed!"
    with pytest.raises(RuntimeError, match=sentence):
        call(torch.empty(3, device="meta"))


def test_out_of_another_kind():
    x = torch.ones(3)
    with pytest.raises(TypeError, match=r"^add\(\): argument 'out' must be Tensor, not tuple"):
        torch.add(x, 1, out=(x,))
    with pytest.raises(TypeError, match="^expected tuple of 2 elements but got 1"):
        torch.sort(x, out=(x,))


def test_errors_of_arguments_name_the_family():
    with pytest.raises(TypeError, match=r"^linalg_cholesky\(\) missing 1 required positional arguments"):
        torch.linalg.cholesky()
