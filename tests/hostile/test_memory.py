"""Running out of memory raises an exception, and the process continues."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch

LIMITED = """
import resource
import rushlight as torch
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
few, many = torch.ones(3), 2**36
indices = torch.zeros(3, dtype=torch.int64)
for attempt in (
    lambda: torch.ones(many),
    lambda: torch.ones(0).chunk(many),
    lambda: few.tensor_split(many),
    lambda: torch.histc(few, many),
    lambda: torch.bincount(torch.tensor([many])),
    lambda: torch._C._functions[""]["embedding_dense_backward"](few[:, None], indices, many, -1, False),
    lambda: few.repeat_interleave(torch.tensor([many] * 3)),
    lambda: torch.multinomial(few, many, replacement=True),
    lambda: torch.nn.functional.adaptive_avg_pool1d(torch.ones(1, 1, 3), many),
    lambda: few.expand(many, 3).unique(),
    lambda: few.expand(many, 3).sort(),
    lambda: few.expand(many, 3).tolist(),
    lambda: torch.ones(many, dtype=torch.uint8).share_memory_(),
    # Working space of kernels whose operands and results would fit.
    lambda: torch.zeros(2**29, dtype=torch.uint8).median(),
    lambda: torch.zeros(2**29, dtype=torch.uint8).kthvalue(3),
    lambda: torch.zeros(2**28, dtype=torch.uint8).sort(),
    lambda: torch.zeros(1).expand(2**58).sum(),
    lambda: torch.zeros(1, 1).expand(2**56, 4).sum(0),
    lambda: torch.zeros(1).expand(2**27).unbind(),
    lambda: list(torch.zeros(1).expand(2**45)),
    lambda: torch.nn.functional.avg_pool1d(torch.zeros(1, 1, 1).expand(1, 1, 2**31), 1),
    lambda: torch.fft.fft(torch.zeros(2**26)),
    lambda: torch.nn.functional.adaptive_max_pool1d(torch.zeros(1, 1, 2), 2**31 - 1),
    lambda: torch.nn.functional.max_pool1d(torch.zeros(1, 1, 2**25), 2**25),
    lambda: torch.nn.functional.conv_transpose1d(torch.zeros(1, 1, 2**20), torch.zeros(1, 1, 2**27)),
):
    try:
        attempt()
    except MemoryError:
        continue
    except RuntimeError as error:
        assert "memory" in str(error), error
        continue
    raise SystemExit("memory was promised that is not there")
try:
    [torch.UntypedStorage(2**28).share_memory_() for _ in range(20)]
except MemoryError:
    pass
# What fits once is never held twice.
wide = 2**28
assert torch.zeros(2 * wide, dtype=torch.uint8).topk(3).indices.tolist() == [0, 1, 2]
assert torch.histc(few, wide).sum() == 3
assert torch.bincount(torch.tensor([2**27])).shape == (2**27 + 1,)
assert torch._C._functions[""]["embedding_dense_backward"](few[:, None], indices, wide, -1, False)[0] == 3
print(torch.ones(3).sum().item())
"""


def test_exhaustion_is_an_exception():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr[-2000:]


def test_scratch_that_is_not_there_is_an_exception():
    """If kernels cannot allocate working memory, the process continues."""
    program = [sys.executable, str(Path(__file__).with_name("shortage.py"))]
    # Large blocks are allocated from the system and returned to it, so that none of them is cached in the heap.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, env=environment)
    last = done.stdout.split("\n")[-2:-1]
    assert (done.returncode, last) == (0, ["all"]), (last, done.stderr[-2000:])


def test_a_module_that_cannot_be_loaded_hides_no_error(monkeypatch):
    """Without memory the interpreter may fail to load a module, and reports a wrong error about its source."""
    monkeypatch.setitem(sys.modules, "rushlight._in_python", None)
    with pytest.raises(RuntimeError, match="memory"):
        torch.stft(torch.ones(1).expand(2**50), 512, center=False, return_complex=True, window=torch.ones(512))


GROWING = """
import resource
import rushlight as torch
x = torch.zeros(0, requires_grad=True) * 1
with open("/proc/self/statm") as file:
    held = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (64 << 20), held + (64 << 20)))
steps = 0
try:
    while True:
        x = x + 1
        steps += 1
except MemoryError:
    pass
except RuntimeError as error:
    assert "memory" in str(error), error
del x
print(steps > 1000)
"""


def test_a_history_of_nothing_grows_until_it_is_refused():
    """Tensors without elements need no memory, but recording them does."""
    done = subprocess.run([sys.executable, "-c", GROWING], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr[-2000:]
