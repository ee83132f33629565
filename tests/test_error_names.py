"""The names of operands and parameters in error messages."""

import pytest

import rushlight as torch
from rushlight import nn


def said(call):
    with pytest.raises((RuntimeError, ValueError, IndexError)) as caught:
        call()
    return str(caught.value).split("\n")


def test_operands_have_their_names_beside_their_shapes():
    images, weights = torch.ones(5, 2, 4), torch.ones(3, 1)

    def add():
        return images + weights

    lines = said(add)
    assert lines[0] == "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1"
    assert lines[2:] == [
        "    (5, 2, 4)  images",
        "    (   3, 1)  weights",
        "        ^ axis 1",
        "  They would fit after images.unsqueeze(2).",
    ]


class Holder:
    weight = torch.ones(2, 3)


HOLDER, ROWS, LIST = Holder(), torch.ones(4, 5), [torch.ones(7, 2)]


@pytest.mark.parametrize(
    "call, names",
    [
        (lambda: HOLDER.weight @ ROWS, ["HOLDER.weight", "ROWS"]),
        (lambda: torch.matmul(HOLDER.weight, ROWS), ["HOLDER.weight", "ROWS"]),
        (lambda: HOLDER.weight.matmul(ROWS), ["HOLDER.weight", "ROWS"]),
        (lambda: torch.add(ROWS, LIST[0], alpha=2), ["ROWS", "LIST[0]"]),
        (lambda: torch.cat([ROWS, HOLDER.weight], 0), ["ROWS", "HOLDER.weight"]),
        (lambda: ROWS + torch.ones(3, 3), ["ROWS", ""]),
        (
            lambda: torch.mul(
                ROWS,
                HOLDER.weight,
            ),
            ["ROWS", "HOLDER.weight"],
        ),
    ],
)
def test_names_from_every_kind_of_call(call, names):
    lines = [line for line in said(call) if line.startswith("    (")]
    assert [line.partition(")")[2].strip() for line in lines] == names


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.add(*(ROWS, HOLDER.weight)),
        lambda: nn.Linear(3, 4)(ROWS),
        lambda: eval("ROWS + HOLDER.weight"),
        lambda: torch.where(ROWS > 0, ROWS, LIST[0]),
    ],
)
def test_no_names_where_the_line_does_not_tell(call):
    assert not any(line.startswith("    (") and not line.endswith(")") for line in said(call))


def test_a_changed_parameter_has_its_name():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

        def forward(self, x):
            return self.layers(x)

    net = Net()
    loss = net(torch.ones(1, 2, requires_grad=True)).sum()
    with torch.no_grad():
        net.layers[0].weight.mul_(2)
    text = "\n".join(said(loss.backward))
    assert "\n  the parameter 'layers.0.weight' of Net was changed in place at " in text
    other = torch.ones(2, requires_grad=True)
    loss = other.exp().sum() + (other * other).sum()
    with torch.no_grad():
        other.mul_(2)
    assert "the parameter" not in "\n".join(said(loss.backward))
