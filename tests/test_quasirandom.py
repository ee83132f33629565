"""Sobol' sequences: the values of torch for the same seed, and what holds for every sequence."""

import pytest

import rushlight as torch
from rushlight.quasirandom import SobolEngine


def test_the_first_points():
    points = SobolEngine(4).draw(6)
    assert points.tolist() == [
        [0, 0, 0, 0],
        [0.5, 0.5, 0.5, 0.5],
        [0.75, 0.25, 0.25, 0.25],
        [0.25, 0.75, 0.75, 0.75],
        [0.375, 0.375, 0.625, 0.875],
        [0.875, 0.875, 0.125, 0.375],
    ]


def test_scrambling_has_torchs_values():
    expected = [
        [0.1995, 0.1709, 0.7494],
        [0.6922, 0.7115, 0.4898],
        [0.8505, 0.2963, 0.7880],
        [0.3578, 0.8369, 0.0431],
    ]
    engine = SobolEngine(3, scramble=True, seed=7)
    torch.testing.assert_close(engine.draw(4), torch.tensor(expected), rtol=0, atol=5e-5)
    assert engine.shift.tolist() == (engine.reset().quasi).tolist()
    engine = SobolEngine(3, scramble=True, seed=5)
    assert engine.shift.tolist() == [515708045, 125905764, 133132919]
    assert engine.sobolstate[:, 0].tolist() == [619217127, 806952851, 628044183]


def test_scrambling_without_a_seed_uses_the_default_generator():
    torch.manual_seed(3)
    points, after = SobolEngine(2, scramble=True).draw(3), torch.rand(2)
    torch.testing.assert_close(
        points, torch.tensor([[0.0685, 0.2245], [0.6215, 0.7231], [0.9612, 0.4931]]), rtol=0, atol=5e-5
    )
    torch.testing.assert_close(after, torch.tensor([0.4729, 0.9328]), rtol=0, atol=5e-5)


def test_all_dimensions():
    engine = SobolEngine(SobolEngine.MAXDIM)
    assert engine.draw(3)[2, -3:].tolist() == [0.25, 0.75, 0.75]
    sums = engine.reset().draw(1030).double().sum(0)[::5555]
    torch.testing.assert_close(
        sums, torch.tensor([514.2588, 514.0850, 514.4092, 513.9229], dtype=torch.float64), rtol=0, atol=5e-5
    )
    # The first entry of every column but the first is odd, so that each dimension takes each value once.
    assert bool((engine.sobolstate[:, 0] == 2**29).all())


@pytest.mark.parametrize("scramble", [False, True])
def test_points_fill_the_cube_evenly(scramble):
    points = SobolEngine(50, scramble=scramble, seed=1).draw(256, dtype=torch.float64)
    cells = (points * 256).long().sort(0).values
    assert bool((cells == torch.arange(256).unsqueeze(1)).all())


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("parts", [[3, 4, 6], [1, 1, 11], [8, 5], [1, 12]])
def test_parts_of_a_sequence(scramble, parts):
    whole = SobolEngine(5, scramble=scramble, seed=1).draw(13)
    engine, skipping = SobolEngine(5, scramble=scramble, seed=1), SobolEngine(5, scramble=scramble, seed=1)
    assert torch.equal(torch.cat([engine.draw(part) for part in parts]), whole)
    for part in parts[:-1]:
        assert skipping.fast_forward(part) is skipping
    assert torch.equal(skipping.draw(parts[-1]), whole[-parts[-1] :]) and skipping.num_generated == 13
    assert engine.reset() is engine and torch.equal(engine.draw(13), whole)
    assert skipping.fast_forward(0).num_generated == 13


def test_powers_of_two():
    engine = SobolEngine(2)
    assert engine.draw_base2(3).shape == (8, 2) and engine.draw_base2(3).shape == (8, 2)
    engine.reset().draw(3)
    with pytest.raises(ValueError, match=r"3 points have been previously generated, then: n=3\+2\*\*2=7"):
        engine.draw_base2(2)


def test_results():
    out = torch.empty(0)
    assert SobolEngine(2).draw(3, out=out) is out and out.shape == (3, 2)
    assert SobolEngine(1).draw().tolist() == [[0]] and SobolEngine(1).draw().dtype is torch.float32
    assert SobolEngine(2).draw(2, dtype=torch.float64).dtype is torch.float64
    assert repr(SobolEngine(3)) == "SobolEngine(dimension=3)"
    assert repr(SobolEngine(3, scramble=True, seed=7)) == "SobolEngine(dimension=3, scramble=True, seed=7)"


def test_refusals():
    for dimension in (0, -1, 21202):
        with pytest.raises(ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"):
            SobolEngine(dimension)
    with pytest.raises(NotImplementedError, match="\"_sobol_engine_draw\" not implemented for 'Half'"):
        SobolEngine(2).draw(2, dtype=torch.half)
    with pytest.raises(RuntimeError, match=r"Trying to create tensor with negative dimension -1: \[-1, 2\]"):
        SobolEngine(2).draw(0)
    engine = SobolEngine(2).fast_forward(2**30 - 1)
    assert engine.draw(1).shape == (1, 2)
    with pytest.raises(RuntimeError, match="they are all drawn"):
        engine.draw(2)
