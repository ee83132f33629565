"""Every row survives arguments at random: each run is a process of its own, which must end by itself."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")

SCRIPT = Path(__file__).with_name("rows.py")
#: Cases of one process, and how many seconds they may take: many times what they need.
COUNT, PATIENCE = 550, 120


def attack(seed, first, current, *start):
    """What went wrong in one process, or nothing."""
    current.write_bytes(b"")
    numbers = map(str, (seed, first, COUNT))
    command = [sys.executable, "-X", "faulthandler", str(SCRIPT), *numbers, str(current), *start]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"no end after {PATIENCE} s: {current.read_text().rstrip()}"
    if done.returncode:
        return f"ended with {done.returncode}: {current.read_text().rstrip()}\n{done.stderr[-1500:]}"
    return None


def test_no_row_ends_the_process(thorough, tmp_path):
    runs = [(seed, part * COUNT) for seed in range(5) for part in range(20)] if thorough else [(0, 0)]
    found = [attack(seed, first, tmp_path / "current") for seed, first in runs]
    # Rows that only the engine calls have no public row before them that checks their operands.
    found += [attack(seed, first, tmp_path / "current", "_") for seed, first in runs]
    assert not any(found), "\n".join(filter(None, found))
