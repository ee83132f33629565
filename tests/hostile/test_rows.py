"""Every row survives arguments at random: a slice of what `fuzz_rows.py` does by hand."""

import pytest

pytest.importorskip("numpy")

from fuzz_rows import attack


@pytest.mark.parametrize("kind", ["rows", "engine"])
def test_no_row_ends_the_process(kind, thorough, tmp_path):
    calls, seeds = (20_000, range(5)) if thorough else (600, [0])
    found = [finding for seed in seeds for finding in attack(kind, seed, 0, calls, tmp_path / "current")]
    assert not found, "\n".join(found)
