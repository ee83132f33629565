"""Ranks that are killed: the others raise an error that names the dead one, go on without it, and nothing stays behind."""

import random

import kill_ranks
import pytest


@pytest.mark.parametrize("work", kill_ranks.WORKS)
def test_a_killed_rank(work, thorough):
    draw = random.Random(work)
    for _ in range(50 if thorough else 4):
        faults, errors, _ = kill_ranks.play(work, draw)
        assert faults == []
        assert len(errors) == kill_ranks.SIZE - 1
