"""Calls every operator with random arguments in child processes, and reports the calls that crashed one.

    python tests/hostile/fuzz_operators.py --calls 1000000                 # an hour on one core
    python tests/hostile/fuzz_operators.py --calls 1000000 --kind names    # public names that are not operators
    python tests/hostile/fuzz_operators.py --seed 7 --first 1234 --calls 1 # repeat one case

Findings are: a signal, a panic, running out of memory without large arguments, a call that does not end, a message that
exposes the engine's internals, and a leaked file descriptor. Exceptions are correct. `operators.py` generates the cases. The
tests run a small part of them (`test_operators.py`).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = Path(__file__).with_name("operators.py")
#: The number of cases per process, which balances start-up time and memory growth.
COUNT = 20_000


def attack(kind, seed, first, calls, current):
    """Yields the findings among `calls` cases. After each finding a new process continues with the next case."""
    at, last = first, first + calls
    while at < last:
        end = min(at + COUNT, last)
        current.write_bytes(b"")
        command = [sys.executable, "-X", "faulthandler", str(SCRIPT), *map(str, (seed, at, end)), str(current), kind]
        environment = {"RUSHLIGHT_NUM_THREADS": "2", **os.environ, "RUST_BACKTRACE": "0"}
        # Some calls create files.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": current.parent}
        done = subprocess.run(command, env=environment, **quiet)
        if done.returncode == 0:
            at = end
            continue
        case = current.read_text(errors="replace").rstrip()
        error = done.stderr.decode(errors="replace")[-2500:]
        if not case:  # it ended before its first case, and so would every other process
            yield f"ended with {done.returncode} before its first case\n{error}"
            return
        number = int(case.split()[0])
        again = f"python tests/hostile/fuzz_operators.py --seed {seed} --first {number} --calls 1 --kind {kind}"
        yield f"ended with {done.returncode}: {case}\n{again}\n{error}"
        at = number + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument(
        "--kind",
        default="operators",
        choices=("operators", "engine", "names"),
        help="engine: operators that only the engine calls",
    )
    options = parser.parse_args()
    started, found = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        for finding in attack(options.kind, options.seed, options.first, options.calls, Path(folder, "current")):
            found += 1
            print(finding, flush=True)
    print(f"{options.calls} calls in {time.monotonic() - started:.0f} s, {found} findings")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
