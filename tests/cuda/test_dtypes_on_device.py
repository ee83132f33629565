"""Random calls in every dtype, layout and size give the CPU's results on a device; the calls are those of `dtype_program.py`."""

import subprocess
import sys
from pathlib import Path

import pytest
from card import environment, needs_card, run

pytestmark = needs_card

PROGRAM = Path(__file__).with_name("dtype_program.py")


@pytest.mark.parametrize(
    ("kind", "count"),
    [("elementwise", 100), ("reductions", 50), ("cumulative", 25), ("order", 50), ("attention", 8), ("long", 3)],
)
def test_results_are_those_of_the_cpu(kind, count, thorough):
    count *= 10 if thorough else 1
    done = subprocess.run(
        [sys.executable, str(PROGRAM), kind, "0", str(count)],
        env=environment(SOFTCUDA_SEED=1),
        capture_output=True,
        text=True,
        timeout=1800 if thorough else 300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_elements_behind_the_number_of_32_bits(thorough):
    """Offsets in bytes and in elements, and numbers of elements, need more than 31 bits."""
    if not thorough:
        pytest.skip("takes two gigabytes and a minute")
    run(
        """
count = 2**31 + 5
x = torch.empty(count, dtype=torch.uint8, device="cuda")
places = [0, 1, 2**31 - 1, 2**31, count - 2, count - 1]
assert x.fill_(1)[places].tolist() == [1] * 6
assert x.add_(1)[places].tolist() == [2] * 6
x[::2].add_(5)
assert x[places].tolist() == [7, 2, 2, 7, 2, 7]
assert x.sum(dtype=torch.int64).item() == 2 * count + 5 * (count // 2 + 1)
""",
        SOFTCUDA_MEMORY=5 * 2**30,
    )
