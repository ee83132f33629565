"""The skeletons of kernels give NumPy's results on the card made of software, in several orders of threads."""

import subprocess
import sys
from pathlib import Path

import pytest
from soft_card import environment, needs_soft_card

pytestmark = needs_soft_card


@pytest.mark.parametrize("seed", [0, 3])
def test_kernels_of_all_skeletons(seed):
    program = Path(__file__).with_name("skeleton_program.py")
    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment(SOFTCUDA_SEED=seed),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0 and done.stdout == "equal\n", done.stdout + done.stderr
