"""Tests the hints in errors about shapes: after the suggested change, the call works.

Besides random shapes, it has the calls whose hints were wrong once, and the operator names in errors.
"""

import itertools
import re
from random import Random

import pytest

import rushlight as torch

F = torch.nn.functional

# The names of operands in messages, and the operands that they refer to.
CALLS = {
    "add": (torch.add, ("a", "b")),
    "lt": (torch.lt, ("a", "b")),
    "matmul": (torch.matmul, ("self", "other")),
    "mm": (torch.mm, ("mat1", "mat2")),
    "bmm": (torch.bmm, ("batch1", "batch2")),
    "addmm": (torch.addmm, ("", "mat1", "mat2")),
    "baddbmm": (torch.baddbmm, ("", "batch1", "batch2")),
    "linear": (F.linear, ("input", "weight", "bias")),
    "copy_": (lambda own, src: own.copy_(src), ("self", "src")),
    "attention": (F.scaled_dot_product_attention, ("query", "key", "value", "attn_mask")),
    "cat": (lambda *parts, dim=0: torch.cat(parts, dim), ()),
    "stack": (lambda *parts: torch.stack(parts), ()),
}
RANKS = {"mm": (2,), "bmm": (3,), "addmm": (2,), "baddbmm": (3,), "linear": (2,), "attention": (2, 3), "cat": (2, 3)}
PROPOSAL = re.compile(r"They would fit (after|in torch.cat with) (.*)\.$", re.MULTILINE)


def tried(name, shapes):
    """Whether there was a hint. If so, it must work."""
    function, names = CALLS[name]
    operands = [torch.ones(shape) for shape in shapes]
    try:
        function(*operands)
    except RuntimeError as error:
        message = str(error)
    else:
        return False
    proposal = PROPOSAL.search(message)
    if proposal is None:
        return False
    kind, what = proposal.groups()
    keywords = {}
    if kind != "after":
        keyword, value = what.split("=")
        keywords[keyword] = int(value)
    else:
        for change in what.split(" and "):
            operand, call = change.split(".", 1)
            at = names.index(operand)
            operands[at] = eval(f"operand.{call}", {"operand": operands[at]})
    function(*operands, **keywords)
    return True


@pytest.mark.parametrize("name", CALLS)
def test_what_is_proposed_works(name):
    random = Random(name)
    count = 3 if name in ("addmm", "baddbmm", "attention") else 2
    proposals = 0
    for _ in range(400):
        shapes = []
        for _ in range(random.choice((count, count + 1)) if name in ("linear", "attention") else count):
            rank = random.choice(RANKS.get(name, (1, 2, 3)))
            shapes.append([random.choice((1, 2, 3, 4)) for _ in range(rank)])
        if name == "linear" and len(shapes) == 3:
            shapes[2] = shapes[2][:1]
        proposals += tried(name, shapes)
    assert proposals > 2 or name == "stack"


def test_two_matrices_of_all_sizes():
    for a, b in itertools.product(itertools.product((1, 2, 3), repeat=2), repeat=2):
        tried("mm", (a, b))
        tried("matmul", (a, b))


@pytest.mark.parametrize(
    ("call", "way"),
    [
        # Neither a dimension nor a transposition would help.
        (lambda: torch.ones(2, 3, 4) @ torch.ones(3, 3, 4), "and batches must broadcast."),
        (
            lambda: torch.bmm(torch.ones(2, 3, 4), torch.ones(3, 3, 4)),
            "Batches must have the same length, and batch1 as many",
        ),
        (lambda: torch.ones(2, 3) + torch.ones(3, 2), "They would fit after b.transpose(-2, -1)."),
        (lambda: torch.ones(2, 3).copy_(torch.ones(3, 2)), "They would fit after src.transpose(-2, -1)."),
        (lambda: torch.ones(3).copy_(torch.ones(2, 3)), "copy_ never changes its tensor's shape"),
        (lambda: torch.ones(2, 3).copy_(torch.ones(4)), "copy_ keeps the shape of its tensor"),
        (lambda: F.linear(torch.ones(2, 3), torch.ones(3, 4)), "They would fit after weight.t()."),
        (
            lambda: F.scaled_dot_product_attention(*map(torch.ones, ((2, 3, 4), (2, 4, 3), (2, 4, 3)))),
            "They would fit after key.transpose(-2, -1) and value.transpose(-2, -1).",
        ),
        (
            lambda: F.scaled_dot_product_attention(*map(torch.ones, ((2, 3, 4), (2, 5, 4), (2, 5, 4), (5, 3)))),
            "They would fit after attn_mask.transpose(-2, -1).",
        ),
        (
            lambda: F.scaled_dot_product_attention(*map(torch.ones, ((2, 8, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4)))),
            "use enable_gqa=True for heads that share keys.",
        ),
        (lambda: torch.cat([torch.ones(2, 3), torch.ones(2, 4)]), "They would fit in torch.cat with dim=1."),
        (lambda: torch.cat([torch.ones(2, 3), torch.ones(3, 2)]), "Only sizes along dim may differ."),
    ],
)
def test_hints(call, way):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert way in str(caught.value).split("\n")[-1]


@pytest.mark.parametrize(
    ("call", "operator", "shapes"),
    [
        (lambda: torch.ones(3) @ torch.ones(2, 3), "matmul", [(3,), (2, 3)]),
        (lambda: torch.ones(2, 3, 4) @ torch.ones(3, 3), "matmul", [(2, 3, 4), (3, 3)]),
        (lambda: torch.ones(2, 3, 4) @ torch.ones(3, 4, 5), "matmul", [(2, 3, 4), (3, 4, 5)]),
        (lambda: torch.argsort(torch.ones(2, 3), dim=5), "argsort", [(2, 3)]),
        (lambda: torch.linalg.inv(torch.ones(2, 3)), "linalg.inv", [(2, 3)]),
        (lambda: torch.unique(torch.ones(2, 3), dim=5), "unique", [(2, 3)]),
        (lambda: F.mse_loss(torch.ones(2, 3), torch.ones(2, 2)), "nn.functional.mse_loss", [(2, 3), (2, 2)]),
        (lambda: torch.linalg.vecdot(torch.ones(2), torch.ones(3)), "linalg.vecdot", [(2,), (3,)]),
        (lambda: torch.where(torch.ones(2) > 0, torch.ones(3), torch.ones(4)), "where", [(2,), (3,)]),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_the_operator_that_was_called_is_named_with_its_operands(call, operator, shapes):
    with pytest.raises((RuntimeError, IndexError)) as caught:
        call()
    message = str(caught.value)
    assert re.search(r"^  in (\S+) with", message, re.MULTILINE).group(1) == operator
    shown = re.findall(r"^    \((.*)\)$", message, re.MULTILINE)
    assert [tuple(map(int, line.replace(",", " ").split())) for line in shown] == shapes
