"""Geometry changes under threads that compute: each call sees the old or the new one, never a mixture, never freed memory."""

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
