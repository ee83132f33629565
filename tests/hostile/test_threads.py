"""Geometry, indices and masks change while threads compute. Each call uses the old or the new ones, never a mixture,
never freed memory, and never memory outside of an operand.
"""

import subprocess
import sys

import pytest

RACE = """
import threading, time
import rushlight as torch

LONG = 400_000
x, y = torch.rand(LONG), torch.rand(LONG)
p = torch.ones(LONG, requires_grad=True)
over = threading.Event()

def compute():
    while not over.is_set():
        try:
            {work}
        except (RuntimeError, IndexError):
            pass  # the sizes did not fit

threads = [threading.Thread(target=compute) for _ in range(3)]
for thread in threads:
    thread.start()
end = time.monotonic() + {seconds}
changes = 0
while time.monotonic() < end or changes < 2:
    changes += 1
    size = LONG if changes % 2 else LONG // 2
    x.set_(torch.rand(size))
    p.data = torch.ones(size)
    if changes % 5 == 0:
        x.set_()
over.set()
for thread in threads:
    thread.join()
"""

WORKS = {
    "pointwise": "x + y",
    "join": "torch.cat([x, y])",
    "in place": "x.add_(1)",
    "reduction": "x.sum()",
    "order": "x.sort()",
    "copy": "x.clone()",
    "index": "x[torch.arange(50_000)]",
    "random": "x.t().uniform_()",
    "backward": "(p * p + p.exp()).sum().backward(); p.grad = None",
}


@pytest.mark.parametrize("work", WORKS)
def test_geometry_changes_under_kernels(work, thorough):
    script = RACE.format(work=WORKS[work], seconds=5 if thorough else 0.5)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr[-2000:]


INDEX_RACE = """
import threading, time
import rushlight as torch

LONG = 300_000
x, out, table = torch.rand(LONG), torch.zeros(LONG), torch.rand(LONG, 2)
index = torch.zeros(LONG, dtype=torch.int64)
mask = torch.zeros(LONG, dtype=torch.bool)
scores = torch.rand(LONG, 3)
over = threading.Event()

def change():
    # Far enough to end the process, were it ever followed.
    while not over.is_set():
        for place in (2**40, 1, -(2**50), 0):
            index.fill_(place)
            mask.fill_(place in (1, 0))

thread = threading.Thread(target=change)
thread.start()
end = time.monotonic() + {seconds}
refused = done = 0
while time.monotonic() < end or not (({expected}) or time.monotonic() > end + 60):
    try:
        {work}
        done += 1
    except (RuntimeError, IndexError):
        refused += 1
over.set()
thread.join()
assert {expected}
"""

INDEXED = {
    "gather": "torch.gather(x, 0, index)",
    "gather into": "torch.gather(x, 0, index, out=out)",
    "scatter": "out.scatter_(0, index, x)",
    "scatter number": "out.scatter_(0, index, 1.0)",
    "scatter add": "out.scatter_add_(0, index, x)",
    "scatter reduce": "out.scatter_reduce_(0, index, x, 'amax')",
    "take": "torch.take(x, index)",
    "index": "x[index]",
    "put": "out[index] = x",
    "select": "torch.index_select(x, 0, index)",
    "add": "out.index_add_(0, index, x)",
    "embedding": "torch.nn.functional.embedding(index, table)",
    "losses": "torch.nn.functional.nll_loss(scores, index)",
    "pooled": "torch._C._functions['']['_pool_gather'](x, index, 1)",
    "pooled back": "torch._C._functions['']['_pool_scatter'](x, index, x, 1, ())",
}
MASKED = {
    "mask": "x[mask]",
    "mask put": "out[mask] = 2.0",
    "masked select": "torch.masked_select(x, mask)",
    "nonzero": "torch.nonzero(mask)",
    "masked scatter": "out.masked_scatter_(mask, x)",
}


@pytest.mark.parametrize("work", [*INDEXED, *MASKED])
def test_indices_change_under_kernels(work, thorough):
    text = INDEXED.get(work) or MASKED[work]
    expected = "refused and done" if work in INDEXED else "done"
    script = INDEX_RACE.format(work=text, seconds=5 if thorough else 0.3, expected=expected)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr[-2000:]
