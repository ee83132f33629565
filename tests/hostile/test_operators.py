"""Every operator and every public name survives random arguments: a small part of `fuzz_operators.py`."""

import subprocess
import sys

import pytest

pytest.importorskip("numpy")

from fuzz_operators import attack


@pytest.mark.parametrize("kind", ["operators", "engine", "names"])
def test_no_call_ends_the_process(kind, thorough, tmp_path):
    calls, seeds = (20_000, range(5)) if thorough else (600, [0])
    found = [finding for seed in seeds for finding in attack(kind, seed, 0, calls, tmp_path / "current")]
    assert not found, "\n".join(found)


FOUND = """
import resource
import rushlight as torch
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
rows, many = torch._C._functions[""], 2**62
torch.empty(2**40, 1024, device="meta").fill_diagonal_(1.0, wrap=True)
nothing = rows["embedding_dense_backward"](torch.ones(0), torch.zeros(0, 0, 3, dtype=torch.int64), many, -1, False)
assert nothing.shape == (many, 0)
for sizes in ([many], [many]), ([2, 2**63 - 1], [2, 3]):
    try:
        rows["_fractional_max"](torch.ones(2, 5, 6), *sizes, torch.rand(2, 2))
    except RuntimeError:
        continue
    raise SystemExit(f"{sizes} fit")
for lengths in ([many, many], [2**63 - 1, 1]):
    try:
        torch.gru(torch.rand(5, 3), torch.tensor(lengths), torch.rand(1, 2, 4), [torch.rand(12, 3), torch.rand(12, 4)],
                  False, 1, 0.0, False, False)
    except RuntimeError:
        continue
    raise SystemExit(f"{lengths} add up")
wide = torch.conv_transpose1d(torch.ones(1, 2, 3), torch.ones(2, 2, 70_000))
assert wide[0, :, :4].tolist() == [[2, 4, 6, 6]] * 2 and wide.sum() == 2 * 2 * 3 * 70_000
try:
    torch.nn.functional.cross_entropy(torch.ones(()), torch.ones(()), torch.ones(1))
except IndexError:
    pass
else:
    raise SystemExit("scores without classes")
try:
    torch.nn.functional.cosine_similarity(torch.empty(2**40, 2**10, device="meta"), torch.ones(1, dtype=torch.int32), -2, 1)
except RuntimeError as error:
    assert "is not on the expected device" in str(error)
else:
    raise SystemExit("a thousand million million cosines")
try:
    same = torch.ones(1, dtype=torch.float64)
    torch.special.scaled_modified_bessel_k1(same.expand(many), out=same.expand(70_000))
except (RuntimeError, MemoryError):
    pass
try:
    torch.nn.functional.pixel_shuffle(torch.zeros(0, 0, 1).expand(0, 0, many), 65)
except RuntimeError:
    pass
else:
    raise SystemExit("a side beyond the last integer")
slopes = rows["_standard_gamma_grad"](torch.full((700_000,), 2.0**40), torch.full((700_000,), 2.0**40))
assert (slopes - 1).abs().max() < 1e-6
endless = torch.full((1,), float("inf")).expand(700_000)
assert rows["_standard_gamma_grad"](torch.ones(700_000), endless).isnan().all()
assert rows["_dirichlet_grad"](torch.full((700_000,), 0.5), torch.ones(700_000), endless).isnan().all()
"""


def test_what_was_found():
    """Sizes whose sum overflows, and loops over too many operators."""
    done = subprocess.run([sys.executable, "-c", FOUND], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
