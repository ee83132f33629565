"""Measures the project's figures: rushlight beside torch and NumPy, training, start-up and size, Hogwild, killed processes.

    python benches/run.py                                   # everything
    python benches/run.py small large --torch PYTHON        # torch from another interpreter
    python benches/run.py hogwild kills --rounds 5

It prints what it measured and does not pass or fail. Engines alternate in each round, and the median of the rounds is
printed.
"""

import argparse
import itertools
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import timing

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "examples" / "hogwild_digits.py"


# ---- calls and loops ------------------------------------------------------------------------------------------------


def compare(group, options):
    """Prints one row per statement: the time on each engine, and how many times faster than the others rushlight is."""
    engines = {"rushlight": sys.executable, "torch": options.torch, "numpy": sys.executable}
    rounds = {engine: [] for engine in engines}
    for _ in range(options.rounds):
        for engine, python in engines.items():
            command = [python, HERE / "timing.py", engine, str(options.threads), group]
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(options.threads)}
            answer = subprocess.run(command, capture_output=True, text=True, env=environment)
            if answer.returncode == 0:
                rounds[engine].append(json.loads(answer.stdout))
    print(f"\n{group}, {options.threads} threads{'':20}{''.join(f'{engine:>14}' for engine in engines)}   of torch")
    for title, *_, work in timing.GROUPS[group]():
        cells, own, peer = [], None, None
        for engine, answers in rounds.items():
            found = [answer[title] for answer in answers if title in answer]
            failed = next((value for value in found if isinstance(value, str)), None)
            if failed or not found:
                cells.append(f"{'-' if not failed else 'missing':>14}")
                continue
            value = statistics.median(found)
            own, peer = (value if engine == "rushlight" else own), (value if engine == "torch" else peer)
            cells.append(f"{amount(value, work):>14}")
        ratio = f"{own / peer:10.2f}" if own and peer else f"{'-':>10}"
        print(f"{title:37}{''.join(cells)}{ratio}")


def amount(nanoseconds, work):
    if work:
        unit, count = work
        return f"{count / nanoseconds:.1f} {unit}"
    return f"{nanoseconds / 1000:.2f} us" if nanoseconds > 1000 else f"{nanoseconds:.0f} ns"


def data(options):
    """Prints the figures of loaders, queues and files beside torch, the best of the rounds."""
    engines, found = {"rushlight": sys.executable, "torch": options.torch}, {}
    for _ in range(options.rounds):
        for engine, python in engines.items():
            command = [python, HERE / "timing.py", engine, str(options.threads), "data"]
            answer = subprocess.run(command, capture_output=True, text=True)
            if answer.returncode:
                print(f"{engine}: {answer.stderr.strip().splitlines()[-1]}")
                continue
            for title, value in json.loads(answer.stdout).items():
                found.setdefault(title, {}).setdefault(engine, []).append(value)
    print(
        f"\ndata, {options.threads} threads{'':26}{''.join(f'{engine:>14}' for engine in engines)}   of torch's speed"
    )
    for title, answers in found.items():
        rates = "/s" in title
        best = {engine: (max if rates else min)(values) for engine, values in answers.items()}
        cells = "".join(f"{best[engine]:>14,.1f}" if engine in best else f"{'-':>14}" for engine in engines)
        ratio = best["rushlight"] / best["torch"] if len(best) == 2 else float("nan")
        print(f"{title:45}{cells}{ratio if rates else 1 / ratio:10.2f}")


# ---- start-up -------------------------------------------------------------------------------------------------------


