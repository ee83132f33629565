"""Attacks every row with random arguments, in processes that may end as they like, and says which call ended one.

    python tests/hostile/fuzz_rows.py --calls 1000000                 # an hour on one core
    python tests/hostile/fuzz_rows.py --calls 1000000 --kind names    # the public names that no row is
    python tests/hostile/fuzz_rows.py --seed 7 --first 1234 --calls 1 # one case again

A signal, a panic, a want of memory where nothing was large, a call without end, a message that shows the engine's inside
and a descriptor that stays open are findings; exceptions are good answers. `rows.py` beside this draws the cases. The tests run a small slice (`test_rows.py`).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = Path(__file__).with_name("rows.py")
#: Cases of one process: enough to pay for its start, few enough to leave it small.
COUNT = 20_000


def attack(kind, seed, first, calls, current):
    """The findings among `calls` cases, one by one; after each the attack goes on behind it."""
    at, last = first, first + calls
    while at < last:
        end = min(at + COUNT, last)
        current.write_bytes(b"")
        command = [sys.executable, "-X", "faulthandler", str(SCRIPT), *map(str, (seed, at, end)), str(current), kind]
        environment = {"RUSHLIGHT_NUM_THREADS": "2", **os.environ, "RUST_BACKTRACE": "0"}
        # Some calls make files.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": current.parent}
        done = subprocess.run(command, env=environment, **quiet)
        if done.returncode == 0:
            at = end
            continue
        case = current.read_text(errors="replace").rstrip()
        error = done.stderr.decode(errors="replace")[-2500:]
        if not case:  # it ended before its first case: so will every other
            yield f"ended with {done.returncode} before its first case\n{error}"
            return
        number = int(case.split()[0])
        again = f"python tests/hostile/fuzz_rows.py --seed {seed} --first {number} --calls 1 --kind {kind}"
        yield f"ended with {done.returncode}: {case}\n{again}\n{error}"
        at = number + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument(
        "--kind", default="rows", choices=("rows", "engine", "names"), help="engine: rows that only the engine calls"
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
