"""Warnings about broadcasts and reductions that may be unintended."""

import math
import warnings

import pytest

import rushlight as torch

pytest.importorskip("hypothesis")
from hypothesis import given

from rushlight.testing.strategies import broadcastable_shapes

backcompat = torch.utils.backcompat


def warnings_of(call, level):
    """The warning of `strict_broadcast` for a call."""
    with backcompat.strict_broadcast(level), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught]


def test_old_programs_may_ask_where_results_changed():
    try:
        backcompat.broadcast_warning.enabled = backcompat.keepdim_warning.enabled = True
        with pytest.warns(UserWarning, match=r"(?s)same number of elements.*Here \[4, 1\] and \[4\] make \[4, 4\]"):
            assert torch.add(torch.ones(4, 1), torch.ones(4)).shape == (4, 4)
        with pytest.warns(UserWarning, match="default value for keepdim"):
            assert torch.sum(torch.ones(2, 3), 1).tolist() == [3, 3]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            torch.ones(4, 1) + torch.ones(2)
            torch.ones(2, 3).sum()
            torch.ones(2, 3).sum(1, keepdim=False)
    finally:
        backcompat.broadcast_warning.enabled = backcompat.keepdim_warning.enabled = False


@pytest.mark.parametrize(
    ("a", "b", "level"),
    [
        ((4, 1), (4,), 1),
        ((2, 3, 1), (3, 2), 1),
        ((4, 1), (3,), 2),
        ((4, 1), (1, 4), 2),
        ((4, 1), (1, 3), 2),
        ((3, 4), (4,), 3),
        ((3, 4), (1, 4), 3),
        ((1, 4), (4,), 3),
        ((3, 4), (), None),
        ((3, 4), (1,), None),
        ((3, 4), (3, 4), None),
    ],
)
def test_each_pair_is_named_from_its_level_on(a, b, level):
    x, y = torch.ones(a), torch.ones(b)
    for asked in range(4):
        for call in (lambda: x - y, lambda: y * x, lambda: torch.where(x > 0, y, y), lambda: x.atan2(y)):
            assert bool(warnings_of(call, asked)) == (level is not None and level <= asked)


@given(broadcastable_shapes(2))
def test_the_levels_agree_with_a_slow_specification(shapes):
    a, b = (tuple(shape) for shape in shapes[0])
    rank = max(len(a), len(b))
    x, y = ((1,) * (rank - len(shape)) + shape for shape in (a, b))
    grows = [any(m == 1 and n != 1 for m, n in zip(*pair)) for pair in ((x, y), (y, x))]
    level = 9
    if all(grows):
        level = 1 if len(a) != len(b) and math.prod(a) == math.prod(b) else 2
    elif a != b and 1 not in (math.prod(a), math.prod(b)):
        level = 3
    for asked in range(4):
        assert bool(warnings_of(lambda: torch.ones(a) + torch.ones(b), asked)) == (level <= asked)


def test_the_warning_shows_the_shapes_and_the_line():
    x, y = torch.ones(4, 1), torch.ones(4)
    with backcompat.strict_broadcast(), pytest.warns(UserWarning) as caught:
        (x - y).sum()
    assert caught[0].filename == __file__
    assert str(caught[0].message).splitlines() == [
        "strict_broadcast: [4, 1] and [4] make [4, 4]",
        "  in sub with shapes, aligned to the right:",
        "    (4, 1)",
        "    (   4)",
        "        ^ axis 1",
        "  For an elementwise result give both the same shape first (squeeze, unsqueeze, reshape, or keepdim in a reduction).",
    ]


def test_it_may_be_an_exception():
    x, y = torch.ones(4, 1), torch.ones(4)
    with backcompat.strict_broadcast(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="strict_broadcast")
        with pytest.raises(UserWarning, match="make"):
            x - y
        with pytest.raises(UserWarning, match="make"), pytest.warns(UserWarning, match="target size"):
            torch.nn.functional.smooth_l1_loss(x, y)  # in the formula of an operator


def test_blocks_nest_and_derivatives_are_nobodys_slip():
    x, y = torch.ones(4, 1, requires_grad=True), torch.ones(4, requires_grad=True)

    def meant():
        with backcompat.strict_broadcast(0):
            z = x * y
        z.sum().backward()

    assert warnings_of(meant, 3) == []
    assert len(warnings_of(lambda: x * y, 3)) == 1
    assert warnings_of(lambda: x * y, 0) == []
    with pytest.raises(ValueError, match="the level must be 0, 1, 2 or 3"):
        backcompat.strict_broadcast(4)


def test_a_switch_is_a_bool():
    with pytest.raises(RuntimeError, match="set_backcompat_broadcast_warn expects a bool, but got str"):
        backcompat.broadcast_warning.enabled = "no"
    with pytest.raises(RuntimeError, match="set_backcompat_keepdim_warn expects a bool, but got int"):
        backcompat.keepdim_warning.enabled = 1
    with pytest.raises(RuntimeError, match=r"ambiguous_reduction.enabled expects a bool, but got str"):
        backcompat.ambiguous_reduction.enabled = "no"
    assert not any(
        switch.enabled
        for switch in (backcompat.broadcast_warning, backcompat.keepdim_warning, backcompat.ambiguous_reduction)
    )


def test_strictness_is_switched_as_its_siblings_are():
    column, row = torch.ones(3, 1), torch.ones(3)
    assert backcompat.strict_broadcast.enabled is False
    backcompat.strict_broadcast.enabled = True
    try:
        assert backcompat.strict_broadcast.enabled is True
        with pytest.warns(UserWarning, match="^strict_broadcast:"):
            column + row
        with pytest.raises(RuntimeError, match="strict_broadcast.enabled expects a bool"):
            backcompat.strict_broadcast.enabled = "no"
    finally:
        backcompat.strict_broadcast.enabled = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        column + row


@pytest.mark.parametrize(
    "call",
    [
        lambda column, row: torch.broadcast_tensors(column, row),
        lambda column, row: torch.distributions.Normal(column, row),
        lambda column, row: column.masked_fill(row > 0, 2.0),
        lambda column, row: column.masked_scatter(row > 0, torch.ones(9)),
        lambda column, row: column.masked_select(row > 0),
    ],
)
def test_functions_that_expand_their_operands_warn_once(call):
    (said,) = warnings_of(lambda: call(torch.ones(3, 1), torch.ones(3)), 1)
    assert "[3, 1] and [3] make [3, 3]" in said or "[3] and [3, 1] make [3, 3]" in said
    assert warnings_of(lambda: call(torch.ones(3, 3), torch.ones(3)), 2) == []