def start(options):
    """Prints the time, the memory and the disk space that `import rushlight` adds to the bare interpreter."""
    program = (
        "import time; t = time.perf_counter(); {}; t = time.perf_counter() - t; "
        "print(t, open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    locate = "import importlib.util as u; print(u.find_spec('{}').submodule_search_locations[0])"

    def measure(python, statement):
        runs = []
        for _ in range(max(options.rounds, 5)):
            answer = subprocess.run([python, "-c", program.format(statement)], capture_output=True, text=True)
            if answer.returncode:
                return None
            runs.append([float(field) for field in answer.stdout.split()])
        return [statistics.median(column) for column in zip(*runs)]

    def megabytes(*files):
        return sum(file.stat().st_size for file in files if file.is_file()) / 1e6

    print(f"\n{'import':10}{'time':>13}{'memory':>12}{'on disk':>12}")
    for engine, python in ("rushlight", sys.executable), ("torch", options.torch), ("numpy", sys.executable):
        bare, full = measure(python, "pass"), measure(python, f"import {engine}")
        if full:
            place = subprocess.run([python, "-c", locate.format(engine)], capture_output=True, text=True).stdout.strip()
            installed = megabytes(*(file for file in Path(place).rglob("*") if "__pycache__" not in file.parts))
            print(
                f"{engine:10}{1000 * (full[0] - bare[0]):10.1f} ms{(full[1] - bare[1]) / 1024:9.1f} MB{installed:9.1f} MB"
            )
    for wheel in sorted((HERE.parent / "dist").glob("*.whl")):
        print(f"{wheel.name}: {megabytes(wheel):.1f} MB")


# ---- Hogwild --------------------------------------------------------------------------------------------------------


def example(*arguments):
    """Starts the example in its own process group."""
    command = [sys.executable, "-u", EXAMPLE, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def hogwild(options):
    """Prints samples per second with one and with two processes at default settings, and the accuracy."""
    rates = {1: [], 2: []}
    accuracies = []
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(options.rounds):
            for processes in rates:
                output, errors = example("--processes", processes, "--seed", round_, "--out", folder).communicate()
                found = re.search(r"held-out accuracy ([\d.]+) %, ([\d,]+) samples/s", output)
                if not found:
                    print(f"hogwild: {errors or output}")
                    return
                rates[processes].append(float(found[2].replace(",", "")))
                if processes == 2:
                    accuracies.append(float(found[1]))
    one, two = (statistics.median(rates[processes]) for processes in (1, 2))
    print("\nhogwild, digits, default settings")
    print(f"  samples/s   1 process {one:10,.0f}   2 processes {two:10,.0f}   {two / one:.2f} times")
    print(f"  accuracy    2 processes {min(accuracies):.2f} to {max(accuracies):.2f} % over {len(accuracies)} seeds")


def members(group):
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split() if entry.name.isdigit() else None
        except OSError:
            continue
        if fields and int(fields[2]) == group and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def shared_pages():
    """Kilobytes of shared memory in use on the whole machine."""
    return int(re.search(r"Shmem: +(\d+)", Path("/proc/meminfo").read_text())[1])


def victims(kind, method, folder):
    """Starts processes and waits until they are ready. Later output is discarded; their files go to the folder."""
    if kind == "trainers":
        command, sign = [EXAMPLE, "--processes", "4", "--epochs", "1000000", "--out", folder], "epoch"
    else:
        command, sign = [HERE / "victims.py", kind, method], "ready"
    process = subprocess.Popen(
        [sys.executable, "-u", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": folder},
    )
    if next((line for line in process.stdout if line.startswith(sign)), None) is None:
        print(f"  {kind} by {method} did not begin")
    return process


def strike(pids):
    hit = 0
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            hit += 1
        except ProcessLookupError:
            pass
    return hit


def kills(options):
    """Kills processes (trainers, loaders, queues, pipes, servers, stores) at random and prints what they leave behind.

    It kills one process, several, all of them, or the parent alone, whose children must then end by themselves.
    """
    shelf, kinds = Path("/dev/shm"), ("trainers", "loaders", "queues", "pipes", "servers", "stores")
    groups = itertools.cycle(itertools.product(("fork", "spawn", "forkserver"), kinds))
    files, pages, done, leaders, stuck, left = set(shelf.iterdir()), shared_pages(), 0, [], 0, []
    begin = time.monotonic()
    while done < options.kills and time.monotonic() - begin < options.seconds:
        method, kind = next(groups)
        with tempfile.TemporaryDirectory() as folder:
            process = victims(kind, method, folder)
            leaders.append(process.pid)
            if random.random() < 0.3:
                time.sleep(random.uniform(0, 0.2))
                done += strike([process.pid])
                deadline = time.monotonic() + 30
                while members(process.pid) and time.monotonic() < deadline:
                    time.sleep(0.05)
                stuck += len(members(process.pid))
            while alive := members(process.pid):
                time.sleep(random.uniform(0, 0.2))
                done += strike(alive if random.random() < 0.2 else random.sample(alive, random.randint(1, len(alive))))
                time.sleep(0.2)
            process.communicate()
            # Results that a trainer writes for the user do not count.
            left += [
                f"{kind} {path.name}" for path in Path(folder).iterdir() if path.suffix not in (".pt", ".json", ".png")
            ]
    time.sleep(1)
    processes = [pid for leader in leaders for pid in members(leader)]
    print(f"\n{done} SIGKILLs among the processes of {len(leaders)} groups ({', '.join(kinds)}; each start method) "
          f"in {time.monotonic() - begin:.0f} s")  # fmt: skip
    print(f"  left behind: {len(processes)} processes, {len(set(shelf.iterdir()) - files)} files in /dev/shm, "
          f"{len(left)} temporary files, {max(0, shared_pages() - pages)} kB of shared memory; "
          f"{stuck} did not notice that their parent was gone")  # fmt: skip
    for name in sorted(set(left)):
        print(f"    {name}")


def main():
    sections = {
        "small": lambda options: compare("small", options),
        "large": lambda options: compare("large", options),
        "training": lambda options: compare("training", options),
        "optimizers": lambda options: compare("optimizers", options),
        "start": start,
        "data": data,
        "hogwild": hogwild,
        "kills": kills,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=f"among {', '.join(sections)}; default all")
    parser.add_argument("--torch", metavar="PYTHON", default=sys.executable, help="an interpreter that has torch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no more than so long for the kills")
    options = parser.parse_args()
    if unknown := set(options.sections) - set(sections):
        parser.error(f"no such section: {', '.join(unknown)}")
    for name in options.sections or sections:
        sections[name](options)


if __name__ == "__main__":
    main()
