"""The skeletons of kernels give NumPy's results on the card made of software, in several orders of threads."""

import subprocess
import sys
from pathlib import Path

from soft_card import environment, needs_soft_card

pytestmark = needs_soft_card


def test_kernels_of_all_skeletons(tmp_path):
    program = Path(__file__).with_name("skeleton_program.py")
    for seed in (0, 3):
        done = subprocess.run(
            [sys.executable, str(program), str(tmp_path)],
            env=environment(SOFTCUDA_SEED=seed),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0 and done.stdout == "equal\n", done.stdout + done.stderr
