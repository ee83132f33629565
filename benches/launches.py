"""Measures what small calls on a GPU cost the host, without a GPU.

    python benches/launches.py

The system's C compiler builds a driver that does nothing (`idle_driver.c`), so that the times are rushlight's own; those of the same calls
on the CPU stand beside them. On a GPU the driver's time comes on top, about two microseconds for a launch. Each time is the least mean of many runs of 200 calls. It does not pass or fail.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).with_name("idle_driver.c")
CALLS = 200
RUNS = 500


def microseconds(call):
    for _ in range(CALLS):
        call()
    best = float("inf")
    for _ in range(RUNS):
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, time.perf_counter() - began)
    return best / CALLS * 1e6


def calls(torch, device):
    """Each call, by its title."""
    x, y = (torch.ones(16, device=device) for _ in range(2))
    half = torch.ones(16, device=device, dtype=torch.bfloat16)
    square, row = torch.ones(4, 4, device=device), torch.ones(4, device=device)
    tracked = torch.ones(16, device=device, requires_grad=True)
    return {
        "a + b": lambda: x + y,
        "a + b, with gradient": lambda: tracked + y,
        "a + b, bfloat16": lambda: half + half,
        "a + row": lambda: square + row,
        "a * 2": lambda: x * 2,
        "a < b": lambda: x < y,
        "a.add_(b)": lambda: x.add_(y),
        "a.relu()": lambda: x.relu(),
        "a.clone()": lambda: x.clone(),
        "a.sum()": lambda: x.sum(),
        "empty(16)": lambda: torch.empty(16, device=device),
    }


def measure():
    import rushlight as torch

    cpu, cuda = calls(torch, "cpu"), calls(torch, "cuda")
    print(f"{'microseconds':<24}{'cpu':>8}{'cuda':>8}")
    for title, call in cuda.items():
        print(f"{title:<24}{microseconds(cpu[title]):8.2f}{microseconds(call):8.2f}", flush=True)


def main():
    if "idle_driver" in os.environ.get("LD_LIBRARY_PATH", ""):
        return measure()
    with tempfile.TemporaryDirectory(suffix="idle_driver") as folder:
        compiler = os.environ.get("CC", "cc")
        library = Path(folder, "libcuda.so.1")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        Path(folder, "libnvrtc.so.13").symlink_to(library)
        # The library path is read when a process starts. No file holds what the idle compiler gives.
        environment = os.environ | {"LD_LIBRARY_PATH": folder, "RUSHLIGHT_KERNEL_CACHE": ""}
        subprocess.run([sys.executable, __file__], env=environment, check=True)


if __name__ == "__main__":
    main()
